"""What a retune found, as a document and in sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.report.proof import configuration
from tuner.search.canary.verdict import WIDE, Verdict, rates_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.trial import TrialRecord
    from tuner.search.canary.arms import Arms
    from tuner.search.canary.verdict import Change, Judged
    from tuner.search.confirmation.estimate import Estimate
    from tuner.search.confirmation.state import Confirmation

_SAID = {
    Verdict.UNCHANGED: "Unchanged",
    Verdict.FASTER: "Faster",
    Verdict.SLOWER: "Slower",
    Verdict.BROKEN: "Broken",
    Verdict.OUTPUT_CHANGED: "Output changed",
    Verdict.UNKNOWN: "Not known",
}


@dataclass(frozen=True, slots=True)
class Found:
    """What a canary found, and what that is known from."""

    judged: Judged
    arms: Arms
    canary: Confirmation
    records: Sequence[TrialRecord]
    then: Mapping[str, Sequence[float]]
    """What each launch made before, by the keys of now."""
    suspected: frozenset[str]
    """Options that are behind a change, as far as launches tell."""

    @property
    def own(self) -> Change | None:
        """How the old best has changed; None where that is not known."""
        return self.judged.changes.get(self.arms.best)

    def rates(self, key: str) -> Estimate | None:
        """The level at which a configuration was launched now; None where it was not measured."""
        known = rates_of(self.canary, self.records, self.then).get(key)
        return None if known is None else known.level_now

    def name(self, key: str) -> str:
        """What people call a configuration."""
        return configuration(key, self.records)


def verdict_sentences(found: Found) -> list[str]:
    """What became of the old best, for people, the verdict first."""
    judged, arms, own = found.judged, found.arms, found.own
    short = judged.shortfall(arms.best) if judged.verdict is Verdict.UNCHANGED else 0.0
    said = _SAID[judged.verdict] if short <= WIDE else "Unchanged, as far as these launches tell"
    parts = [f"{said}: {found.name(arms.best)}"]
    if judged.why:
        parts.append(judged.why)
    if own is not None:
        parts.append(f"now over then: {changed(own)}")
    elif judged.verdict is Verdict.UNKNOWN:
        parts.append("it was not launched often enough to say")
    lines = ["; ".join(parts) + "."]
    if short > WIDE:
        lines.append(
            f"They differ so much that it may be slower by up to {short:.0%} all the same: a larger --confirm on a "
            "quieter machine tells more."
        )
    suspected = ", ".join(sorted(found.suspected))
    if len(found.suspected) > 1:
        lines.append(f"What is behind it is among: {suspected} (these launches do not tell them apart).")
    elif suspected:
        lines.append(f"What is behind it: {suspected}.")
    lines += [
        f"{found.name(key)}: now over then: {changed(change)}."
        for key, change in judged.changes.items()
        if key != arms.best and key in {*arms.references, *arms.beside}
    ]
    if own is not None and not own.in_turns:
        lines.append(
            "What it was is not there to be launched beside it: its records stand for it, so a change of the machine "
            "counts, too."
        )
    return lines


def retuned_document(found: Found) -> dict[str, Any]:
    """The verdict and what stands behind it, as plain JSON."""
    judged = found.judged
    rates = rates_of(found.canary, found.records, found.then)
    rows = []
    for key in dict.fromkeys((*found.canary.plan.arms, *judged.changes)):
        change = judged.changes.get(key)
        rows.append(
            {
                "configuration": found.name(key),
                "role": _role(key, found.arms),
                "now_tok_s": list(rates[key].now.values()) if key in rates else [],
                "then_tok_s": list(found.then.get(key, ())),
                "change": None if change is None else _change_document(change),
                "left_out": found.canary.out.get(key),
            }
        )
    return {
        "verdict": judged.verdict.value,
        "why": judged.why,
        "suspected": sorted(found.suspected),
        "launches": len(found.records),
        "sentences": verdict_sentences(found),
        "configurations": rows,
    }


def _role(key: str, arms: Arms) -> str:
    if key == arms.best:
        return "best"
    if key == arms.previous:
        return "previous"
    return "reference" if key in arms.references else "beside"


def _change_document(change: Change) -> dict[str, Any]:
    interval = change.interval
    return {
        "ratio": change.ratio,
        "interval": None if interval is None else [interval.low, interval.high],
        "in_turns": change.in_turns,
    }


def changed(change: Change) -> str:
    """A ratio with its interval."""
    interval = change.interval
    if interval is None:
        return f"{change.ratio:.3f}x (too few launches for an interval)"
    text = f"{interval.ratio:.3f}x (95 %: {interval.low:.3f} to {interval.high:.3f})"
    return text if interval.significant else f"{text}, no significant difference"
