"""Proposes what is likeliest to beat the best so far, by the speed model and what memory allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import erf, log1p, sqrt
from typing import TYPE_CHECKING, cast

import numpy as np

from tuner.core.cards import Bandwidth
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.memory.placement import MIB
from tuner.core.outcome import Kind
from tuner.core.space import Choice
from tuner.search.coordinates import complete
from tuner.search.pruning import paired_log_ratio
from tuner.search.speed.failures import FAR_TOO_SLOW, chance_to_work, failed, weight_of, worked
from tuner.search.speed.fit import Measured, fit, slopes_of
from tuner.search.speed.model import log_cycle_s, log_yield, prior_of
from tuner.search.speed.pool import Pool
from tuner.search.speed.surprise import surprise, usual_sigma
from tuner.search.speed.switches import YIELD_SIGMA, switch_effects, switches_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from tuner.core.candidate import Candidate
    from tuner.core.options import Value
    from tuner.core.trial import TrialRecord
    from tuner.search.coordinates import BoundSpace
    from tuner.search.speed.fit import Fitted
    from tuner.search.speed.model import Prior, Rows

#: Entries that are looked at for memory, the most promising first.
_LOOKED_AT = 600
#: A launch that fits with less than this is left to others.
_GOOD_CHANCE = 0.75
_LAUNCH_SIGMA = 0.02
_DRAFT_SIGMA = 0.004
#: A time that is further off than this, as a logarithm and in usual errors, has a cause that the model cannot know.
_FAR_OFF, _FAR_OFF_SIGMAS = 0.4, 5.0
#: Switches that save so much of a token's time, as a logarithm, are kept.
_WORTH_KEEPING = 0.01
#: A device of which nothing is known, bytes a second; and how sure that is, before a reference was measured and
#: after.
_UNKNOWN_BYTES_S, _UNKNOWN_SIGMA, _BY_REFERENCE_SIGMA = 5e11, 2.0, 1.0


@dataclass(frozen=True, slots=True)
class Idea:
    """A proposal of the speed model."""

    candidate: Candidate
    expected_tok_s: float
    gain: float
    """Expected improvement over the best so far, as a part of it."""


class SpeedSearch:
    """The speed model of one study.

    Args:
        bound: The space on the rig.
        chance_to_fit: The probability that a candidate fits, from 0 to 1.
        room_mib: What may be used of each device, by name.
        bandwidths: What a decode step is expected to reach of each device, by name; None where nothing is known.
    """

    def __init__(
        self,
        bound: BoundSpace,
        chance_to_fit: Callable[[Candidate], float],
        *,
        room_mib: Mapping[str, float],
        bandwidths: Mapping[str, Bandwidth | None],
    ) -> None:
        self._bound = bound
        self._chance = chance_to_fit
        self._pool = Pool(bound)
        room = np.array([room_mib.get(name, 0.0) for name in bound.devices]) * MIB
        n_ctx = bound.imposed.get("ctx-size", bound.space.fixed.get("ctx-size", 0))
        least = self._pool.least_bytes(n_ctx if isinstance(n_ctx, int) else 0)
        self._too_large = (least > room[None, :]).any(axis=1)
        self._viewed: tuple[object, View] | None = None
        plain = self._pool.plain_layers()
        self._plain = None if plain is None else complete(bound, self._pool.options(plain))
        self._bandwidths = tuple(bandwidths.get(name) for name in bound.devices)

    def propose(
        self,
        records: Sequence[TrialRecord],
        refuses: Callable[[Candidate], bool],
        too_large: Callable[[Candidate], bool],
    ) -> Idea | None:
        """What is likeliest to be worth a launch; None where nothing is.

        Args:
            records: All trials.
            refuses: Whether a candidate is out of the question: tried already, or against a rule.
            too_large: Whether it cannot fit.
        """
        if not self._pool.entries:
            return None
        view = self._view(records)
        mean, sigma = view.expected(self._pool.rows)
        best = view.best if view.best is not None else float(np.median(mean))
        gains = _expected_gain(mean, sigma, best)
        gains[self._too_large] = 0.0  # weights and cache alone are more than a device has
        return self._choose(
            gains * self._chance_to_work(records), np.exp(mean), view.good_switches, refuses, too_large
        )

    def chance_of_gain(
        self, records: Sequence[TrialRecord], gain: float, refuses: Callable[[Candidate], bool]
    ) -> float:
        """The probability, from 0 to 1, that the likeliest untried configuration beats the best by so much.

        Args:
            records: All trials.
            gain: As a part of the best.
            refuses: Whether a candidate is out of the question.
        """
        view = self._view(records)
        if view.best is None or not self._pool.entries:
            return 1.0
        mean, sigma = view.expected(self._pool.rows)
        chances = _normal((mean - view.best - log1p(gain)) / sigma)
        chances[self._too_large] = 0.0
        chances *= self._chance_to_work(records)
        for place in np.argsort(-chances, kind="stable")[:_LOOKED_AT]:
            candidate = complete(self._bound, {**self._pool.options(int(place)), **view.good_switches})
            if not refuses(candidate) and self._chance(candidate) >= _GOOD_CHANCE:
                return float(chances[place])
        return 0.0

    def estimates(self, records: Sequence[TrialRecord]) -> dict[int, float]:
        """What each measured candidate makes by all trials together, tok/s by trial: luck is shared out."""
        view = self._view(records)
        if not view.numbers:
            return {}
        mean, _ = view.expected(view.measured.rows)
        own = np.exp(np.where(view.is_far_too_slow, view.measured.log_rates, mean - view.switches))
        return {number: float(one) for number, one in zip(view.numbers, own, strict=True)}

    def usual_error(self, records: Sequence[TrialRecord]) -> float:
        """How far off the model usually is, as a standard deviation of the logarithm of a time."""
        return usual_sigma(self._view(records).fitted.residuals)

    def _chance_to_work(self, records: Sequence[TrialRecord]) -> NDArray[np.float64]:
        slow = self._view(records).far_too_slow
        said = [
            (r.candidate, FAR_TOO_SLOW if r.number in slow else weight_of(r))
            for r in records
            if r.candidate is not None and (failed(r) or worked(r))
        ]
        if self._plain is not None and any(r.reference == ENGINE_DEFAULT and worked(r) for r in records):
            said.append((self._plain, 0.0))
        seen = self._pool.rows_of([candidate for candidate, _ in said])
        return chance_to_work(self._pool.rows, seen, [weight for _, weight in said])

    def _view(self, records: Sequence[TrialRecord]) -> View:
        """The model fitted to the trials; the same trials are fitted once."""
        key = tuple((record.number, record.score, record.outcome) for record in records)
        if self._viewed is None or self._viewed[0] != key:
            self._viewed = (key, self._fit(records))
        return self._viewed[1]

    def _fit(self, records: Sequence[TrialRecord]) -> View:
        measured, candidates, numbers = self._measured(records)
        prior = self._prior(records)
        fitted = fit(prior, measured, 2 * usual_sigma(np.zeros(0)))
        if len(numbers) >= 3:
            fitted = fit(prior, measured, usual_sigma(fitted.residuals))
        noise = np.where(_is_far_too_slow(fitted.residuals), np.inf, measured.cycle_sigma)
        cost = switch_effects(candidates, fitted.residuals, noise)
        off = np.log(measured.yields) - log_yield(fitted.theta, measured.rows.depth)
        drafting = ~np.isnan(off)
        gain = switch_effects(
            candidates,
            np.where(drafting, off, 0.0),
            np.where(drafting, measured.yield_sigma, np.inf),
            prior_sigma=YIELD_SIGMA,
        )
        fitted = replace(fitted, residuals=fitted.residuals - cost)
        return View(prior, measured, fitted, cost - gain, numbers, candidates)

    def _prior(self, records: Sequence[TrialRecord]) -> Prior:
        """What is believed before any candidate: the cards' figures, else what the references made.

        A plain layer split reads every byte once a token, so a reference's rate times the bytes is what its devices
        reach together.
        """
        scores = [r.score for r in records if r.candidate is None and r.score is not None]
        unknown = Bandwidth(_UNKNOWN_BYTES_S, _UNKNOWN_SIGMA)
        if scores:
            unknown = Bandwidth(self._pool.bytes.total * max(scores), _BY_REFERENCE_SIGMA)
        return prior_of([known or unknown for known in self._bandwidths], self._pool.bytes.n_layers)

    def _choose(
        self,
        gains: NDArray[np.float64],
        expected: NDArray[np.float64],
        switches: Mapping[str, Value],
        refuses: Callable[[Candidate], bool],
        too_large: Callable[[Candidate], bool],
    ) -> Idea | None:
        best: Idea | None = None
        looked_at = 0
        for place in np.argsort(-gains, kind="stable"):
            gain = float(gains[place])
            if gain <= 0 or looked_at >= _LOOKED_AT or (best is not None and gain <= best.gain):
                break
            for options in self._fallbacks({**self._pool.options(int(place)), **switches}):
                candidate = complete(self._bound, options)
                if refuses(candidate):
                    break
                looked_at += 1
                if too_large(candidate):
                    continue
                chance = self._chance(candidate)
                if chance < _GOOD_CHANCE:
                    continue
                if best is None or gain * chance > best.gain:
                    best = Idea(candidate, float(expected[place]), gain * chance)
                break
        return best

    def _fallbacks(self, options: Mapping[str, Value]) -> list[dict[str, Value]]:
        """The same configuration with smaller buffers, which cost no speed of generation."""
        rows: list[dict[str, Value]] = [dict(options)]
        sizes = self._choices("ubatch-size")
        if not sizes:
            return rows
        smaller: dict[str, Value] = {"ubatch-size": 128 if 128 in sizes else min(cast("list[int]", sizes))}
        for name in ("spec-draft-type-k", "spec-draft-type-v"):
            if "spec-draft-n-max" in options and "q8_0" in self._choices(name):
                smaller[name] = "q8_0"
        return [*rows, {**options, **smaller}]

    def _choices(self, name: str) -> list[Value]:
        """Values that the space has for an option; none where it does not vary it."""
        parameter = self._bound.space.parameter(name)
        return list(parameter.choices) if isinstance(parameter, Choice) else []

    def _measured(
        self, records: Sequence[TrialRecord]
    ) -> tuple[Measured, tuple[Candidate, ...], tuple[int, ...]]:
        """Trials that count, as the fit sees them, with their candidates and numbers."""
        kept = [(r, r.candidate, _rate(r, records)) for r in records]
        usable = [(r, candidate, score) for r, candidate, score in kept if candidate is not None and score]
        candidates = tuple(candidate for _, candidate, _ in usable)
        rows = self._pool.rows_of(candidates)
        yields = np.array(
            [_yield(r) if depth else np.nan for (r, _, _), depth in zip(usable, rows.depth, strict=True)],
            dtype=float,
        )
        logs = np.log(np.array([score for _, _, score in usable], dtype=float))
        cycles = np.where(np.isnan(yields), 0.0, np.log(np.where(np.isnan(yields), 1.0, yields))) - logs
        sigma = np.sqrt(_LAUNCH_SIGMA**2 + (_DRAFT_SIGMA * rows.depth) ** 2)
        numbers = tuple(record.number for record, _, _ in usable)
        return Measured(rows, cycles, sigma, yields), candidates, numbers


@dataclass(frozen=True, slots=True)
class View:
    """The speed model fitted to some trials."""

    prior: Prior
    measured: Measured
    fitted: Fitted
    switches: NDArray[np.float64]
    """What options that the model does not know cost each trial, as a logarithm of a time."""
    numbers: tuple[int, ...]
    """The trials."""
    candidates: tuple[Candidate, ...]
    """Theirs."""

    @property
    def good_switches(self) -> dict[str, Value]:
        """Options that the model does not know, as the best trial has them, if they are worth something."""
        if not self.numbers:
            return {}
        rates = self.expected(self.measured.rows)[0] - self.switches
        best = int(np.argmax(np.where(self.is_far_too_slow, -np.inf, rates)))
        return switches_of(self.candidates[best]) if self.switches[best] < -_WORTH_KEEPING else {}

    def expected(self, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Logarithm of the expected rate of configurations, and its standard deviation."""
        off = surprise(rows, self.measured.rows, self.fitted.residuals, self.measured.cycle_sigma)
        at, slopes = slopes_of(lambda theta: self._modelled(theta, rows), self.fitted.theta)
        spread = np.linalg.cholesky(self.fitted.covariance)
        variance = ((slopes @ spread) ** 2).sum(axis=1)
        return at - off.mean, np.sqrt(variance + off.sigma**2)

    @property
    def far_too_slow(self) -> frozenset[int]:
        """Trials that are slower than the model can be wrong."""
        return frozenset(
            number for number, one in zip(self.numbers, self.is_far_too_slow, strict=True) if one
        )

    @property
    def is_far_too_slow(self) -> NDArray[np.bool_]:
        """The same, one a trial."""
        return _is_far_too_slow(self.fitted.residuals)

    @property
    def best(self) -> float | None:
        """Logarithm of the best expected rate of what was measured; None before the first."""
        if not self.numbers:
            return None
        return float(self.expected(self.measured.rows)[0].max())

    def _modelled(self, theta: NDArray[np.float64], rows: Rows) -> NDArray[np.float64]:
        return log_yield(theta, rows.depth) - log_cycle_s(theta, rows, self.prior.n_layers)


