"""Launches of the fake server that go well: what is started, asked and read."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.launch_bench import LAYER, MTP, RIG, TENSOR, TOKENS, Bench, make_bench, prompt
from tuner.core.asked import Asked
from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchSpec
from tuner.core.outcome import Kind
from tuner.core.workload import Prompt
from tuner.engine.device_watch import DeviceWatch
from tuner.engine.environment import TOKEN_VARIABLE, server_environment
from tuner.engine.patience import Patiences

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tuner.engine.probe import Engine


# --- a launch that goes well


def test_every_prompt_is_measured_once_after_a_warm_up(bench: Bench) -> None:
    result = bench.run()
    assert result.outcome.kind is Kind.NONE, result.outcome
    assert [sample.prompt_id for sample in result.samples] == ["one", "two"]
    assert bench.samples == list(result.samples)
    assert {sample.predicted_n for sample in result.samples} == {TOKENS}
    asked = [event["body"]["messages"][0]["content"] for event in bench.fake.events("request")]
    assert asked == ["Write warm-up.", "Write one.", "Write two."]
    assert result.load_s > 0
    assert 0 < result.warmup_s < result.requests_s
    assert result.exit_code == 0
    assert bench.is_gone()


def test_rates_are_the_servers(bench: Bench) -> None:
    sample = bench.run().samples[0]
    # two thirds of the layers at 60 tok/s, one third at 30
    assert sample.generation_tok_s == pytest.approx(45, rel=0.01)


def test_drafts_are_counted(bench: Bench) -> None:
    result = bench.run(MTP)
    assert result.outcome.kind is Kind.NONE, result.outcome
    assert all(sample.draft_n and sample.draft_n_accepted for sample in result.samples)


def test_memory_is_read_from_the_log_and_from_the_driver(bench: Bench) -> None:
    bench.launcher = replace(bench.launcher, watch=DeviceWatch(RIG, lambda: {"CUDA0": 9000, "CUDA1": 20000}))
    result = bench.run()
    assert result.free_mib == {"CUDA0": 9000, "CUDA1": 20000}
    assert {"CUDA0", "CUDA1"} < result.buffers_mib.keys()
    assert result.buffers_mib["CUDA0"] > 284  # the compute buffer alone


@pytest.mark.parametrize("build", ["11434", "9246"])
def test_server_gets_private_flags_and_the_portable_command_has_none(
    tmp_path: Path, engine_of: Callable[..., Engine], build: str
) -> None:
    bench = make_bench(tmp_path, FakeEngine(tmp_path, build=build), engine_of(build))
    spec = LaunchSpec(Candidate.of(LAYER))
    portable = bench.launcher.portable_argv(spec)
    result = bench.run(spec=spec)
    assert result.outcome.kind is Kind.NONE
    argv = [str(bench.fake.path), *bench.fake.events("start")[-1]["argv"]]
    assert argv[: len(portable)] == portable
    assert argv[len(portable) :: 2] == ["--host", "--port", "--api-key", "--alias", "-lv"]
    assert argv[len(portable) + 1] == "127.0.0.1"
    assert not {"--port", "--api-key", "--alias", "-lv"} & set(portable)


def test_users_flags_come_first_and_are_not_written_twice(bench: Bench) -> None:
    bench.launcher = replace(
        bench.launcher, extra_flags=("--rpc", "h:1", "-c", "4096"), extra_names=frozenset({"rpc", "ctx-size"})
    )
    argv = bench.launcher.portable_argv(LaunchSpec(Candidate.of(LAYER)))
    assert argv[1:7] == ["-m", bench.launcher.model.path, "--rpc", "h:1", "-c", "4096"]
    assert "--ctx-size" not in argv
    reference = LaunchSpec(None, "current", flags=("-ngl", "99"), takes_extra=False)
    assert bench.launcher.portable_argv(reference)[3:] == ["-ngl", "99"]


def test_reference_is_launched_in_its_own_words(bench: Bench) -> None:
    result = bench.run(
        spec=LaunchSpec(None, "engine-default", flags=("--fit", "on"), asked=Asked(None, 4, drafts=None))
    )
    assert result.outcome.kind is Kind.NONE, result.outcome
    assert bench.fake.events("start")[-1]["argv"][2:4] == ["--fit", "on"]


def test_environment_is_scrubbed_and_carries_the_candidates_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "LLAMA_ARG_CTX_SIZE": "512",
        "LLAMA_API_KEY": "k",
        "HF_TOKEN": "t",
        "GGML_CUDA_P2P": "1",
    }.items():
        monkeypatch.setenv(name, value)
    inherited = {**os.environ, **bench.fake.environment()}
    environment = server_environment(inherited, bench.folder / "config", allow_p2p=False)
    bench.launcher = replace(bench.launcher, environment=environment)
    result = bench.run({**TENSOR, "GGML_CUDA_ALLREDUCE": "internal"})
    assert result.outcome.kind is Kind.NONE, result.outcome
    names = set(bench.fake.events("start")[-1]["environment"])
    assert not [name for name in names if name.startswith("LLAMA_")]
    assert not {"HF_TOKEN", "GGML_CUDA_P2P"} & names
    assert {"GGML_CUDA_ALLREDUCE", TOKEN_VARIABLE, "XDG_CONFIG_HOME", "GGML_NO_BACKTRACE"} <= names


def test_each_plan_has_a_port_a_key_and_a_token_of_its_own(bench: Bench) -> None:
    spec = LaunchSpec(Candidate.of({**TENSOR, "GGML_CUDA_ALLREDUCE": "nccl"}))
    one, two = bench.launcher.plan(spec), bench.launcher.plan(spec)
    assert (one.api_key, one.token) != (two.api_key, two.token)
    assert one.environment_changes == {"GGML_CUDA_ALLREDUCE": "nccl", TOKEN_VARIABLE: one.token}
    assert str(one.port) in one.argv
    assert one.api_key in one.argv


def test_process_is_told_before_anything_is_waited_for(bench: Bench) -> None:
    bench.run()
    ((pid, started_at),) = bench.spawned
    assert pid == bench.fake.events("start")[-1]["pid"]
    assert abs(started_at - time.time()) < 60


# --- how long is waited


def test_patience_grows_with_the_model_and_the_prompt(bench: Bench) -> None:
    small = Patiences.of(bench.launcher.model)
    big = Patiences.of(replace(bench.launcher.model, size_bytes=50_000_000_000))
    assert 60 <= small.stall_s < small.load_s < big.load_s
    assert big.load_s == 1120
    short = Patiences.request(prompt("x"), 256)
    long = Patiences.request(Prompt("p", "code", ({"role": "user", "content": "x" * 30_000},)), 256)
    assert short.first_token_s < long.first_token_s == 1060
    assert long.whole_s > long.first_token_s + 256


def test_where_several_are_served_at_once_each_may_have_to_wait_for_the_others() -> None:
    long = Prompt("p", "code", ({"role": "user", "content": "x" * 30_000},))
    alone, four = (Patiences.request(long, 256, 200.0, streams=n) for n in (1, 4))
    assert four.first_token_s - 60 == pytest.approx(4 * (alone.first_token_s - 60))
    assert four.whole_s > alone.whole_s
