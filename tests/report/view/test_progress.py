"""What a run did, launch by launch."""

from __future__ import annotations

from dataclasses import replace

from tests.report.test_best import FACTS
from tests.support.known_proofs import REF, SOAKED, A, B, searched, tried
from tests.support.played_night import played_night
from tests.support.trials import a_launch, ended, measured
from tuner.core.launch import LaunchResult
from tuner.core.outcome import Kind, Outcome, Stage
from tuner.core.trial import Errand, Purpose
from tuner.report.view.inputs import ReportInputs
from tuner.report.view.progress import failures_of, failures_table, progress


def oom(mib: float, device: str = "CUDA0") -> LaunchResult:
    return LaunchResult(
        Outcome(
            Kind.OUT_OF_MEMORY,
            stage=Stage.KV,
            device=device,
            requested_mib=mib,
            evidence=f"asked for {mib:g}",
        )
    )


def test_the_best_so_far_only_rises_and_counts_the_search_alone() -> None:
    night = progress(played_night())
    best = [one.best_tok_s for one in night.events if one.best_tok_s is not None]
    assert best == sorted(best)
    scores = [
        one.score_tok_s
        for one in night.events
        if one.purpose is Purpose.SEARCH and one.score_tok_s is not None
    ]
    assert best[-1] == max(scores)
    assert night.has_clock
    assert dict(night.counts) == {"search": 17, "confirm": 12, "soak": 1, "endure": 1}


def test_what_did_not_survive_is_no_best() -> None:
    records = [
        a_launch(0, A, measured(50.0), Errand()),
        a_launch(1, B, measured(40.0), Errand()),
        tried(2, A, Purpose.SOAK, SOAKED, Kind.CRASHED),
    ]
    events = progress(ReportInputs(tuple(records), FACTS)).events
    assert [one.best_tok_s for one in events] == [None, 40.0, 40.0]


def test_launches_that_ended_alike_are_counted_together_whatever_they_asked_for() -> None:
    records = [
        a_launch(0, A, oom(512), Errand()),
        a_launch(1, B, ended(Kind.CRASHED), Errand()),
        a_launch(2, A, oom(600), Errand()),
        a_launch(3, A, oom(600, "CUDA1"), Errand()),
        a_launch(4, A, measured(10.0), Errand()),
        a_launch(5, REF, None, Errand()),
    ]
    found = failures_of(records)
    assert [(one.sentence, one.count, one.first_trial, one.evidence) for one in found] == [
        ("out-of-memory at kv on CUDA0", 2, 0, "asked for 512"),
        ("crashed", 1, 1, "a line about crashed"),
        ("out-of-memory at kv on CUDA1", 1, 3, "asked for 600"),
    ]
    section = progress(ReportInputs(tuple(records), FACTS))
    assert failures_table(section).rows[0] == (
        "out-of-memory at kv on CUDA0",
        "2",
        "trial 0",
        "asked for 512",
    )
    assert section.events[-1].kind is None
    assert section.events[-1].sentence == "running, or cut off"


def test_what_was_not_launched_is_said_card_by_card() -> None:
    assert progress(played_night()).not_launched == (
        "10 not launched: they exceed CUDA0 (NVIDIA GeForce RTX 5080) by 300 MiB to 2.0 GiB.",
        "9 not launched: they exceed CUDA1 (NVIDIA GeForce RTX 3090) by 397 MiB to 1.9 GiB.",
    )


def test_without_a_clock_trials_are_counted() -> None:
    section = progress(replace(played_night(), clock={}))
    assert not section.has_clock
    assert progress(ReportInputs((), FACTS)).events == ()
    assert (
        "the best so far rose in 1 steps to 40.0 tok/s"
        in progress(ReportInputs(tuple(searched(arms=(A,))), FACTS)).alt
    )
