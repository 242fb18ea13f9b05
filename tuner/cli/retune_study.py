"""The study of a retune on disk: where it is, what it says of itself, and a run over it."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tuner.cli.progress import LineProgress
from tuner.cli.saying import say
from tuner.cli.study_folder import DATABASE
from tuner.cli.tuning import keep_help, memory_keeper
from tuner.errors import ResultsError
from tuner.report.retuned import Found
from tuner.rig.monitor import RigMonitor
from tuner.runs.budget import Budget
from tuner.runs.retune import Retuned, RetuneRun
from tuner.study import StudyStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tuner.cli.build.changed import Changed
    from tuner.runs.interrupt import SignalInterrupts
    from tuner.runs.protocols import Launcher
    from tuner.runs.retune_plan import RetunePlan


def base_name(document: Mapping[str, Any]) -> str:
    """The name of the study that all retunes of a result go back to."""
    return str((document["study"].get("retune") or {}).get("base", document["study"]["name"]))


def open_study(changed: Changed, folder: Path) -> StudyStore:
    """The record of a retune, which is made where there is none.

    Raises:
        ResultsError: Its folder cannot be made.
        StudyError: It cannot be made or read, or was made with something else.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResultsError(f"{folder} cannot be made: {error.strerror or error}") from error
    keep_help(folder, changed.assembly.engine.help)
    best, facts = changed.best.document, changed.assembly.facts
    retune = {
        "base": base_name(best),
        "of": best["study"]["name"],
        "created": best["study"]["created"],
        "engine": best["engine"]["version"],
    }
    study = {**facts["study"], "name": folder.name, "retune": retune}
    return StudyStore.for_run(
        folder / DATABASE, changed.assembly.identity, MappingProxyType({**facts, "study": study})
    )


def run_over(
    changed: Changed,
    plan: RetunePlan,
    launcher: Launcher,
    *,
    store: StudyStore,
    folder: Path,
    interrupts: SignalInterrupts,
) -> RetuneRun:
    """A run over that study."""
    before = sum(record.wall_s for record in store.records())
    cool_to_c = changed.best.document["study"]["options"]["cool_to_c"]
    return RetuneRun(
        plan,
        store=store,
        folder=folder,
        launcher=launcher,
        monitor=RigMonitor(changed.assembly.rig, cool_to_c=cool_to_c),
        progress=LineProgress(say, Budget(plan.seconds, plan.launches), used_before_s=before),
        interrupts=interrupts,
        remember=memory_keeper(changed.assembly.memory_facts),
    )


def found_of(retuned: Retuned, plan: RetunePlan, store: StudyStore) -> Found | None:
    """What its canary found; None where it was interrupted before."""
    if retuned.judged is None or retuned.canary is None:
        return None
    return Found(
        judged=retuned.judged,
        arms=plan.arms,
        canary=retuned.canary,
        records=store.records(),
        then=plan.before.scores,
        suspected=retuned.suspected,
    )
