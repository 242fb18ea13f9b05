"""How far a study's answers are from those of the largest of several files: as its launches were compared with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.trial import Purpose, TrialRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.quality import Loss


def losses(records: Sequence[TrialRecord], *, is_reference: bool) -> list[tuple[str, Loss]]:
    """Each launch's key and how far it was off, in order; without those of another context.

    Args:
        records: A study's trials.
        is_reference: Whether it is its own plain reference that all are compared with.
    """
    found = []
    for record in records:
        quality = None if record.result is None else record.result.quality
        if quality is None or record.errand.purpose is Purpose.STRETCH:
            continue
        loss = quality.loss if is_reference else quality.to_largest
        if loss is not None:
            found.append((record.key, loss))
    return found


def loss_of(key: str | None, records: Sequence[TrialRecord], *, is_reference: bool) -> Loss | None:
    """How far a configuration is off, by its last launch that was compared; None where none was."""
    return next(
        (loss for one, loss in reversed(losses(records, is_reference=is_reference)) if one == key), None
    )


def least_off_nats(records: Sequence[TrialRecord], *, is_reference: bool) -> float | None:
    """How far the best of its answers are off, whatever made them; None where nobody knows."""
    if is_reference:
        return 0.0
    return min((loss.judged_nats for _, loss in losses(records, is_reference=False)), default=None)
