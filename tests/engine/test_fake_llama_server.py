"""Pins the fake llama-server: tests of the engine stand on it."""

import json
import os
import re
import signal
import socket
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.fake_engine import DEADLINE_S, FakeEngine, chat_body, fake_server_path, sse_data
from tests.support.fake_llama.builds import BUILDS
from tests.support.fake_llama.options import parse_help

EXACT = {"max_tokens": 9, "ignore_eos": True}
TENSOR = ("-sm", "tensor")
REFUSALS = {
    "--no-such-flag": "error: invalid argument: --no-such-flag\n",
    "--no-mmap": "error: invalid argument: --no-mmap\n",
    "-sm bogus": 'error while handling argument "-sm": invalid value\n',
    "--load-mode bogus": 'error while handling argument "--load-mode": invalid value\n',
    "-ctk q3_0": "Unsupported cache type: q3_0\n",
    "-dev CUDA7": "invalid device: CUDA7\n",
    "-fa maybe": "error: unknown value for --flash-attn: 'maybe'\n",
    "--fit maybe": "error: unknown value for --fit: 'maybe'\n",
    "--spec-type mtp": "unknown speculative type: mtp\n",
    "--spec-draft-sampling x": "invalid value, must be one of: greedy, probabilistic\n",
    "--spec-draft-n-max -1": "invalid value\n",
    "--draft-max 5": "the argument has been removed. use --spec-draft-n-max or --spec-ngram-mod-n-max\n",
    "-c abc": "stoi\n",
    "-c": "expected value for argument\n",
    "-ts a,b": "stof\n",
    f"-ts {','.join('1' * 16)}": "got 16 input configs, but system only has 16 devices\n",
    "--spec-draft-p-min zz": "stof\n",
    "--help --no-such-flag": "error: invalid argument: --no-such-flag\n",
}
OOM_TEXTS = {
    "weights": "error loading model: unable to allocate CUDA1 buffer",
    "kv": "failed to initialize the context: failed to allocate buffer for kv cache",
    "compute": "failed to initialize the context: failed to allocate compute pp buffers",
    "draft": "failed to create MTP context",
}


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path)


def oom(stage: str) -> dict[str, Any]:
    return {"stage": stage, "device": 1, "mib": 512.5}


# The command line


def test_help_is_the_text_of_its_build(fake: FakeEngine, tmp_path: Path) -> None:
    assert fake.run("--help").stdout == BUILDS["11434"].help_text()
    old = FakeEngine(tmp_path, build="9246")
    assert old.run("-h").stdout == BUILDS["9246"].help_text()


def test_older_build_lists_the_older_flags() -> None:
    table = parse_help(BUILDS["9246"].help_text())
    for name in ("mmap", "mlock", "direct-io", "checkpoint-every-n-tokens", "log-prefix"):
        assert table.find_name(name), name
    for name in ("load-mode", "spec-draft-sampling", "kv-unified-per-slot", "spec-synth-len", "log-jsonl"):
        assert table.find_name(name) is None, name
    spec_type = table.find_name("spec-type")
    assert spec_type is not None
    assert not {"draft-dflash", "draft-dspark"} & set(spec_type.hint.split(","))


def test_version_goes_to_stderr(fake: FakeEngine) -> None:
    ended = fake.run("--version")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert ended.stderr.startswith("version: 0.6.0-dev (build 0, commit unknown)\nbuilt with ")


def test_devices_are_listed_as_the_engine_does(fake: FakeEngine, tmp_path: Path) -> None:
    assert fake.run("--list-devices").stdout == (
        "Available devices:\n"
        "  CUDA0: NVIDIA GeForce RTX 5080 (16303 MiB, 15900 MiB free)\n"
        "  CUDA1: NVIDIA GeForce RTX 3090 (24576 MiB, 24100 MiB free)\n"
    )
    bare = FakeEngine(tmp_path, devices=[])
    assert bare.run("--list-devices").stdout == "Available devices:\n  (none)\n"


