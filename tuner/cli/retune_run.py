"""`tuner retune`: the run itself, in a study of its own beside the old one."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from tuner.cli.build.retune import assemble_retune
from tuner.cli.dates import now
from tuner.cli.history import remember, remember_best, winner_name
from tuner.cli.retune_study import base_name, found_of, open_study, run_over
from tuner.cli.saying import say
from tuner.cli.study_folder import BEST, REGRESSION, RETUNED, check_writable, read_retuned
from tuner.cli.tuning import NOTHING_MEASURED, holding, may_start, take_study
from tuner.core.history import basis_of, entry_of
from tuner.core.launch import PREVIOUS
from tuner.errors import UsageError
from tuner.report.best import best_document, check_best
from tuner.report.regression import regression_report
from tuner.report.retuned import retuned_document, verdict_sentences
from tuner.runs.builds import EitherLauncher
from tuner.runs.trial_folder import TrialFolder, write_json, write_text
from tuner.search.canary.claim import measured_ratio
from tuner.search.canary.verdict import WIDE, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tuner.cli.build.changed import Changed, RetuneOptions
    from tuner.cli.build.retune import RetuneAssembly
    from tuner.core.history import Entry
    from tuner.report.retuned import Found
    from tuner.runs.retune import Retuned
    from tuner.study import StudyStore

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")
_STATE_CHARACTERS = 8


def retune_study(
    changed: Changed,
    options: RetuneOptions,
    environ: Mapping[str, str],
    config_home: Path,
    *,
    again: bool,
    yes: bool,
) -> int:
    """Launch the canary, and search where that is worth while; the exit code.

    Raises:
        TunerError: It cannot start or go on.
        typer.Exit: Somebody asked to stop.
    """
    folder = _folder(changed, options, again=again)
    known = read_retuned(folder)
    if known is not None:
        say(f"This was found out on {known['date'][:10]} ({folder}); --again measures it anew.")
        for line in known["sentences"]:
            say(line)
        return int(known["exit_code"])
    check_writable(folder)
    with contextlib.ExitStack() as stack:
        take_study(folder, stack)
        assembly = assemble_retune(changed, options, environ, config_home)
        for line in _first_screen(assembly, folder):
            say(line)
        if not may_start(yes=yes):
            return 0
        interrupts = stack.enter_context(holding(changed.assembly.rig))
        store = open_study(changed, folder)
        launcher = changed.assembly.launcher
        either = (
            launcher
            if assembly.previous.launcher is None
            else EitherLauncher(launcher, assembly.previous.launcher)
        )
        run = run_over(changed, assembly.plan, either, store=store, folder=folder, interrupts=interrupts)
        retuned = run.run()
        if interrupts.received is not None:
            say("Stopped; the same command goes on with it.")
            raise typer.Exit(128 + interrupts.received)
        return _conclude(assembly, retuned, store, folder, options)


def _folder(changed: Changed, options: RetuneOptions, *, again: bool) -> Path:
    """Where the study of this retune is, or will be: beside the old one, named by what there is now."""
    if options.study is not None:
        if _NAME.fullmatch(options.study) is None:
            raise UsageError(
                f"--study {options.study!r}: letters, digits and . _ + - only; it names a folder"
            )
        return options.results / options.study
    name = f"{base_name(changed.best.document)}-{changed.state[:_STATE_CHARACTERS]}"
    folder, number = options.results / name, 1
    while again and read_retuned(folder) is not None:
        number += 1
        folder = options.results / f"{name}-{number}"
    return folder


def _first_screen(assembly: RetuneAssembly, folder: Path) -> list[str]:
    plan = assembly.plan
    lines = [f"Now: {assembly.changed.assembly.engine.path}"]
    if assembly.previous.spec is not None and assembly.previous.launcher is not None:
        lines.append(f"Then: {assembly.previous.launcher.engine.path}, launched in turns with it")
    else:
        lines.append(f"Then: cannot be launched beside it: {assembly.previous.why_not}")
    lines += [f"Beside them: {spec.label} ({why})" for why, spec in plan.beside]
    lines += [f"The winner is not launched: {one}" for one in assembly.changed.lost]
    if plan.best.flags and plan.best.candidate is not None:
        lines.append(f"Said now, as it was the default then: {' '.join(plan.best.flags)}")
    lines += [
        f"Budget: at most {plan.launches} launches, {plan.blocks} a side",
        f"Results: {folder}; {assembly.changed.best.path} stays as it is",
    ]
    return lines


def _conclude(
    assembly: RetuneAssembly, retuned: Retuned, store: StudyStore, folder: Path, options: RetuneOptions
) -> int:
    """Say and write down what came of it; the exit code."""
    changed, plan = assembly.changed, assembly.plan
    found = found_of(retuned, plan, store)
    if found is None:
        say(f"The run ends: {retuned.ending.why}.")
        return NOTHING_MEASURED
    say(f"The run ends: {retuned.ending.why}.")
    sentences = verdict_sentences(found)
    best = _new_best(retuned, store, folder)
    verdict = found.judged.verdict
    sentences += _log_of(found, folder)
    if verdict is Verdict.SLOWER:
        report = regression_report(changed.best.document, changed.assembly.facts, found)
        write_text(folder / REGRESSION, report)
        sentences.append(f"To paste into an issue: {folder / REGRESSION}")
    state = changed.state
    basis = basis_of(changed.best.document)
    rig = changed.assembly.rig
    if best is not None:
        sentences += [f"{_new(best)}:", best["winner"]["command"], f"Written: {folder / BEST}"]
        remember_best(best, rig, options.facts, verdict=verdict.value, basis=basis, state=state)
    elif verdict is Verdict.UNCHANGED and found.judged.shortfall(plan.best.key) > WIDE:
        sentences.append(f"Nothing was rewritten: {changed.best.path} stays as it is.")
    elif verdict is Verdict.UNCHANGED:
        sentences.append(f"Nothing was rewritten: {changed.best.path} holds for what there is now.")
        remember(_unchanged(assembly, found, store), rig, options.facts)
    else:
        sentences.append(
            f"Nothing better was proved: {retuned.ending.why}. {changed.best.path} stays as it is."
        )
    for line in sentences:
        say(line)
    code = 0 if best is not None or verdict in {Verdict.UNCHANGED, Verdict.FASTER} else NOTHING_MEASURED
    write_json(
        folder / RETUNED,
        {
            "date": now(),
            "of": str(changed.best.path.absolute()),
            "basis": basis,
            "state": state,
            "exit_code": code,
            "changes": [
                {"part": one.part, "state": one.state.value, "what": one.what} for one in changed.changes
            ],
            **retuned_document(found),
            "sentences": sentences,
        },
    )
    return code


def _unchanged(assembly: RetuneAssembly, found: Found, store: StudyStore) -> Entry:
    """What is kept of a result that still holds: its configuration, and what it makes now."""
    changed, plan = assembly.changed, assembly.plan
    own = found.rates(plan.best.key)
    default = plan.references[0]
    measured = measured_ratio(found.canary, found.records, best=plan.best.key, reference=default.key)
    study = {**changed.best.document["study"], "name": store.facts["study"]["name"]}
    best = {
        **changed.best.document,
        "date": now(),
        "engine": changed.assembly.facts["engine"],
        "study": study | {"created": store.facts["study"]["created"]},
    }
    return replace(
        entry_of(
            best,
            winner_name(best),
            verdict=found.judged.verdict.value,
            basis=basis_of(changed.best.document),
            state=changed.state,
        ),
        score_tok_s=None if own is None else own.ratio,
        reference=None if measured is None else default.reference,
        ratio=None if measured is None else measured.ratio,
        low=None if measured is None else measured.low,
        high=None if measured is None else measured.high,
    )


def _log_of(found: Found, folder: Path) -> list[str]:
    """Where a broken best says why, and what reads it."""
    failed = [one for one in found.records if one.key == found.arms.best and one.score is None]
    if found.judged.verdict is not Verdict.BROKEN or not failed:
        return []
    log = TrialFolder.of(folder, failed[-1].number).log_path
    return [f"What it said: {log}; what to change first: tuner diagnose {log}"]


def _new(best: Mapping[str, Any]) -> str:
    """How the best of now compares with what was best before, as it was, where that was launched beside it."""
    rows = {row["name"]: row for row in best["confirmation"]["references"]}
    row = rows.get(PREVIOUS)
    if row is None or row["interval"] is None:
        return f"The best of now, {winner_name(best)}"
    low, high = row["interval"]
    return (
        f"The best of now, {winner_name(best)}: {row['ratio']:.3f} times what was best before, as it was "
        f"(95 %: {low:.3f} to {high:.3f})"
    )


def _new_best(retuned: Retuned, store: StudyStore, folder: Path) -> dict[str, Any] | None:
    """The new best.json, written; None where the old one stands."""
    if retuned.winner is None:
        return None
    best = best_document(store.records(), store.facts, date=now(), confirmation=store.confirmation())
    if best is None:
        return None
    check_best(best)
    write_json(folder / BEST, best)
    return best
