"""Trials as the speed model sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tuner.core.outcome import Kind
from tuner.search.pruning import paired_log_ratio
from tuner.search.speed.fit import Measured

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from tuner.core.candidate import Candidate
    from tuner.core.trial import TrialRecord
    from tuner.search.speed.model import Rows

_LAUNCH_SIGMA = 0.02
_DRAFT_SIGMA = 0.004


@dataclass(frozen=True, slots=True)
class Trials:
    """Those that have a speed."""

    measured: Measured
    """What generating takes."""
    rest_s: NDArray[np.float64]
    """What each takes a token beside generating it, as far as the goal counts that."""
    candidates: tuple[Candidate, ...]
    numbers: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def are_own(self) -> NDArray[np.bool_]:
        """Which of them are the study's own; those of other studies have no number here."""
        return np.array(self.numbers, dtype=int) >= 0


def trials_of(records: Sequence[TrialRecord], rows_of: Callable[[Sequence[Candidate]], Rows]) -> Trials:
    """The trials that count.

    Args:
        records: All trials.
        rows_of: Candidates as vectors.
    """
    kept = [(r, r.candidate, rates_of(r, records)) for r in records]
    usable = [(r, candidate, rates) for r, candidate, rates in kept if candidate is not None and rates]
    candidates = tuple(candidate for _, candidate, _ in usable)
    rows = rows_of(candidates)
    yields = np.array(
        [_yield(r) if depth else np.nan for (r, _, _), depth in zip(usable, rows.depth, strict=True)],
        dtype=float,
    )
    whole, decode = (np.array([rates[n] for _, _, rates in usable], dtype=float) for n in (0, 1))
    logs = np.log(decode)
    cycles = np.log(np.nan_to_num(yields, nan=1.0)) - logs
    sigma = np.sqrt(_LAUNCH_SIGMA**2 + (_DRAFT_SIGMA * rows.depth) ** 2)
    return Trials(
        Measured(rows, cycles, sigma, yields),
        np.maximum(1 / whole - 1 / decode, 0.0),
        candidates,
        tuple(record.number for record, _, _ in usable),
    )


def rates_of(record: TrialRecord, records: Sequence[TrialRecord]) -> tuple[float, float] | None:
    """Tokens a second of a trial, in all and of generating alone; None where nothing says.

    Of one that was given up, by the prompts that it shares with the best then.
    """
    if record.may_win and record.score is not None and record.decode_tok_s is not None:
        return record.score, record.decode_tok_s
    outcome, result = record.outcome, record.result
    if outcome is None or outcome.kind is not Kind.PRUNED or result is None:
        return None
    whole = [one for one in records if one.may_win and one.candidate is not None and one.result is not None]
    for other in sorted(whole, key=lambda one: -(one.score or 0.0)):
        if other.result is None or other.score is None or other.decode_tok_s is None:
            continue
        goal, theirs = record.goal, other.result.samples
        in_all = paired_log_ratio(result.samples, theirs, goal)
        alone = paired_log_ratio(result.samples, theirs, goal.decoding)
        if in_all is not None and alone is not None:
            return other.score * float(np.exp(in_all[0])), other.decode_tok_s * float(np.exp(alone[0]))
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
