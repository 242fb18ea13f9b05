"""What a running server is compared with, and who else may have ended it."""

from __future__ import annotations

import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.launch_bench import LAYER, MTP, RIG, WORKLOAD, Bench, NeverInterrupted
from tuner.core.asked import Asked
from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchResult, LaunchSpec
from tuner.core.outcome import Kind, Phase, Stage
from tuner.engine import session as session_module
from tuner.engine.device_watch import DeviceWatch
from tuner.runs.works.benchmark import Benchmark

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tuner.core.measurement import Sample
    from tuner.core.options import Value

ASKED = Asked(2048, 1, drafts=False, devices=("CUDA0", "CUDA1"), every_layer=True, cache_types=("f16", "f16"))


# --- another server on our port


@pytest.fixture
def foreign(tmp_path: Path) -> FakeEngine:
    """Somebody else's engine."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    return FakeEngine(folder)


def run_beside(bench: Bench, url: str) -> LaunchResult:
    """A launch whose server has not got the port that it is asked on: another one answers there."""
    spec = LaunchSpec(Candidate.of(LAYER), asked=Asked(2048, 1, drafts=False))
    plan = bench.launcher.plan(spec)
    return bench.launcher.run(
        spec,
        replace(plan, port=int(url.rpartition(":")[2])),
        WORKLOAD,
        Benchmark(WORKLOAD, spec.asked, bench.samples.append),
        log_path=bench.log_path,
        on_spawn=lambda pid, started_at: bench.spawned.append((pid, started_at)),
        interrupts=NeverInterrupted(),
    )


def test_another_server_on_our_port_is_not_measured(bench: Bench, foreign: FakeEngine) -> None:
    with foreign.serving("-c", "2048", "-np", "1") as other:
        result = run_beside(bench, other.url)
        assert other.process.poll() is None
    assert (result.outcome.kind, result.outcome.phase) == (Kind.PORT_IN_USE, Phase.LOAD)
    assert result.outcome.evidence == f"another server answers on our port: its model is '{foreign.model}'"
    assert result.samples == ()
    assert bench.is_gone()
    assert foreign.events("request") == []


def test_another_server_that_refuses_our_key_is_not_measured(
    bench: Bench, foreign: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "LAST_WORDS_S", 0.1)
    with foreign.serving("--api-key", "theirs") as other:
        result = run_beside(bench, other.url)
        assert other.process.poll() is None
    assert (result.outcome.kind, result.outcome.phase) == (Kind.PORT_IN_USE, Phase.LOAD)
    assert "HTTP 401" in result.outcome.evidence


def test_name_that_the_user_gives_the_model_is_no_other_server(bench: Bench) -> None:
    bench.launcher = replace(bench.launcher, extra_flags=("--alias", "theirs"))
    assert bench.run().outcome.kind is Kind.NONE


# --- what the log says otherwise


@pytest.mark.parametrize(
    ("options", "evidence"),
    [
        ({"device": ("CUDA0",), "tensor-split": (1,)}, "CUDA1 asked for and not used, only CUDA0"),
        ({"gpu-layers": 10}, "23 of 33 layers stayed on the processor"),
        ({"cache-type-k": "q8_0"}, "caches of f16/f16 asked for, q8_0/f16 got"),
    ],
)
def test_server_whose_log_says_something_else_measured_nothing(
    bench: Bench, options: Mapping[str, Value], evidence: str
) -> None:
    result = bench.run({**LAYER, **options}, asked=ASKED)
    assert (result.outcome.kind, result.outcome.phase) == (Kind.NOT_AS_ASKED, Phase.LOAD)
    assert result.outcome.evidence == evidence


def test_server_that_found_no_card_measured_nothing(bench: Bench) -> None:
    bench.fake.always(log="warning: no usable GPU found, --gpu-layers option will be ignored")
    assert bench.run(asked=ASKED).outcome.kind is Kind.NOT_AS_ASKED


@pytest.mark.parametrize("mode", ["layer", "tensor"])
def test_server_that_did_all_of_it_is_measured(bench: Bench, mode: str) -> None:
    assert bench.run({**LAYER, "split-mode": mode}, asked=ASKED).outcome.kind is Kind.NONE


# --- drafts that never come


def test_drafts_that_never_came_are_told(bench: Bench) -> None:
    bench.fake.always(no_speculation=True)
    asked = Asked(2048, 1, drafts=None, drafted_tokens=True)
    result = bench.run(MTP, asked=asked)
    assert (result.outcome.kind, result.outcome.phase) == (Kind.DRAFT_UNAVAILABLE, Phase.BENCHMARK)
    assert result.outcome.evidence == "no token was drafted in 2 requests"
    bench.fake.always(no_speculation=False)
    assert bench.run(MTP, asked=asked).outcome.kind is Kind.NONE


# --- what cannot catch up


def test_launch_whose_rest_is_no_use_ends_with_the_answers_so_far(bench: Bench) -> None:
    def watch(sample: Sample) -> str:
        bench.samples.append(sample)
        return "61% of the best after 1 of 2 requests"

    result = bench.run(on_sample=watch)
    assert (result.outcome.kind, result.outcome.phase) == (Kind.PRUNED, Phase.BENCHMARK)
    assert result.outcome.evidence == "61% of the best after 1 of 2 requests"
    assert [sample.prompt_id for sample in result.samples] == ["one"]
    assert list(result.samples) == bench.samples
    assert bench.is_gone()
    assert result.load_s > 0
    assert len(bench.fake.events("request")) == 2  # the warm-up's, and one


def test_launch_may_be_given_up_after_any_answer(bench: Bench) -> None:
    said = iter([None, "too slow after all"])
    result = bench.run(on_sample=lambda _sample: next(said))
    assert result.outcome.kind is Kind.PRUNED
    assert [sample.prompt_id for sample in result.samples] == ["one", "two"]


def test_launch_that_may_catch_up_goes_on(bench: Bench) -> None:
    result = bench.run(on_sample=lambda _sample: None)
    assert result.outcome.kind is Kind.NONE
    assert len(result.samples) == 2


def test_answer_that_does_not_count_is_not_compared(bench: Bench) -> None:
    """What is wrong with the first answer is said, not how slow it was."""
    bench.fake.always(timings_factor=1000.0)
    told: list[Sample] = []

    def watch(sample: Sample) -> str:
        told.append(sample)
        return "slow"

    result = bench.run(on_sample=watch)
    assert (result.outcome.kind, result.outcome.phase) == (Kind.NOT_AS_ASKED, Phase.BENCHMARK)
    assert told == []


# --- requests that are refused


def test_refused_request_is_judged_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server lives: no last words are waited for."""
    monkeypatch.setattr(session_module, "LAST_WORDS_S", 60.0)
    bench.fake.always(n_ctx=1)
    start = time.monotonic()
    result = bench.run(asked=Asked(None, 1, drafts=False))
    assert time.monotonic() - start < 10
    assert (result.outcome.kind, result.outcome.phase) == (Kind.NOT_AS_ASKED, Phase.WARMUP)
    assert "exceeds the available context size" in result.outcome.evidence
    assert bench.is_gone()


