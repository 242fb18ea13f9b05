"""What a report is made of, read from a study; nothing there is changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.cli.study_folder import LADDER, TABLE
from tuner.core.assignment.splits import Splits
from tuner.core.memory.learned import Learned
from tuner.core.memory.predict import Predictor
from tuner.core.rig import Device, device_identity
from tuner.engine.gguf import read_model
from tuner.errors import ModelError
from tuner.importances import importances
from tuner.report.headline import winning
from tuner.report.view.inputs import ReportInputs
from tuner.report.view.slots import BuildPoint
from tuner.report.view.walls import walls_of_modes
from tuner.rig.history import History
from tuner.search.memory_gate import MemoryGate
from tuner.study.trial_store import NOTHING_KEPT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.cli.opened import OpenedStudy
    from tuner.core.trial import TrialRecord
    from tuner.study import TrialStore


def report_inputs(
    study: OpenedStudy, *, with_walls: bool = True, facts_folder: Path | None = None
) -> ReportInputs:
    """Read a study.

    Args:
        study: It; a run may be going on with it.
        with_walls: Whether it is worked out where the cards are full and what lies where, for a second or two.
        facts_folder: Where what rigs have taught is kept; the user's data folder if None.

    Raises:
        StudyError: It cannot be read.
    """
    store, folder = study.store, study.own_folder
    records, confirmation = tuple(store.records()), store.confirmation()
    kept = study.kept()
    needs = {record.number: kept.get(record.number, NOTHING_KEPT).needs_mib for record in records}
    winner = winning(records, confirmation)
    known = _memory(store, records) if with_walls else None
    return ReportInputs(
        records=records,
        facts=store.facts,
        confirmation=confirmation,
        not_launched=store.not_launched(),
        clock=store.clock(),
        importances=importances(records),
        needs={number: need for number, need in needs.items() if need},
        log_tails={
            record.number: kept.get(record.number, NOTHING_KEPT).log_tail
            for record in records
            if record.result
            is not None  # the log of a server that still runs may hold what is taken out at its end
        },
        series=() if winner is None else study.readings(winner.number),
        walls=None if known is None else walls_of_modes(records, confirmation, needs, *known),
        ladder=None if folder is None else _ladder_of(folder),
        engines=None if folder is None else _engines_of(folder),
        builds=_builds_of(store, facts_folder),
        running=study.is_running(),
        workers=study.workers(),
    )


def _builds_of(store: TrialStore, facts_folder: Path | None) -> tuple[BuildPoint, ...]:
    """What was best on the study's rig when, with the same model, context and workload; nothing before its end."""
    facts = store.facts
    identity = tuple(
        device_identity(row["uuid"], row["name"], row["description"]) for row in facts["devices"]
    )
    entries = History(identity, facts_folder).load().entries
    study = facts["study"]
    own = next(
        (one for one in entries if (one.study, one.created) == (study["name"], study["created"])), None
    )
    if own is None:
        return ()
    alike = (own.model_fingerprint, own.context, own.workload)
    return tuple(
        BuildPoint(
            one.date,
            f"{one.engine_version.removeprefix('version: ')} [{one.engine_digest[:8]}]",
            one.score_tok_s,
            None,
            None,
            one.configuration,
        )
        for one in entries
        if (one.model_fingerprint, one.context, one.workload) == alike and one.score_tok_s is not None
    )


def _ladder_of(folder: Path) -> Mapping[str, Any] | None:
    """ladder.json of the ladder that the study is a rung of; None where it is none."""
    document = _beside(folder, LADDER)
    contexts = {str(rung.get("context")) for rung in (document or {}).get("rungs", ())}
    return document if folder.resolve().name in contexts else None


def _engines_of(folder: Path) -> Mapping[str, Any] | None:
    """table.json of the study over several engines and files that this is one of; None where it is none."""
    document = _beside(folder, TABLE)
    names = {row.get("name") for row in (document or {}).get("rows", ())}
    return document if folder.resolve().name in names else None


def _beside(folder: Path, name: str) -> dict[str, Any] | None:
    """A document in the folder that the study's is in; None where there is none that can be read."""
    try:
        document = json.loads((folder.resolve().parent / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def _memory(store: TrialStore, records: Sequence[TrialRecord]) -> tuple[Splits, MemoryGate] | None:
    """What predicts memory, with all that the study has taught; None where the model cannot be read any more."""
    facts, room = store.facts, store.facts.get("memory")
    if room is None:
        return None  # a study from before it was kept
    try:
        model = read_model(Path(facts["model"]["path"]))
    except ModelError:
        return None
    if model.fingerprint != facts["model"]["fingerprint"]:
        return None
    devices = tuple(
        Device(
            name=one["name"],
            description=one["description"],
            total_mib=one["total_mib"],
            free_mib=room["free_mib"].get(one["name"], one["total_mib"]),
            uuid=one["uuid"],
            bus_id=one["bus_id"],
            stated=one["memory_stated"],
        )
        for one in facts["devices"]
    )
    source = f"{facts['engine']['digest'][:12]}/{model.fingerprint[:12]}"
    splits = Splits(model)
    predictor = Predictor(splits, devices, learned=Learned(store.known_memory(), source))
    gate = MemoryGate(predictor, devices, reserve_mib=room["reserve_mib"], source=source)
    gate.learn(records)
    return splits, gate