@pytest.mark.parametrize("arguments", REFUSALS)
def test_refused_argument_ends_with_one(fake: FakeEngine, arguments: str) -> None:
    ended = fake.run(*arguments.split())
    assert ended.returncode == 1
    assert REFUSALS[arguments] in ended.stderr
    assert ended.stdout == ""


def test_refused_value_shows_the_usage_of_its_option(fake: FakeEngine) -> None:
    ended = fake.run("-c", "abc")
    assert "\n\nusage:\n-c,    --ctx-size N                     size of the prompt" in ended.stderr
    assert ended.stderr.endswith("to show complete usage, run with -h\n")


def test_bad_environment_variable_stops_the_start(fake: FakeEngine) -> None:
    ended = fake.run("--version", LLAMA_ARG_CTX_SIZE="abc")
    assert ended.returncode == 1
    assert 'error while handling environment variable "LLAMA_ARG_CTX_SIZE": stoi' in ended.stderr


def test_environment_variables_are_options_in_disguise(fake: FakeEngine) -> None:
    fake.when({"ctx-size": 4096}, exit=7)
    assert fake.fail(LLAMA_ARG_CTX_SIZE="4096").returncode == 7


def test_last_value_wins_but_spec_types_add_up(fake: FakeEngine) -> None:
    fake.when({"ctx-size": "200", "spec-type": "ngram-mod,draft-mtp", "kv-offload": "off"}, exit=7)
    spec = ("--spec-type", "ngram-mod", "--spec-type", "draft-mtp")
    ended = fake.fail("-c", "100", "--ctx_size", "200", "-c", "200", "-nkvo", *spec)
    assert ended.returncode == 7
    assert "W DEPRECATED: argument '-c' specified multiple times" in ended.stderr


# Rules


def test_first_rule_that_holds_counts_over_the_defaults(fake: FakeEngine) -> None:
    fake.always(exit=3).when({"sm": "tensor"}, exit=4).when({"model-draft": None}, exit=5)
    assert fake.fail("--split-mode", "tensor").returncode == 4
    assert fake.fail().returncode == 5
    assert fake.fail("-md", str(fake.model)).returncode == 3


def test_rule_with_a_number_of_times_is_used_up(fake: FakeEngine) -> None:
    fake.always(exit=3).when({"sm": "tensor"}, times=2, exit=4)
    tensor = [fake.fail("-sm", "tensor").returncode for _ in range(2)]
    assert [*tensor, fake.fail().returncode, fake.fail("-sm", "tensor").returncode] == [4, 4, 3, 3]


@pytest.mark.parametrize("do", [{"no_such_key": 1}, {"hang": "forever"}, {"oom": {"stage": "x"}}])
def test_senseless_rule_is_no_server_failure(fake: FakeEngine, do: dict[str, Any]) -> None:
    ended = fake.always(**do).fail()
    assert ended.returncode == 70
    assert "fake llama-server:" in ended.stderr


def test_rules_may_stand_in_the_variable_itself(fake: FakeEngine) -> None:
    rules = json.dumps([{"when": {"no-such-option": "x"}, "do": {}}])
    assert "no-such-option" in fake.fail(FAKE_RULES=rules).stderr


# Failures of a load


@pytest.mark.parametrize("stage", OOM_TEXTS)
def test_out_of_memory_in_layer_mode_ends_with_one(fake: FakeEngine, stage: str) -> None:
    ended = fake.always(oom=oom(stage)).fail("--spec-type", "draft-mtp", "-lv", "4")
    assert ended.returncode == 1
    assert "allocating 512.50 MiB on device 1: cudaMalloc failed: out of memory\n" in ended.stderr
    assert "failed to allocate CUDA1 buffer of size 537395200\n" in ended.stderr
    assert OOM_TEXTS[stage] in ended.stderr
    assert ended.stderr.endswith("srv  llama_server: exiting due to model loading error\n")
    has_kv = "KV buffer size" in ended.stderr
    assert has_kv == (stage not in ("weights", "kv"))


