"""Proposes what is likeliest to beat the best so far, by the speed model and what memory allows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import erf, log1p, sqrt
from typing import TYPE_CHECKING, cast

import numpy as np

from tuner.core.cards import Bandwidth
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.memory.placement import MIB
from tuner.search.coordinates import complete
from tuner.search.speed.explanations import explanations
from tuner.search.speed.failures import FAR_TOO_SLOW, chance_to_work, failed, weight_of, worked
from tuner.search.speed.fit import fit
from tuner.search.speed.model import prior_of
from tuner.search.speed.pool import Pool
from tuner.search.speed.rest import Rest
from tuner.search.speed.surprise import USUAL, usual_sigma
from tuner.search.speed.trials import trials_of
from tuner.search.speed.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from tuner.core.candidate import Candidate
    from tuner.core.launch import LaunchResult
    from tuner.core.options import Value
    from tuner.core.trial import TrialRecord
    from tuner.search.coordinates import BoundSpace
    from tuner.search.speed.in_ram import RamSites
    from tuner.search.speed.model import Prior

#: Entries that are looked at for memory, the most promising first.
_LOOKED_AT = 600
#: A launch that fits with less than this is left to others, unless it promises so many times more than these.
_GOOD_CHANCE, _FAIR_CHANCE, _WORTH_A_RISK = 0.75, 0.5, 3.0
#: Trials from which it is learned how far off the model usually is.
_ENOUGH = 3
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
        streams: Requests at the same time.
        before: Trials of the same rig and model at other contexts, which say how fast this is, but not what fits.
        ram: What has to lie in RAM; None where nothing may.
    """

    def __init__(
        self,
        bound: BoundSpace,
        chance_to_fit: Callable[[Candidate], float],
        *,
        room_mib: Mapping[str, float],
        bandwidths: Mapping[str, Bandwidth | None],
        streams: int = 1,
        before: Sequence[TrialRecord] = (),
        ram: RamSites | None = None,
    ) -> None:
        self._bound = bound
        self._chance = chance_to_fit
        self._pool = Pool(bound, streams, ram)
        room = np.array([room_mib.get(name, 0.0) for name in bound.devices]) * MIB
        n_ctx = bound.imposed.get("ctx-size", bound.space.fixed.get("ctx-size", 0))
        least = self._pool.least_bytes(n_ctx if isinstance(n_ctx, int) else 0)
        # the others' weights and cache alone are more than a device has
        self._places = np.flatnonzero((least <= room[None, :]).all(axis=1))
        self._rows = self._pool.rows.take(self._places)
        self._viewed: tuple[list[LaunchResult], tuple[tuple[float, View], ...]] = ([], ())
        plain = self._pool.plain_layers()
        self._plain = None if plain is None else complete(bound, self._pool.options(plain))
        self._before = tuple(replace(one, number=-1 - place) for place, one in enumerate(before))
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
        if not len(self._rows):
            return None
        gains = np.zeros(len(self._rows))
        for share, view in self._views(records):
            mean, sigma = view.expected(self._rows)
            best = view.best if view.best is not None else float(np.median(mean))
            gains += share * _expected_gain(mean, sigma, best)
        view = self._view(records)
        mean, _ = view.expected(self._rows)
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
        chances = np.zeros(len(self._rows))
        for share, one in self._views(records):
            mean, sigma = one.expected(self._rows)
            chances += share * _normal((mean - (one.best or 0.0) - log1p(gain)) / sigma)
        chances *= self._chance_to_work(records)
        for place in np.argsort(-chances, kind="stable")[:_LOOKED_AT]:
            candidate = complete(self._bound, {**self._options(int(place)), **view.good_switches})
            if not refuses(candidate) and self._chance(candidate) >= _GOOD_CHANCE:
                return float(chances[place])
        return 0.0

    def estimates(self, records: Sequence[TrialRecord]) -> dict[int, float]:
        """What each measured candidate makes by all trials together, tok/s by trial: luck is shared out."""
        views = self._views(records)
        own = sum((share * view.own for share, view in views), start=np.zeros(len(views[0][1].trials)))
        numbers = views[0][1].trials.numbers
        return {number: float(np.exp(one)) for number, one in zip(numbers, own, strict=True) if number >= 0}

    def device_rates(self, records: Sequence[TrialRecord]) -> dict[str, Bandwidth]:
        """What a decode step reaches of each device by the study's own trials, by name; none before some of them."""
        view = self._view(records)
        if int(view.trials.are_own.sum()) < _ENOUGH:
            return {}
        read = view.trials.measured.rows.read_bytes[view.trials.are_own].sum(axis=0) > 0
        sigmas = np.sqrt(np.diag(view.fitted.covariance))
        return {
            name: Bandwidth(float(np.exp(view.fitted.theta[place])), float(sigmas[place]))
            for place, name in enumerate(self._bound.devices)
            if read[place]
        }

    def usual_error(self, records: Sequence[TrialRecord]) -> float:
        """How far off the model usually is, as a standard deviation of the logarithm of a time."""
        return self._view(records).usual_sigma

    def _chance_to_work(self, records: Sequence[TrialRecord]) -> NDArray[np.float64]:
        view = self._view(records)
        slow = {number for number, one in zip(view.trials.numbers, view.is_far_too_slow, strict=True) if one}
        said = [
            (r.candidate, FAR_TOO_SLOW if r.number in slow else weight_of(r))
            for r in records
            if r.candidate is not None and (failed(r) or worked(r))
        ]
        if self._plain is not None and any(r.reference == ENGINE_DEFAULT and worked(r) for r in records):
            said.append((self._plain, 0.0))
        seen = self._pool.rows_of([candidate for candidate, _ in said])
        return chance_to_work(self._rows, seen, [weight for _, weight in said])

    def _view(self, records: Sequence[TrialRecord]) -> View:
        """The likeliest explanation of the trials."""
        return self._views(records)[0][1]

    def _views(self, records: Sequence[TrialRecord]) -> tuple[tuple[float, View], ...]:
        """Each explanation of the trials and its probability; the same trials are fitted once.

        Those that still run say nothing yet.
        """
        known, views = self._viewed
        results = [record.result for record in records if record.result is not None]
        if (
            not views
            or len(known) != len(results)
            or any(a is not b for a, b in zip(known, results, strict=True))
        ):
            views = self._fit(records)
            self._viewed = (results, views)
        return views

    def _fit(self, records: Sequence[TrialRecord]) -> tuple[tuple[float, View], ...]:
        trials = trials_of([*self._before, *records], self._pool.rows_of)
        prior = self._prior(records)
        usual = usual_sigma(np.zeros(0))
        if len(trials) >= _ENOUGH:
            usual = usual_sigma(fit(prior, trials.measured, 2 * usual).residuals)
        rest = Rest.of(trials.measured.rows, trials.rest_s, records)
        return tuple(
            (share, View.of(trials, one, prior.n_layers, usual, rest))
            for share, one in explanations(prior, trials.measured, usual, USUAL)
        )

    def _prior(self, records: Sequence[TrialRecord]) -> Prior:
        """What is believed before any candidate: the cards' figures, else what the references made.

        A plain layer split reads every byte once a token, so a reference's rate times the bytes is what its devices
        reach together.
        """
        scores = [r.decode_tok_s for r in records if r.candidate is None and r.decode_tok_s is not None]
        unknown = Bandwidth(_UNKNOWN_BYTES_S, _UNKNOWN_SIGMA)
        if scores:
            unknown = Bandwidth(self._pool.reading.total * max(scores), _BY_REFERENCE_SIGMA)
        return prior_of([known or unknown for known in self._bandwidths], self._pool.reading.n_layers)

    def _choose(
        self,
        gains: NDArray[np.float64],
        expected: NDArray[np.float64],
        switches: Mapping[str, Value],
        refuses: Callable[[Candidate], bool],
        too_large: Callable[[Candidate], bool],
    ) -> Idea | None:
        best: Idea | None = None
        risky: Idea | None = None
        looked_at = 0
        for place in np.argsort(-gains, kind="stable"):
            gain = float(gains[place])
            if gain <= 0 or looked_at >= _LOOKED_AT or (best is not None and gain <= best.gain):
                break
            for options in self._fallbacks({**self._options(int(place)), **switches}):
                candidate = complete(self._bound, options)
                if refuses(candidate):
                    break
                looked_at += 1
                if too_large(candidate):
                    continue
                chance = self._chance(candidate)
                if chance < _GOOD_CHANCE:
                    if chance >= _FAIR_CHANCE and (risky is None or gain * chance > risky.gain):
                        risky = Idea(candidate, float(expected[place]), gain * chance)
                    continue
                if best is None or gain * chance > best.gain:
                    best = Idea(candidate, float(expected[place]), gain * chance)
                break
        if risky is not None and (best is None or risky.gain > _WORTH_A_RISK * best.gain):
            return risky
        return best

    def _options(self, place: int) -> dict[str, Value]:
        """The options of one of the rows."""
        return self._pool.options(int(self._places[place]))

    def _fallbacks(self, options: Mapping[str, Value]) -> list[dict[str, Value]]:
        """The same configuration with smaller buffers, which cost no speed of generation.

        A quantised cache of the drafts is smaller, but is unpacked into a buffer: in a long context it takes more.
        """
        rows: list[dict[str, Value]] = [dict(options)]
        sizes = self._bound.space.choices("ubatch-size")
        if not sizes:
            return rows
        rows.append({**options, "ubatch-size": 128 if 128 in sizes else min(cast("tuple[int, ...]", sizes))})
        types = [
            name
            for name in ("spec-draft-type-k", "spec-draft-type-v")
            if "q8_0" in self._bound.space.choices(name)
        ]
        if "spec-draft-n-max" in options and types:
            rows.append({**rows[-1], **dict.fromkeys(types, "q8_0")})
        return rows


def _expected_gain(mean: NDArray[np.float64], sigma: NDArray[np.float64], best: float) -> NDArray[np.float64]:
    """Expected improvement over the best, as a part of it; of logarithms that are normal."""
    z = (mean - best) / sigma
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    gains: NDArray[np.float64] = (mean - best) * _normal(z) + sigma * density
    return gains


def _normal(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([(1 + erf(value / sqrt(2))) / 2 for value in z])
