"""The options that a server runs with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.checked_commands import CARDS, MODEL, NEW, OLD
from tuner.core.memory.query import query_of
from tuner.engine.checked_command import read_command
from tuner.engine.effective_options import effective_options, fit_decides
from tuner.engine.findings.asked import Asked, asked_of
from tuner.engine.help_text import HelpText

if TYPE_CHECKING:
    from tuner.core.options import Value


def asked(words: str, help_text: HelpText = NEW, variables: str = "") -> Asked:
    return asked_of(
        read_command(help_text, f"{variables} llama-server -m m.gguf {words}"),
        help_text,
        model=MODEL,
        n_devices=2,
        fa_all_quants=None,
        device_names=CARDS,
    )


def options(words: str, help_text: HelpText = NEW, variables: str = "") -> dict[str, Value]:
    return effective_options(asked(words, help_text, variables), MODEL)


# --- what the engine does by itself


def test_engines_own_are_taken_where_the_command_says_nothing() -> None:
    assert options("") == {
        "split-mode": "layer",
        "gpu-layers": 999,
        "ctx-size": 262_144,
        "parallel": 4,
        "kv-unified": True,
        "batch-size": 2048,
        "ubatch-size": 512,
        "flash-attn": "auto",
        "cache-type-k": "f16",
        "cache-type-v": "f16",
        "spec-type": "none",
    }


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("-ngl 20", "gpu-layers", 20),
        ("-ngl 0", "gpu-layers", 0),
        ("-ngl -1", "gpu-layers", 999),
        ("-ngl auto", "gpu-layers", 999),
        ("-ngl all", "gpu-layers", 999),
        ("-ngl many", "gpu-layers", 999),
        ("-c 8192", "ctx-size", 8192),
        ("-c 8k", "ctx-size", 8),
        ("-c 0", "ctx-size", 262_144),
        ("-c 4096 -c 8192", "ctx-size", 8192),
        ("-ub 256", "ubatch-size", 256),
        ("-b 512", "batch-size", 512),
        ("-sm tensor", "split-mode", "tensor"),
        ("-ts 2,3", "tensor-split", (2, 3)),
        ("-ts 0.6/0.4", "tensor-split", (6000, 4000)),
        ("-dev CUDA1,CUDA0", "device", ("CUDA1", "CUDA0")),
        ("-ctk q8_0", "cache-type-k", "q8_0"),
        ("-nkvo", "kv-offload", False),
        ("--swa-full", "swa-full", True),
        ("-fa off", "flash-attn", "off"),
        ("-mg 1", "main-gpu", 1),
        ("-ncmoe 7", "n-cpu-moe", 7),
        ("-ncffn 7", "n-cpu-ffn", 7),
        ("-cmoe", "cpu-moe", True),
        ("-ot a=CPU -ot b=CUDA0", "override-tensor", "a=CPU,b=CUDA0"),
        ("-ncffn 1 -ot b=CUDA0", "override-tensor", r"blk\.0\.ffn_(up|down|gate)\.=CPU,b=CUDA0"),
        ("-ot b=CUDA0 -cmoe", "override-tensor", r"b=CUDA0,\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU"),
        ("-ot b=CUDA0 -ncmoe 7", "n-cpu-moe", 0),  # it is among the patterns
        ("--spec-type ngram-mod,mtp", "spec-type", "ngram-mod,draft-mtp"),
        ("--spec-draft-n-max 5", "spec-draft-n-max", 5),
    ],
)
def test_flag_sets_its_option(words: str, name: str, value: Value) -> None:
    assert options(words)[name] == value


@pytest.mark.parametrize("words", ["-ts 0,0", "-ts a,b", "-ts -1,2", "-ts"])
def test_value_that_cannot_be_read_is_left_out(words: str) -> None:
    assert "tensor-split" not in options(words)


# --- slots


@pytest.mark.parametrize(
    ("words", "slots", "unified"),
    [
        ("-np 2", 2, False),
        ("-np 2 -kvu", 2, True),
        ("-np -1", 4, True),
        ("-np -1 -no-kvu", 4, True),
        ("-no-kvu", 4, True),
        ("-np 1", 1, False),
    ],
)
def test_slots_that_nobody_counts_share_one_cache(words: str, slots: int, *, unified: bool) -> None:
    found = options(words)
    assert (found["parallel"], found["kv-unified"]) == (slots, unified)


# --- variables


@pytest.mark.parametrize(
    ("variable", "name", "value"),
    [
        ("LLAMA_ARG_CTX_SIZE=8192", "ctx-size", 8192),
        ("LLAMA_ARG_N_GPU_LAYERS=20", "gpu-layers", 20),
        ("LLAMA_ARG_TENSOR_SPLIT=2,3", "tensor-split", (2, 3)),
        ("LLAMA_ARG_SPLIT_MODE=tensor", "split-mode", "tensor"),
        ("LLAMA_ARG_CACHE_TYPE_K=q8_0", "cache-type-k", "q8_0"),
        ("LLAMA_ARG_KV_OFFLOAD=off", "kv-offload", False),
        ("LLAMA_ARG_DEVICE=CUDA1", "device", ("CUDA1",)),
        ("LLAMA_ARG_N_CPU_MOE=3", "n-cpu-moe", 3),
        ("LLAMA_ARG_CPU_MOE=1", "cpu-moe", True),
        ("LLAMA_ARG_OVERRIDE_TENSOR=a=CPU", "override-tensor", "a=CPU"),
        ("GGML_CUDA_ALLREDUCE=internal", "GGML_CUDA_ALLREDUCE", "internal"),
    ],
)
def test_variable_sets_an_option_as_its_flag_does(variable: str, name: str, value: Value) -> None:
    assert options("", variables=variable)[name] == value


@pytest.mark.parametrize(
    ("variable", "words", "name", "value"),
    [
        ("LLAMA_ARG_SPLIT_MODE=tensor", "-sm none", "split-mode", "none"),
        ("LLAMA_ARG_TENSOR_SPLIT=2,3", "-ts 1,1", "tensor-split", (1, 1)),
        ("LLAMA_ARG_CTX_SIZE=8192", "-c 4096", "ctx-size", 4096),
    ],
)
def test_flag_wins_over_the_variable(variable: str, words: str, name: str, value: Value) -> None:
    assert options(words, variables=variable)[name] == value


def test_variable_of_another_program_sets_nothing() -> None:
    assert options("", variables="CUDA_VISIBLE_DEVICES=0,1") == options("")


# --- what it is for


def test_options_give_the_query_that_decides_memory() -> None:
    query = query_of(options("-sm tensor -ts 2,3 -c 8192 -np 2 -ctk q8_0 -ub 4096"), CARDS)
    assert (query.mode, query.split, query.cells, query.streams) == ("tensor", (2, 3), 4096, 2)
    assert (query.type_k, query.type_v, query.ubatch) == ("q8_0", "f16", 2048)


# --- fit


@pytest.mark.parametrize(
    ("words", "decides"),
    [
        ("", True),
        ("-c 8192", True),
        ("-fit on", True),
        ("-fit off", False),
        ("-ngl 99", False),
        ("-ts 1,1", False),
        ("-ot a=CPU", False),
        ("-ncmoe 3", False),
        ("-sm tensor", False),
    ],
)
def test_fit_changes_what_is_left_open(words: str, *, decides: bool) -> None:
    assert fit_decides(asked(words)) is decides


def test_engine_without_fit_changes_nothing() -> None:
    without = HelpText("\n".join(line for line in OLD.text.splitlines() if not line.startswith("-fit")))
    assert without.option("fit") is None
    assert not fit_decides(asked("", without))
