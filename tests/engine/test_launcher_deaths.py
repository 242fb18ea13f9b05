"""Servers that die: what comes of every way."""

from __future__ import annotations

import signal
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.launch_bench import LAYER, MTP, RIG, TENSOR, WORKLOAD, Bench, NeverInterrupted
from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchSpec
from tuner.core.outcome import Kind, Phase, Stage
from tuner.engine.device_watch import DeviceWatch
from tuner.runs.works.benchmark import Benchmark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.options import Value


# --- out of memory


@pytest.mark.parametrize(
    ("stage", "options", "found"),
    [
        ("weights", LAYER, Stage.WEIGHTS),
        ("kv", LAYER, Stage.KV),
        ("compute", LAYER, Stage.COMPUTE),
        ("draft", MTP, Stage.DRAFT),
        ("weights", TENSOR, Stage.WEIGHTS),
        ("kv", TENSOR, Stage.KV),
        ("compute", TENSOR, Stage.COMPUTE),
    ],
)
def test_out_of_memory_while_loading_names_stage_and_device(
    bench: Bench, stage: str, options: Mapping[str, Value], found: Stage
) -> None:
    bench.fake.always(oom={"stage": stage, "device": 1, "mib": 512})
    outcome = bench.run(options).outcome
    assert (outcome.kind, outcome.phase, outcome.stage) == (Kind.OUT_OF_MEMORY, Phase.LOAD, found), outcome
    assert outcome.device == "CUDA1"
    assert outcome.requested_mib is not None
    assert not outcome.inferred
    assert bench.is_gone()


@pytest.mark.parametrize("options", [LAYER, TENSOR])
def test_out_of_memory_in_a_request_is_no_measurement(bench: Bench, options: Mapping[str, Value]) -> None:
    bench.fake.always(oom={"stage": "runtime", "device": 0}, die_in="request:3")
    result = bench.run(options)
    assert (result.outcome.kind, result.outcome.stage) == (Kind.OUT_OF_MEMORY, Stage.RUNTIME)
    assert result.outcome.phase is Phase.BENCHMARK
    assert result.exit_code == -signal.SIGABRT
    assert [sample.prompt_id for sample in result.samples] == ["one"]


def test_silent_abort_at_the_wall_is_inferred_from_what_was_free_before(bench: Bench) -> None:
    """The driver has all the memory back when the server is dead: it was read while it lived."""
    bench.launcher = replace(
        bench.launcher,
        watch=DeviceWatch(RIG, lambda: {"CUDA0": 15900 if bench.fake.events("stop") else 100}),
    )
    bench.fake.always(signal=signal.SIGABRT, die_in="request:2", log="no word of memory")
    outcome = bench.run(TENSOR).outcome
    assert (outcome.kind, outcome.device, outcome.inferred) == (Kind.OUT_OF_MEMORY, "CUDA0", True), outcome


def test_silent_abort_with_room_left_is_a_crash(bench: Bench) -> None:
    bench.launcher = replace(bench.launcher, watch=DeviceWatch(RIG, lambda: {"CUDA0": 8000}))
    bench.fake.always(signal=signal.SIGABRT, die_in="request:2", log="no word of memory")
    assert bench.run(TENSOR).outcome.kind is Kind.CRASHED


def test_smaller_compute_buffer_is_measured_as_degraded(bench: Bench) -> None:
    bench.fake.always(oom={"stage": "compute-soft"})
    result = bench.run()
    assert result.outcome.kind is Kind.DEGRADED
    assert "without pipeline parallelism" in result.outcome.evidence
    assert len(result.samples) == 2


# --- other deaths


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
@pytest.mark.parametrize(
    ("when", "phase"),
    [
        ("load", Phase.LOAD),
        ("warmup", Phase.LOAD),
        ("request:1", Phase.WARMUP),
        ("request:2", Phase.BENCHMARK),
    ],
)
def test_crash_is_told_with_its_signal_and_phase(
    bench: Bench, number: signal.Signals, when: str, phase: Phase
) -> None:
    bench.fake.always(signal=number, die_in=when)
    result = bench.run()
    assert (result.outcome.kind, result.outcome.phase) == (Kind.CRASHED, phase), result.outcome
    assert result.exit_code == -number
    assert bench.is_gone()


def test_server_that_somebody_else_stops_is_not_the_candidates_fault(bench: Bench) -> None:
    bench.fake.always(signal=signal.SIGTERM)
    outcome = bench.run().outcome
    assert (outcome.kind, outcome.inferred) == (Kind.STOPPED, True)


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        ("common_speculative_init: draft model is not compatible with target model", Kind.DRAFT_UNAVAILABLE),
        ("CUDA error: an illegal memory access was encountered", Kind.DEVICE_ERROR),
        ("Remote RPC server crashed or returned malformed response", Kind.RPC_LOST),
        ("LLAMA_SPLIT_MODE_TENSOR not implemented for architecture 'x'", Kind.UNSUPPORTED),
    ],
)
def test_last_words_decide_the_kind(bench: Bench, log: str, kind: Kind) -> None:
    bench.fake.always(exit=1, log=log)
    outcome = bench.run().outcome
    assert outcome.kind is kind
    assert log in outcome.evidence


def test_flag_that_the_engine_refuses_is_named(bench: Bench) -> None:
    outcome = bench.run({**LAYER, "split-mode": "rows"}).outcome
    assert outcome.kind is Kind.BAD_FLAG
    assert '"--split-mode"' in outcome.evidence


def test_port_that_was_taken_in_between_is_no_fault_of_the_candidate(bench: Bench) -> None:
    spec = LaunchSpec(Candidate.of(LAYER))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        plan = bench.launcher.plan(spec)
        argv = [str(taken.getsockname()[1]) if word == str(plan.port) else word for word in plan.argv]
        result = bench.launcher.run(
            spec,
            replace(plan, argv=tuple(argv)),
            WORKLOAD,
            Benchmark(WORKLOAD, spec.asked, bench.samples.append),
            log_path=bench.log_path,
            on_spawn=lambda *_: None,
            interrupts=NeverInterrupted(),
        )
    assert result.outcome.kind is Kind.PORT_IN_USE
    assert result.exit_code == 1
