"""`tuner retune --measure`: the claim of a result, measured: the winner and the reference in turns, nothing else."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING

import typer

from tuner.cli.build.retune import assemble_measure
from tuner.cli.retune_study import base_name, found_of, open_study, run_over
from tuner.cli.saying import say
from tuner.cli.study_folder import DATABASE, check_writable
from tuner.cli.tuning import holding, take_study
from tuner.core.freshness.change import Freshness
from tuner.errors import StudyError
from tuner.search.canary.claim import claim_of, measured_ratio
from tuner.search.canary.verdict import WIDE

if TYPE_CHECKING:
    from tuner.cli.build.changed import Changed, RetuneOptions


def measure_claim(changed: Changed, options: RetuneOptions) -> Freshness:
    """Whether what the result claims is what launches of now show.

    What an earlier measurement has left behind is replaced.

    Raises:
        StudyError: It claims nothing.
        TunerError: It cannot be measured at all.
        typer.Exit: Somebody asked to stop.
    """
    claim = claim_of(changed.best.document)
    if claim is None:
        raise StudyError(f"{changed.best.path} compares its winner with nothing: there is nothing to measure")
    plan = assemble_measure(changed, options, claim)
    folder = options.results / f"{base_name(changed.best.document)}-measured"
    check_writable(folder)
    with contextlib.ExitStack() as stack:
        take_study(folder, stack)
        shutil.rmtree(folder / "trials", ignore_errors=True)
        (folder / DATABASE).unlink(missing_ok=True)
        interrupts = stack.enter_context(holding(changed.assembly.rig))
        store = open_study(changed, folder)
        launcher = changed.assembly.launcher
        run = run_over(changed, plan, launcher, store=store, folder=folder, interrupts=interrupts)
        retuned = run.measure()
        if interrupts.received is not None:
            raise typer.Exit(128 + interrupts.received)
    found = found_of(retuned, plan, store)
    if found is None:
        say(f"Doubtful: {retuned.ending.why}.")
        return Freshness.DOUBTFUL
    own, other = plan.best.key, plan.references[0].key
    if own in found.canary.out:
        say(f"Stale: the winner does not do here what it did: {found.canary.out[own]}.")
        return Freshness.STALE
    measured = measured_ratio(found.canary, found.records, best=own, reference=other)
    if measured is None:
        say(f"Doubtful: the claim could not be measured: {found.canary.out.get(other, 'too few launches')}.")
        return Freshness.DOUBTFUL
    said = (
        f"measured {measured.ratio:.3f}x (95 %: {measured.low:.3f} to {measured.high:.3f}), "
        f"{measured.blocks} launches a side; claimed {claim.ratio:.3f}x ({claim.low:.3f} to {claim.high:.3f})"
    )
    if not claim.holds(measured):
        say(f"The claim does not hold: {said}.")
        return Freshness.DOUBTFUL
    say(f"The claim holds: {said}.")
    if (short := claim.shortfall(measured)) > WIDE:
        say(f"These launches differ so much that it may be short by up to {short:.0%} all the same.")
    return Freshness.FRESH