def _is_far_too_slow(residuals: NDArray[np.float64]) -> NDArray[np.bool_]:
    return residuals > max(_FAR_OFF_SIGMAS * usual_sigma(residuals), _FAR_OFF)


def _expected_gain(mean: NDArray[np.float64], sigma: NDArray[np.float64], best: float) -> NDArray[np.float64]:
    """Expected improvement over the best, as a part of it; of logarithms that are normal."""
    z = (mean - best) / sigma
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    gains: NDArray[np.float64] = (mean - best) * _normal(z) + sigma * density
    return gains


def _normal(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([(1 + erf(value / sqrt(2))) / 2 for value in z])


def _rate(record: TrialRecord, records: Sequence[TrialRecord]) -> float | None:
    """Tokens a second of a trial; of one that was given up, by the prompts that it shares with the best then."""
    if record.may_win:
        return record.score
    outcome, result = record.outcome, record.result
    if outcome is None or outcome.kind is not Kind.PRUNED or result is None:
        return None
    whole = [one for one in records if one.may_win and one.candidate is not None and one.result is not None]
    for other in sorted(whole, key=lambda one: -(one.score or 0.0)):
        found = None if other.result is None else paired_log_ratio(result.samples, other.result.samples)
        if found is not None and other.score is not None:
            return other.score * float(np.exp(found[0]))
    return None


def _yield(record: TrialRecord) -> float:
    """Tokens that a cycle of drafting and verifying yielded, over all prompts.

    Every cycle makes one token itself, and all others were accepted from drafts.
    """
    if record.result is None:
        return 1.0
    tokens = sum(sample.predicted_n - 1 for sample in record.result.samples)
    accepted = sum(sample.draft_n_accepted or 0 for sample in record.result.samples)
    return tokens / max(tokens - accepted, 1)
