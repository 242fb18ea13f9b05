"""The engine's own reckoning of memory, and every way in which its tool can fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tuner.core.memory.oracle import FitRow
from tuner.core.memory.overrides import Override
from tuner.core.memory.query import MemoryQuery
from tuner.engine.fit_params import PROGRAM, FitParams
from tuner.engine.help_text import HelpText
from tuner.engine.probe import Engine

HELP = """\
----- common params -----

-c,    --ctx-size N                     size of the prompt context
-np,   --parallel N                     number of parallel sequences to decode
-b,    --batch-size N                   logical maximum batch size
-ub,   --ubatch-size N                  physical maximum batch size
--swa-full                              use full-size SWA cache (default: false)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to enable KV cache offloading (default: enabled)
-ctk,  --cache-type-k TYPE              KV cache data type for K
-ctv,  --cache-type-v TYPE              KV cache data type for V
--rpc SERVERS                           comma-separated list of RPC servers (host:port)
-dev,  --device <dev1,dev2,..>          comma-separated list of devices to use for offloading
-ot,   --override-tensor <tensor name pattern>=<buffer type>,...
                                        override tensor buffer type
-ngl,  --gpu-layers, --n-gpu-layers N   max. number of layers to store in VRAM
--op-offload, --no-op-offload           whether to offload host tensor operations to device (default: true)
-sm,   --split-mode {none,layer,row,tensor}
                                        how to split the model across multiple GPUs
-ts,   --tensor-split N0,N1,N2,...      fraction of the model to offload to each GPU
-fit,  --fit [on|off]                   whether to adjust unset arguments to fit in device memory
-m,    --model FNAME                    model path to load

----- example-specific params -----

