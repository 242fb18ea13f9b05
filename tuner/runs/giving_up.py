"""When going on makes no sense: no candidate could do better, or the rig needs its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.outcome import LOST_DEVICE, MAX_RIG_FAILURES_IN_A_ROW, RIG_FAILURES, Kind
from tuner.errors import EngineError, RigError
from tuner.runs.trial_folder import TrialFolder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tuner.core.trial import TrialRecord


def give_up_if_hopeless(records: Sequence[TrialRecord], folder: Path) -> None:
    """Judge by the last trials whether the next one has a chance.

    A reference that fails is a result; it never ends the run by itself.

    Raises:
        EngineError: The engine, its flags or the model are broken, whatever the candidate.
        RigError: A card is gone, or launch after launch hangs or fails on a device.
    """
    last = records[-1]
    outcome = last.outcome
    if outcome is None:
        return
    log = TrialFolder.of(folder, last.number).log_path
    if last.candidate is not None and outcome.policy.ends_run:
        raise EngineError(f"trial {last.number}: {outcome.kind}: {outcome.evidence} (see {log})")
    if outcome.kind is Kind.DEVICE_ERROR and any(sign in outcome.evidence for sign in LOST_DEVICE):
        raise RigError(
            f"trial {last.number}: a card is gone: {outcome.evidence}. Only a restart of the machine brings it "
            "back; check power, riser and dmesg, then run the same command again: nothing is lost"
        )
    tail = [record.outcome for record in records[-MAX_RIG_FAILURES_IN_A_ROW:]]
    failed = [one.kind for one in tail if one is not None and one.kind in RIG_FAILURES]
    if len(failed) == MAX_RIG_FAILURES_IN_A_ROW:
        raise RigError(
            f"{len(failed)} launches in a row ended with {' and '.join(sorted(set(failed)))}, the last: "
            f"{outcome.evidence}. Check the cards (nvidia-smi, dmesg for XID errors, power, risers, peer access), "
            "then run the same command again: nothing is lost"
        )
