"""Servers that live on and are waited for, do something else than asked, or are to stop."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.launch_bench import DEADLINE_S, MTP, Bench
from tuner.core.asked import Asked
from tuner.core.outcome import Kind, Phase
from tuner.runs.interrupt import SignalInterrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tuner.core.measurement import Sample


# --- servers that live on, and wait


@pytest.mark.usefixtures("impatient")
def test_hang_while_loading_is_not_waited_for(bench: Bench) -> None:
    bench.fake.always(hang="load")
    result = bench.run()
    assert (result.outcome.kind, result.outcome.phase) == (Kind.HUNG, Phase.LOAD)
    assert bench.is_gone()


@pytest.mark.usefixtures("impatient")
def test_load_that_talks_but_never_ends_is_timed_out(bench: Bench) -> None:
    bench.fake.always(hang="load")
    end = threading.Event()

    def talk() -> None:
        while not end.wait(0.05):
            with contextlib.suppress(FileNotFoundError), bench.log_path.open("ab") as log:
                log.write(b"still loading\n")

    talker = threading.Thread(target=talk)
    talker.start()
    try:
        outcome = bench.run().outcome
    finally:
        end.set()
        talker.join(DEADLINE_S)
    assert (outcome.kind, outcome.evidence) == (Kind.TIMED_OUT, "not ready after 1 s")
    assert bench.is_gone()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("hang", ["first-token", "mid-stream"])
def test_hang_in_a_request_is_not_waited_for(bench: Bench, hang: str) -> None:
    bench.fake.always(hang=hang)
    result = bench.run()
    assert (result.outcome.kind, result.outcome.phase) == (Kind.HUNG, Phase.WARMUP)
    assert bench.is_gone()


@pytest.mark.usefixtures("impatient")
def test_server_that_ignores_sigterm_is_killed_and_measured_all_the_same(bench: Bench) -> None:
    bench.fake.always(ignore_sigterm=True)
    result = bench.run()
    assert (result.outcome.kind, result.exit_code) == (Kind.NONE, -signal.SIGKILL)
    assert bench.is_gone()


@pytest.mark.parametrize(
    ("do", "phase"), [({"hang": "load"}, Phase.LOAD), ({"hang": "first-token"}, Phase.WARMUP)]
)
def test_end_of_the_runs_time_stops_a_launch_where_it_is(
    bench: Bench, do: dict[str, object], phase: Phase
) -> None:
    bench.fake.always(**do)
    start = time.monotonic()
    result = bench.run(limit_s=0.5)
    assert time.monotonic() - start < 3
    assert (result.outcome.kind, result.outcome.phase) == (Kind.STOPPED, phase)
    assert "time was over" in result.outcome.evidence
    assert bench.is_gone()


# --- servers that do something else than asked


@pytest.mark.parametrize(
    ("do", "asked", "evidence"),
    [
        ({"n_ctx": 512}, Asked(2048, 1, drafts=False), "2048 tokens of context a slot asked for, 512 got"),
        ({}, Asked(None, 2, drafts=None), "2 slots asked for, 1 got"),
        ({"router": True}, Asked(2048, 1, drafts=False), "router"),
    ],
)
def test_server_that_is_not_as_asked_measures_nothing(
    bench: Bench, do: dict[str, object], asked: Asked, evidence: str
) -> None:
    bench.fake.always(**do)
    result = bench.run(asked=asked)
    assert (result.outcome.kind, result.outcome.phase) == (Kind.NOT_AS_ASKED, Phase.LOAD)
    assert evidence in result.outcome.evidence
    assert result.samples == ()
    assert bench.fake.events("request") == []


def test_drafts_that_were_asked_for_and_are_off_are_told(bench: Bench) -> None:
    bench.fake.always(no_speculation=True)
    assert bench.run(MTP).outcome.kind is Kind.DRAFT_UNAVAILABLE


def test_drafts_that_nobody_asked_for_are_told(bench: Bench) -> None:
    result = bench.run(MTP, asked=Asked(2048, 1, drafts=False))
    assert result.outcome.kind is Kind.NOT_AS_ASKED
    assert "drafts" in result.outcome.evidence


def test_timings_that_no_clock_agrees_with_are_no_measurement(bench: Bench) -> None:
    bench.fake.always(timings_factor=1000)
    result = bench.run()
    assert (result.outcome.kind, result.outcome.phase) == (Kind.NOT_AS_ASKED, Phase.BENCHMARK)
    assert result.samples == ()


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("do", [{"garbage": ["/props"]}, {"garbage": True}, {"half_close": True}])
def test_answers_of_a_living_server_that_make_no_sense_are_no_measurement(
    bench: Bench, do: dict[str, object]
) -> None:
    bench.fake.always(**do)
    result = bench.run()
    assert result.outcome.kind is Kind.NOT_AS_ASKED
    assert result.samples == ()
    assert bench.is_gone()


# --- being asked to stop


class InterruptedSoon(SignalInterrupts):
    """Somebody asks to stop as soon as a condition holds, from another thread by a signal."""

    def __init__(self, when: Callable[[], object]) -> None:
        super().__init__(lambda: None)
        self._when = when

    @contextlib.contextmanager
    def serving(self, *, stop: Callable[[], object], kill: Callable[[], object]) -> Iterator[None]:
        thread = threading.Thread(target=self._watch)
        with self, super().serving(stop=stop, kill=kill):
            thread.start()
            try:
                yield
            finally:
                thread.join(DEADLINE_S)

    def _watch(self) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not self._when() and time.monotonic() < end_s:
            time.sleep(0.005)
        os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("hang", "event", "phase"),
    [
        ("load", "start", Phase.LOAD),
        ("first-token", "request", Phase.WARMUP),
        ("mid-stream", "request", Phase.WARMUP),
    ],
)
def test_interrupted_launch_is_stopped_and_leaves_no_server(
    bench: Bench, hang: str, event: str, phase: Phase
) -> None:
    bench.fake.always(hang=hang)
    before = len(bench.fake.events(event))
    interrupts = InterruptedSoon(lambda: len(bench.fake.events(event)) > before)
    start = time.monotonic()
    result = bench.run(interrupts=interrupts)
    assert time.monotonic() - start < 5
    assert (result.outcome.kind, result.outcome.phase) == (Kind.STOPPED, phase)
    assert result.outcome.evidence == "asked to stop"
    assert bench.is_gone()


def test_launch_that_was_asked_to_stop_before_it_began_asks_nothing(bench: Bench) -> None:
    interrupts = SignalInterrupts(lambda: None)
    interrupts.received = signal.SIGINT
    result = bench.run(interrupts=interrupts)
    assert result.outcome.kind is Kind.STOPPED
    assert bench.fake.events("request") == []
    assert bench.is_gone()


def test_error_of_the_caller_ends_the_server_too(bench: Bench) -> None:
    def full_disk(_sample: Sample) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        bench.run(on_sample=full_disk)
    assert bench.is_gone()