-fitp, --fit-print [on|off]             print the estimated required memory
"""
ROWS = "CUDA0 19290 502 284 \nCUDA1 6682 159 617 \nHost 1288 0 132 \n"
ANSWER = (
    FitRow("CUDA0", 19_290, 502, 284),
    FitRow("CUDA1", 6682, 159, 617),
    FitRow("Host", 1288, 0, 132),
)
QUERY = MemoryQuery(("CUDA0", "CUDA1"), "layer", (50, 16), gpu_layers=999, n_ctx=8192)
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "1,0"}
SHORT_S = 1.0
FAIR_S = 20.0


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path / "llama-server", "digest", "version: 1", HelpText(""))


def install(folder: Path, body: str, help_text: str = HELP) -> Path:
    """A tool of that body in a shell; each question but the one for help is noted in `asked`."""
    (folder / "help.txt").write_text(help_text)
    path = folder / PROGRAM
    path.write_text(
        f'#!/bin/sh\n[ "$1" = --help ] && exec cat {folder}/help.txt\necho "$@" >> {folder}/asked\n{body}\n'
    )
    path.chmod(0o755)
    return path


def saying(text: str) -> str:
    return f"cat <<'END'\n{text}END"


def asked(folder: Path) -> list[str]:
    noted = folder / "asked"
    return noted.read_text().splitlines() if noted.exists() else []


def find(engine: Engine, *, timeout_s: float = FAIR_S) -> FitParams:
    tool = FitParams.find(engine, ENVIRONMENT, timeout_s=timeout_s, rpc_timeout_s=timeout_s)
    assert tool is not None
    return tool


def ask(
    tool: FitParams, query: MemoryQuery = QUERY, split: tuple[int, ...] = (50, 16), rpc: str | None = None
) -> tuple[FitRow, ...] | None:
    return tool.ask(query, split, model_path="/models/m.gguf", rpc=rpc)


# --- whether there is one


def test_engine_without_the_tool_has_none(engine: Engine) -> None:
    assert FitParams.find(engine, ENVIRONMENT) is None


def test_tool_that_may_not_be_executed_is_none(engine: Engine, tmp_path: Path) -> None:
    install(tmp_path, saying(ROWS)).chmod(0o644)
    assert FitParams.find(engine, ENVIRONMENT) is None


def test_folder_of_that_name_is_none(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / PROGRAM).mkdir()
    assert FitParams.find(engine, ENVIRONMENT) is None


def test_build_that_does_not_print_sizes_has_none(engine: Engine, tmp_path: Path) -> None:
    install(tmp_path, saying(ROWS), HELP.replace("--fit-print", "--fit-fish"))
    assert FitParams.find(engine, ENVIRONMENT) is None


def test_tool_that_cannot_be_started_is_none(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / PROGRAM
    path.write_bytes(b"\x7fELF, but no more of it")
    path.chmod(0o755)
    assert FitParams.find(engine, ENVIRONMENT) is None


def test_tool_whose_help_fails_or_hangs_is_none(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / PROGRAM
    for body in (f"{saying(HELP)}\nexit 1", "exec sleep 60"):
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        assert FitParams.find(engine, ENVIRONMENT, timeout_s=SHORT_S) is None


# --- what it is asked


def test_question_is_the_launch_without_its_drafts(engine: Engine, tmp_path: Path) -> None:
    install(tmp_path, saying(ROWS))
    ask(find(engine))
    (words,) = asked(tmp_path)
    assert words == (
        "--model /models/m.gguf --device CUDA0,CUDA1 --gpu-layers 999 --split-mode layer "
        "--tensor-split 50,16 --ctx-size 8192 --parallel 1 --batch-size 512 --ubatch-size 512 "
        "--flash-attn on --cache-type-k f16 --cache-type-v f16 --fit off --fit-print on"
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (replace(QUERY, gpu_layers=40), "--gpu-layers 40"),
        (replace(QUERY, gpu_layers=0), "--gpu-layers 0"),
        (replace(QUERY, gpu_layers=-1), "--gpu-layers 999"),
        (replace(QUERY, gpu_layers=99_999), "--gpu-layers 999"),
        (replace(QUERY, flash_attention=False), "--flash-attn off"),
        (replace(QUERY, type_k="q8_0", type_v="q4_0"), "--cache-type-k q8_0 --cache-type-v q4_0"),
        (replace(QUERY, ubatch=2048), "--batch-size 2048 --ubatch-size 2048"),
        (replace(QUERY, kv_offload=False), "--no-kv-offload"),
        (replace(QUERY, swa_full=True), "--swa-full"),
        (
            replace(QUERY, overrides=(Override("a", "CPU"), Override("b", "CUDA1"))),
            "--override-tensor a=CPU,b=CUDA1",
        ),
        (replace(QUERY, op_offload=False), "--no-op-offload"),
        (replace(QUERY, parallel=4), "--parallel 4"),
        (replace(QUERY, kv_unified=True), "--parallel 1"),
        (replace(QUERY, spec=("ngram-mod",)), "--split-mode layer"),
    ],
)
def test_what_decides_memory_is_passed_on(
    engine: Engine, tmp_path: Path, changed: MemoryQuery, words: str
) -> None:
    install(tmp_path, saying(ROWS))
    assert ask(find(engine), changed) == ANSWER
    assert f" {words} " in f"{asked(tmp_path)[0]} "


def test_rpc_servers_come_before_the_devices_behind_them(engine: Engine, tmp_path: Path) -> None:
    install(tmp_path, saying(ROWS))
    assert ask(find(engine), rpc="127.0.0.1:50052") == ANSWER
    assert "--rpc 127.0.0.1:50052 --device CUDA0,CUDA1" in asked(tmp_path)[0]


def test_one_device_is_asked_for_without_a_split(engine: Engine, tmp_path: Path) -> None:
    install(tmp_path, saying("CUDA0 25972 661 533 \nHost 1288 0 48 \n"))
    query = replace(QUERY, devices=("CUDA0",), mode="none", split=())
    assert ask(find(engine), query, ()) == (
        FitRow("CUDA0", 25_972, 661, 533),
        FitRow("Host", 1288, 0, 48),
    )
    assert "--device CUDA0 " in asked(tmp_path)[0]
    assert "--split-mode none" in asked(tmp_path)[0]
    assert "--tensor-split" not in asked(tmp_path)[0]


def test_tool_runs_in_the_environment_of_the_servers(engine: Engine, tmp_path: Path) -> None:
    install(tmp_path, f'echo "$CUDA_VISIBLE_DEVICES" > {tmp_path}/cards\n{saying(ROWS)}')
    assert ask(find(engine)) == ANSWER
    assert (tmp_path / "cards").read_text() == "1,0\n"


@pytest.mark.parametrize(
    "query",
    [
        replace(QUERY, mode="tensor"),
        replace(QUERY, mode="row"),
        replace(QUERY, mode="none"),
        replace(QUERY, spec=("draft-mtp",), draft_depth=3),
        replace(QUERY, kv_unified=True, parallel=2),  # this help has no --kv-unified
        replace(QUERY, overrides=(Override(r"blk\.\d{1,2}\.ffn", "CPU"),)),
    ],
)
def test_what_it_cannot_tell_is_not_asked(engine: Engine, tmp_path: Path, query: MemoryQuery) -> None:
    install(tmp_path, saying(ROWS))
    assert ask(find(engine), query) is None
    assert asked(tmp_path) == []


def test_build_that_lacks_a_flag_is_not_asked(engine: Engine, tmp_path: Path) -> None:
    install(tmp_path, saying(ROWS), HELP.replace("--cache-type-k", "--cache-type-x"))
    assert ask(find(engine)) is None
    assert asked(tmp_path) == []


def test_unified_cache_is_asked_for_where_the_build_knows_it(engine: Engine, tmp_path: Path) -> None:
    install(tmp_path, saying(ROWS), f"-kvu,  --kv-unified                     one buffer\n{HELP}")
    assert ask(find(engine), replace(QUERY, kv_unified=True, parallel=2)) == ANSWER
    assert "--parallel 2 " in asked(tmp_path)[0]
    assert "--kv-unified" in asked(tmp_path)[0]


# --- what it answers


def test_rows_are_read_among_other_lines(engine: Engine, tmp_path: Path) -> None:
    words = saying(f"some words 1 2\n{ROWS}")
    install(tmp_path, f"echo 0.00 I llama: loading 1 2 3 >&2\n{words}")
    assert ask(find(engine)) == ANSWER


@pytest.mark.parametrize(
    "body",
    [
        "exit 1",
        f"{saying(ROWS)}\nexit 1",
        "kill -ABRT $$",
        "true",
        saying("CUDA0 many few none\n"),
        saying("Meta() 25972 624 533 \nHost 1288 0 48 \n"),
        saying("CUDA0 19290 502 284 \nHost 1288 0 132 \n"),  # a device is missing
        "head -c 4000 /dev/urandom",
    ],
)
def test_failure_and_junk_are_no_answer(engine: Engine, tmp_path: Path, body: str) -> None:
    install(tmp_path, body)
    assert ask(find(engine)) is None
    assert len(asked(tmp_path)) == 1


def test_tool_that_has_gone_is_no_answer(engine: Engine, tmp_path: Path) -> None:
    path = install(tmp_path, saying(ROWS))
    tool = find(engine)
    path.unlink()
    assert ask(tool) is None


def test_path_that_no_program_can_be_given_is_no_answer(engine: Engine, tmp_path: Path) -> None:
    install(tmp_path, saying(ROWS))
    assert find(engine).ask(QUERY, (50, 16), model_path="/models/\0.gguf", rpc=None) is None


@pytest.mark.parametrize("rpc", [None, "127.0.0.1:50052"])
def test_tool_that_hangs_is_ended_and_not_asked_again(
    engine: Engine, tmp_path: Path, rpc: str | None
) -> None:
    install(tmp_path, f"echo $$ > {tmp_path}/pid\nexec sleep 60")
    tool = find(engine, timeout_s=SHORT_S)
    assert ask(tool, rpc=rpc) is None
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    assert ask(tool, replace(QUERY, n_ctx=4096), rpc=rpc) is None
    assert len(asked(tmp_path)) == 1


def test_a_question_is_asked_once(engine: Engine, tmp_path: Path) -> None:
    install(tmp_path, saying(ROWS))
    tool = find(engine)
    assert [ask(tool) for _ in range(3)] == [ANSWER] * 3
    assert len(asked(tmp_path)) == 1
    ask(tool, replace(QUERY, spec=("ngram-mod",), nccl=False))  # no other question for the tool
    assert len(asked(tmp_path)) == 1
    ask(tool, replace(QUERY, n_ctx=4096))
    ask(tool, split=(33, 33))
    assert len(asked(tmp_path)) == 3


def test_a_failure_is_not_asked_for_again(engine: Engine, tmp_path: Path) -> None:
    install(tmp_path, "exit 1")
    tool = find(engine)
    assert [ask(tool) for _ in range(2)] == [None, None]
    assert len(asked(tmp_path)) == 1