# --- the kernel's out-of-memory killer


@pytest.mark.parametrize(
    ("killed_by_kernel", "kind", "device"),
    [(True, Kind.OUT_OF_MEMORY, "CPU"), (False, Kind.CRASHED, None), (None, Kind.CRASHED, None)],
)
def test_kill_is_out_of_memory_where_the_kernel_says_that_it_was(
    bench: Bench, *, killed_by_kernel: bool | None, kind: Kind, device: str | None
) -> None:
    bench.launcher = replace(
        bench.launcher, watch=DeviceWatch(RIG, kernel_watch=lambda: lambda: killed_by_kernel)
    )
    bench.fake.always(signal=signal.SIGKILL, die_in="request:2")
    outcome = bench.run().outcome
    assert (outcome.kind, outcome.device) == (kind, device)
    assert outcome.stage is (Stage.RUNTIME if killed_by_kernel else None)


def test_each_launch_is_watched_anew_and_only_its_death_asks(bench: Bench) -> None:
    """A kill that was there before the launch is not this server's."""
    happened: list[str] = []

    def begin() -> Callable[[], bool | None]:
        happened.append("begun")
        return ask

    def ask() -> bool:
        happened.append("asked")
        return False

    bench.launcher = replace(bench.launcher, watch=DeviceWatch(RIG, kernel_watch=begin))
    assert bench.run().outcome.kind is Kind.NONE
    bench.fake.always(signal=signal.SIGKILL)
    assert bench.run().outcome.kind is Kind.CRASHED
    assert happened == ["begun", "begun", "asked"]