@pytest.mark.parametrize("stage", OOM_TEXTS)
def test_out_of_memory_in_tensor_mode_is_an_assert(fake: FakeEngine, stage: str) -> None:
    ended = fake.always(oom=oom(stage)).fail(*TENSOR, "--spec-type", "draft-mtp")
    assert ended.returncode == -signal.SIGABRT
    asserted = ended.stderr.index("GGML_ASSERT(")
    assert asserted < ended.stderr.index("cudaMalloc failed: out of memory")
    assert "exiting due to" not in ended.stderr


def test_compute_buffer_is_tried_twice_where_layers_are_pipelined(fake: FakeEngine) -> None:
    fake.always(oom=oom("compute"))
    retry = "compute buffer allocation failed, retrying without pipeline parallelism"
    pair = fake.fail().stderr
    assert retry in pair
    assert pair.count("cudaMalloc failed") == 2
    assert retry not in fake.fail("-sm", "none").stderr


def test_soft_compute_failure_leaves_the_server_up(fake: FakeEngine) -> None:
    with fake.always(oom=oom("compute-soft")).serving() as server:
        assert "W sched_reserve: compute buffer allocation failed, retrying" in server.log
        assert server.chat(**EXACT).status_code == 200


def test_draft_memory_only_fails_with_drafts(fake: FakeEngine) -> None:
    with fake.always(oom=oom("draft")).serving() as server:
        assert server.get("/health").status_code == 200


def test_nccl_failure_does_not_speak_of_memory(fake: FakeEngine) -> None:
    ended = fake.always(oom=oom("nccl")).fail(*TENSOR)
    assert ended.returncode == -signal.SIGABRT
    assert "E CUDA error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)" in ended.stderr
    assert "memory" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("-sm", "row"), "device CUDA0 does not support split buffers"),
        ((*TENSOR, "-fa", "off"), "SPLIT_MODE_TENSOR requires flash_attn to be enabled"),
        (("-ctv", "q8_0", "-fa", "off"), "quantized V cache requires flash_attn to be enabled"),
        (("-md", "/no/draft.gguf"), "failed to load draft model, '/no/draft.gguf'"),
        (("-m", "/no/model.gguf"), "failed to open GGUF file '/no/model.gguf' (No such file or directory)"),
        (("-m", os.devnull), "gguf_init_from_reader: failed to read magic"),
        (
            ("--spec-type", "draft-mtp", "--spec-synth-rates", "0.8"),
            "synthetic acceptance rates must contain 3 values, got 1",
        ),
    ],
)
def test_unsupported_combination_ends_with_one(
    fake: FakeEngine, arguments: tuple[str, ...], text: str
) -> None:
    ended = fake.fail(*arguments)
    assert ended.returncode == 1
    assert text in ended.stderr
    assert "exiting due to model loading error" in ended.stderr


def test_taken_port_is_said_before_the_load(fake: FakeEngine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = fake.fail("--port", port)
        told = fake.always(port_taken=True).fail("--port", port)
    for stderr in (ended.stderr, told.stderr):
        assert f"couldn't bind HTTP server socket, hostname: 127.0.0.1, port: {port}\n" in stderr
        assert "exiting due to HTTP server error" in stderr
        assert "load_model" not in stderr
    assert ended.returncode == told.returncode == 1


def test_it_kills_itself_with_the_lines_it_was_given(fake: FakeEngine) -> None:
    fake.always(signal=int(signal.SIGSEGV), log="CUDA error: an illegal memory access")
    ended = fake.fail()
    assert ended.returncode == -signal.SIGSEGV
    assert "CUDA error: an illegal memory access" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGPIPE, signal.SIGXFSZ, signal.SIGUSR1])
def test_signal_that_python_ignores_kills_it_too(fake: FakeEngine, number: signal.Signals) -> None:
    assert fake.always(signal=number).fail().returncode == -number


def test_death_in_warmup_comes_after_the_buffers(fake: FakeEngine) -> None:
    ended = fake.always(die_in="warmup").fail("-lv", "4")
    assert ended.returncode == -signal.SIGABRT
    assert ended.stderr.index("compute buffer size") < ended.stderr.index("GGML_ASSERT")
    assert "model loaded" not in ended.stderr


