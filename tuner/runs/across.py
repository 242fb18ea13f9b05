"""Whether what was best answers as it did: what it would say next, as it is and as it was."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.core.launch import ENGINE_DEFAULT, trial_key
from tuner.core.quality import Probe, bound_nats, loss
from tuner.runs.quality_gate import PROBE, QualityGate
from tuner.runs.trial_folder import TrialFolder, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tuner.core.launch import LaunchResult, LaunchSpec
    from tuner.core.quality import Loss
    from tuner.core.trial import TrialRecord
    from tuner.runs.quality_gate import Look

_SAID = "next-tokens.json"


class KeepingGate(QualityGate):
    """Keeps with each trial what its server would say next, so that any two can be compared."""

    def examined(
        self, result: LaunchResult, folder: TrialFolder, spec: LaunchSpec, look: Look | None
    ) -> LaunchResult:
        """As its own; what was seen is kept.

        Raises:
            ResultsError: What the server says cannot be kept.
        """
        examined = super().examined(result, folder, spec, look)
        if look is not None and look.probes and look.probes[0].positions:
            write_json(folder.path / _SAID, look.probes[0].to_json())
        return examined


def other_answers(
    folder: Path, records: Sequence[TrialRecord], *, best: str, previous: str | None, plain_then: Probe | None
) -> str | None:
    """Why answers are not those of before; None where nothing says so.

    What was best is compared with itself as it was. Where that could not be launched, the engine's own choice is
    compared with what it said then.

    Args:
        folder: The study's.
        records: All trials.
        best: The key of what was best, as it is now.
        previous: The key of the same as it was; None where there is none.
        plain_then: What the engine's own choice said then; None where nobody knows.
    """
    then = [] if previous is None else _said(folder, records, previous)
    if then:
        now, where = _said(folder, records, best), "what was best says"
    else:
        now, where = _said(folder, records, trial_key(None, ENGINE_DEFAULT)), "the engine's own choice says"
        then = [] if plain_then is None else [plain_then]
    if not now or not then:
        return None
    noise = _loss(then[0], then[1]) if len(then) > 1 else None
    found = _loss(then[-1], now[-1])
    bound = bound_nats(0.0 if noise is None else noise.judged_nats)
    if found is None or found.judged_nats <= bound:
        return None
    return (
        f"{where} other next tokens than before: {found.judged_nats:.2g} nats off at {found.positions} places, "
        f"{found.top1:.0%} of the likeliest are the same; at most {bound:.2g} nats are noise"
    )


def plain_probe(folder: Path, records: Sequence[TrialRecord]) -> Probe | None:
    """What a study's plain reference said; None where its folder does not say."""
    for record in records:
        if record.reference == ENGINE_DEFAULT and record.score is not None:
            found = _read(TrialFolder.of(folder, record.number).path / PROBE)
            if found is not None:
                return found
    return None


def _said(folder: Path, records: Sequence[TrialRecord], key: str) -> list[Probe]:
    """What a configuration would say next, launch by launch."""
    numbers = [record.number for record in records if record.key == key and record.score is not None]
    probes = (_read(TrialFolder.of(folder, number).path / _SAID) for number in numbers)
    return [probe for probe in probes if probe is not None]


def _loss(reference: Probe, other: Probe) -> Loss | None:
    """How far one is off the other; deep places count where both lie behind the same text."""
    if reference.deep_characters != other.deep_characters:
        reference, other = (
            replace(one, positions=tuple(place for place in one.positions if not place.deep))
            for one in (reference, other)
        )
    return loss(reference, other)


def _read(path: Path) -> Probe | None:
    try:
        return Probe.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