# The log


def test_memory_lines_need_trace_level(fake: FakeEngine) -> None:
    with fake.serving("-lv", "4", "-ts", "3,1", "-c", "4096", "-np", "1") as server:
        log = server.log
    assert "I llama_prepare_model_devices: using device CUDA0 (NVIDIA GeForce RTX 5080)" in log
    assert "I load_tensors:        CUDA0 model buffer size =     0.71 MiB\n" in log
    assert "I load_tensors:        CUDA1 model buffer size =     0.24 MiB\n" in log
    assert "I llama_kv_cache:      CUDA0 KV buffer size =   384.00 MiB\n" in log
    assert "I sched_reserve:      CUDA1 compute buffer size =   284.08 MiB\n" in log
    assert "offloaded 33/33 layers to GPU" in log
    with fake.serving() as server:
        assert "buffer size" not in server.log


def test_tensor_mode_shows_one_meta_device(fake: FakeEngine) -> None:
    with fake.serving("-lv", "4", *TENSOR) as server:
        assert "using device Meta() (Meta()) (unknown id) - 40000 MiB free" in server.log
        assert "Meta() KV buffer size" in server.log
        assert "CUDA0 KV buffer size" not in server.log


def test_breakdown_is_printed_at_the_end(fake: FakeEngine) -> None:
    with fake.serving("-lv", "4") as server:
        server.process.terminate()
        assert server.wait() == 0
        assert "common_memory_breakdown_print: |   - CUDA1 (NVIDIA GeForce RTX 3090) |" in server.log


def test_log_switches_take_the_prefix_away(fake: FakeEngine) -> None:
    with fake.serving("--no-log-prefix") as server:
        assert server.log.startswith("srv  llama_server: initializing ...\n")
    with fake.serving("--no-log-timestamps") as server:
        assert server.log.startswith("I srv  llama_server: initializing ...\n")


def test_flood_comes_in_the_middle_of_the_load(fake: FakeEngine) -> None:
    with fake.always(log_flood_mib=2).serving() as server:
        assert len(server.log) > 2 * 1024 * 1024


def test_load_may_talk_for_ever(fake: FakeEngine) -> None:
    with fake.always(hang="load-talking").started() as server:
        server.wait_for_log("(?s)still loading.*still loading")
        assert "listening" not in server.log


@pytest.mark.parametrize("do", [{}, {"log_flood_mib": 1}])
def test_full_disk_takes_the_log_and_nothing_else(fake: FakeEngine, do: dict[str, Any]) -> None:
    fake.always(exit=3, die_in="warmup", **do)
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [fake.path, "-m", fake.model, "--port", "0"],
            env=fake.environment(),
            stdout=full,
            stderr=full,
            timeout=DEADLINE_S,
            check=False,
        )
    assert ended.returncode == 3


# Endpoints


def test_loading_answers_503_until_the_load_is_over(tmp_path: Path) -> None:
    fake = FakeEngine(tmp_path, time_scale=1).always(hang="load")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with fake.started("--port", str(port)) as server:
        server.wait_for_log("loading model")
        answer = httpx.get(f"http://127.0.0.1:{port}/health")
        assert answer.status_code == 503
        assert answer.json()["error"] == {
            "code": 503,
            "message": "Loading model",
            "type": "unavailable_error",
        }


def test_health_needs_no_key_and_the_rest_does(fake: FakeEngine) -> None:
    with fake.serving("--api-key", "k1,k2") as server:
        assert server.get("/health").json() == {"status": "ok"}
        refused = server.get("/props")
        assert refused.status_code == 401
        assert refused.json()["error"]["type"] == "authentication_error"
        assert server.chat().status_code == 401
        with server.client(key="k2") as client:
            assert client.get("/props").status_code == 200


def test_context_is_shown_by_slot(fake: FakeEngine) -> None:
    with fake.serving("-c", "8000", "-np", "2") as server:
        props = server.get("/props").json()
        assert (props["total_slots"], props["default_generation_settings"]["n_ctx"]) == (2, 4096)
        assert props["build_info"] == "b0-unknown"
        assert "role" not in props
        assert server.get("/v1/models").json()["data"][0]["meta"]["n_ctx"] == 4096
        slots = server.get("/slots").json()
        assert slots == [
            {"id": i, "n_ctx": 4096, "speculative": False, "is_processing": False} for i in range(2)
        ]


def test_automatic_slots_share_the_context(fake: FakeEngine) -> None:
    with fake.serving("-c", "8192") as server:
        assert [slot["n_ctx"] for slot in server.get("/slots").json()] == [8192] * 4


def test_context_other_than_asked(fake: FakeEngine) -> None:
    with fake.always(n_ctx=1024).serving("-c", "8192", "-np", "1") as server:
        assert server.get("/slots").json()[0]["n_ctx"] == 1024


def test_router_says_that_it_is_one(fake: FakeEngine) -> None:
    with fake.always(router=True).serving() as server:
        assert server.get("/props").json()["role"] == "router"
        assert server.chat().json()["error"]["message"] == "model name is missing from the request"


def test_missing_page_is_404(fake: FakeEngine) -> None:
    with fake.serving() as server:
        assert server.get("/nope").json()["error"]["type"] == "not_found_error"


# Completions


def test_whole_answer_has_the_engine_s_fields(fake: FakeEngine) -> None:
    with fake.always(tok_s=40, prompt_tok_s=200, text="one two three").serving() as server:
        body = server.chat("four short words here", **EXACT).json()
        log = server.log
    assert list(body) == "choices created model system_fingerprint object usage id timings".split()
    choice = body["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] == "one two three one two three one two three"
    assert body["usage"]["total_tokens"] == 6 + 9
    assert body["timings"] == {
        "cache_n": 0,
        "prompt_n": 6,
        "prompt_ms": pytest.approx(30),
        "prompt_per_token_ms": pytest.approx(5),
        "prompt_per_second": pytest.approx(200),
        "predicted_n": 9,
        "predicted_ms": pytest.approx(200),
        "predicted_per_token_ms": pytest.approx(25),
        "predicted_per_second": pytest.approx(40),
    }
    assert "| prompt eval time =      30.00 ms /     6 tokens (    5.00 ms per token,   200.00 tokens" in log
    assert "|        eval time =     200.00 ms /     9 tokens (   25.00 ms per token,    40.00 tokens" in log


def test_older_build_counts_the_first_token(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, build="9246").always(tok_s=40).serving() as server:
        assert "server is listening on http://" in server.log
        timings = server.chat(**EXACT).json()["timings"]
    assert timings["predicted_per_second"] == pytest.approx(45)


def test_text_ends_where_it_ends(fake: FakeEngine) -> None:
    with fake.always(text="a b c").serving() as server:
        choice = server.chat(max_tokens=50).json()["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("stop", "a b c")


def test_stream_has_the_engine_s_form(fake: FakeEngine) -> None:
    with fake.always(text="a b c").serving() as server:
        answer = server.chat(stream=True, stream_options={"include_usage": True}, max_tokens=3)
    assert answer.headers["content-type"] == "text/event-stream"
    *chunks, done = sse_data(answer.text)
    assert done == "[DONE]"
    first, *tokens, end, usage = [json.loads(chunk) for chunk in chunks]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert [token["choices"][0]["delta"] for token in tokens] == [{"content": t} for t in ("a", " b", " c")]
    assert end["choices"] == [{"finish_reason": "length", "index": 0, "delta": {}}]
    assert "timings" not in end
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 3)
    assert usage["timings"]["predicted_n"] == 3
    assert usage["object"] == "chat.completion.chunk"


def test_timings_come_with_the_end_if_usage_is_not_asked_for(fake: FakeEngine) -> None:
    with fake.serving() as server:
        last = json.loads(sse_data(server.chat(stream=True, **EXACT).text)[-2])
    assert last["choices"][0]["finish_reason"] == "length"
    assert last["timings"]["predicted_n"] == 9
    assert "usage" not in last


def test_thoughts_come_first_unless_switched_off(tmp_path: Path) -> None:
    with FakeEngine(tmp_path, reasons=True).always(text="a b c d").serving() as server:
        deltas = [
            json.loads(chunk)["choices"][0]["delta"]
            for chunk in sse_data(server.chat(stream=True, max_tokens=4).text)[1:-2]
        ]
        off: dict[str, Any] = {"chat_template_kwargs": {"enable_thinking": False}}
        message = server.chat(max_tokens=4, **off).json()["choices"][0]["message"]
    assert [key for delta in deltas for key in delta] == ["reasoning_content"] * 2 + ["content"] * 2
    assert message == {"role": "assistant", "content": "a b c d"}


def test_prompt_cache_is_on_unless_switched_off(fake: FakeEngine) -> None:
    with fake.serving("-np", "1") as server:
        server.chat("one two three")
        assert server.chat("one two three").json()["timings"]["cache_n"] == 0
        assert server.chat("one two three", cache_prompt=True).json()["timings"]["cache_n"] == 3


def test_prompt_beyond_the_context_is_refused(fake: FakeEngine) -> None:
    with fake.serving("-c", "256", "-np", "1") as server:
        answer = server.chat("word " * 200)
    assert answer.status_code == 400
    assert answer.json()["error"] == {
        "code": 400,
        "message": "request (260 tokens) exceeds the available context size (256 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 260,
        "n_ctx": 256,
    }


@pytest.mark.parametrize("body", [b"{bad", b"{}", b'{"messages":[],"max_tokens":-7}'])
def test_senseless_request_is_refused(fake: FakeEngine, body: bytes) -> None:
    with fake.serving() as server, server.client() as client:
        answer = client.post("/v1/chat/completions", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


# Speed


@pytest.mark.parametrize(
    ("arguments", "tok_s"),
    [
        (("-sm", "none"), 60),
        (("-sm", "none", "-mg", "1"), 30),
        (("-sm", "layer", "-ts", "1,1"), 40),
        (("-sm", "layer", "-ts", "1,0"), 60),
        (("-sm", "layer", "-dev", "CUDA1,CUDA0", "-ts", "1,0"), 30),
        (("-sm", "tensor", "-ts", "2,1"), 81),
        (("-sm", "tensor"), 54),
    ],
)
def test_speed_follows_the_split(fake: FakeEngine, arguments: tuple[str, ...], tok_s: float) -> None:
    with fake.serving(*arguments) as server:
        timings = server.chat(**EXACT).json()["timings"]
    assert timings["predicted_per_second"] == pytest.approx(tok_s)


def test_drafts_are_counted_and_their_acceptance_is_told(fake: FakeEngine) -> None:
    fake.always(draft_acceptance=0.75)
    with fake.serving("--spec-type", "draft-mtp", "--spec-draft-n-max", "4", "-np", "1") as server:
        assert server.get("/slots").json()[0]["speculative"] is True
        timings = server.chat(max_tokens=101, ignore_eos=True).json()["timings"]
        assert (timings["draft_n"], timings["draft_n_accepted"]) == (100, 75)
        assert "draft acceptance = 0.75000 (   75 accepted /   100 generated), mean len =  4.00" in server.log
        assert server.get("/slots").json()[0]["params"]["speculative.types"] == "none,draft-mtp"


def test_server_may_be_up_without_the_drafts_asked_for(fake: FakeEngine) -> None:
    fake.when({"spec-type": "draft-mtp"}, no_speculation=True)
    for kind in ("draft-mtp", "draft-simple"):
        with fake.serving("--spec-type", kind) as server:
            assert "E srv    load_model: failed to initialize speculative decoding context:" in server.log
            assert server.get("/slots").json()[0]["speculative"] is False
            assert "draft_n" not in server.chat(**EXACT).json()["timings"]


def test_timings_may_lie(fake: FakeEngine) -> None:
    with fake.always(tok_s=40, timings_factor=0.5).serving() as server:
        timings = server.chat(**EXACT).json()["timings"]
    assert timings["predicted_ms"] == pytest.approx(100)
    assert timings["predicted_per_second"] == pytest.approx(80)


@pytest.mark.parametrize("stream", [False, True])
def test_honest_time_takes_as_long_as_it_says(tmp_path: Path, *, stream: bool) -> None:
    fake = FakeEngine(tmp_path, time_scale=1).always(load_s=0, tok_s=100, prompt_tok_s=100)
    with fake.serving() as server:
        elapsed_s = server.chat("one two three four", **EXACT, stream=stream).elapsed.total_seconds()
    assert elapsed_s >= 0.14  # 6 tokens of prompt and 8 steps


# Trouble while it serves


def test_it_dies_at_the_request_it_was_told(fake: FakeEngine) -> None:
    with fake.always(die_in="request:2").serving() as server:
        assert server.chat(**EXACT).status_code == 200
        with pytest.raises(httpx.TransportError):
            server.chat(**EXACT)
        assert server.wait() == -signal.SIGABRT
        assert "GGML_ASSERT(split_state.n_segments == 1) failed" in server.log


def test_out_of_memory_at_run_time_is_a_cuda_error(fake: FakeEngine) -> None:
    with fake.always(oom=oom("runtime"), die_in="request:1").serving() as server:
        with pytest.raises(httpx.TransportError):
            server.chat(**EXACT)
        assert server.wait() == -signal.SIGABRT
        assert "E CUDA error: out of memory\n" in server.log
        assert "current device: 1, in function alloc at " in server.log


@pytest.mark.parametrize(("hang", "events"), [("first-token", 0), ("mid-stream", 5)])
def test_hung_stream_stops_at_its_place(fake: FakeEngine, hang: str, events: int) -> None:
    body = chat_body("Count.", stream=True, **EXACT)
    received: list[str] = []
    with fake.always(hang=hang).serving() as server:
        with pytest.raises(httpx.ReadTimeout):
            read_stream(server.url, body, received)
        # The client has left, so nothing keeps the server from ending.
        server.process.terminate()
        assert server.wait() == 0
    assert len(received) == events


def test_hang_after_an_idle_gap_lets_the_first_request_through(fake: FakeEngine) -> None:
    body = chat_body("Count.", stream=True, **EXACT)
    first: list[str] = []
    second: list[str] = []
    with fake.always(hang="after-idle").serving() as server:
        read_stream(server.url, body, first)
        with pytest.raises(httpx.ReadTimeout):
            read_stream(server.url, body, second)
    assert first[-1] == "data: [DONE]"
    assert second == []


def read_stream(url: str, body: dict[str, Any], received: list[str]) -> None:
    with (
        httpx.Client(timeout=httpx.Timeout(DEADLINE_S, read=0.2)) as client,
        client.stream("POST", f"{url}/v1/chat/completions", json=body) as answer,
    ):
        received.extend(line for line in answer.iter_lines() if line)


def test_busy_server_waits_for_its_client(fake: FakeEngine) -> None:
    with fake.always(hang="first-token").serving() as server, server.client() as client:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: "
        body = json.dumps(chat_body("Count.")).encode()
        with socket.create_connection((client.base_url.host, client.base_url.port or 0)) as sock:
            sock.sendall(head + str(len(body)).encode() + b"\r\n\r\n" + body)
            server.wait_for_log("processing task")
            assert any(slot["is_processing"] for slot in server.get("/slots").json())
            server.process.terminate()
            server.wait_for_log("cleaning up before exit")
            with pytest.raises(subprocess.TimeoutExpired):
                server.process.wait(0.1)
        assert server.wait() == 0


def test_half_closed_stream_has_no_end(fake: FakeEngine) -> None:
    with fake.always(half_close=True).serving() as server:
        with pytest.raises(httpx.RemoteProtocolError):
            server.chat(stream=True, **EXACT)
        with pytest.raises(httpx.RemoteProtocolError):
            server.chat(**EXACT)


def test_garbage_is_no_json(fake: FakeEngine) -> None:
    with fake.always(garbage=True).serving() as server:
        with pytest.raises(json.JSONDecodeError):
            server.chat(**EXACT).json()
        chunks = sse_data(server.chat(stream=True, **EXACT).text)[:-1]
        with pytest.raises(json.JSONDecodeError):
            [json.loads(chunk) for chunk in chunks]
        assert server.get("/props").json()


def test_garbage_may_come_from_any_page(fake: FakeEngine) -> None:
    with fake.always(garbage=["/props"]).serving() as server:
        with pytest.raises(json.JSONDecodeError):
            server.get("/props").json()
        assert server.chat(**EXACT).json()


def test_streamed_answer_closes_a_connection_advertised_as_alive(fake: FakeEngine) -> None:
    with fake.serving() as server, httpx.Client(base_url=server.url) as client:
        body = json.dumps(chat_body("Count.", stream=True)).encode()
        with socket.create_connection((client.base_url.host, client.base_url.port or 0)) as sock:
            sock.settimeout(DEADLINE_S)
            sock.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            )
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert b"\r\nKeep-Alive: timeout=5, max=100\r\n" in answer
    assert answer.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


# Signals


def test_idle_server_ends_with_zero(fake: FakeEngine) -> None:
    with fake.serving() as server:
        server.process.terminate()
        assert server.wait() == 0


def test_signal_during_the_load_kills(fake: FakeEngine) -> None:
    with fake.always(hang="load").started() as server:
        server.wait_for_log("loading model")
        server.process.terminate()
        assert server.wait() == -signal.SIGTERM


def test_sigterm_may_be_ignored(fake: FakeEngine) -> None:
    with fake.always(ignore_sigterm=True).serving() as server:
        server.process.terminate()
        assert server.get("/health").status_code == 200
        server.process.kill()
        assert server.wait() == -signal.SIGKILL


# Events


def test_events_tell_what_was_launched_and_asked(fake: FakeEngine) -> None:
    with fake.serving("-c", "4096") as server:
        server.chat("Count.", **EXACT)
        server.process.terminate()
        server.wait()
    start, request, stop = fake.events()
    assert start["argv"] == ["-m", str(fake.model), "--port", "0", "-c", "4096"]
    assert "FAKE_RULES" in start["environment"]
    assert (request["number"], request["body"]["cache_prompt"]) == (1, False)
    assert (stop["event"], stop["exit"], stop["pid"]) == ("stop", 0, server.process.pid)
    assert fake.events("request") == [request]


# The real one


@pytest.mark.server
def test_help_equals_the_real_one(llama_server_path: Path, fake: FakeEngine) -> None:
    assert _real(llama_server_path, "--help").stdout == fake.run("--help").stdout


@pytest.mark.server
@pytest.mark.parametrize("arguments", [*REFUSALS, "--version", "--ctx_size 12 -c 3 -c 4 --x"])
def test_answer_equals_the_real_one(llama_server_path: Path, fake: FakeEngine, arguments: str) -> None:
    ours, real = fake.run(*arguments.split()), _real(llama_server_path, *arguments.split())
    assert (ours.returncode, ours.stdout) == (real.returncode, real.stdout)
    told, log = _told(ours.stderr), _told("".join(re.findall(r"^.* W .*$", ours.stderr, re.MULTILINE)))
    assert told - log <= _told(real.stderr) <= told


def _real(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": os.devnull}
    return subprocess.run(
        [path, *arguments], env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )


def _told(stderr: str) -> Counter[str]:
    """The words without the times, and in no order.

    The real log has a thread of its own, which writes in pieces, and which a server that ends at once may not
    wait for: 116 of 3,000 times some or all of a warning was missing on a busy machine.
    """
    return Counter(re.sub(r"\d+(\.\d+){3}", "", stderr).split())


def test_the_script_can_be_executed() -> None:
    assert os.access(fake_server_path(), os.X_OK)
