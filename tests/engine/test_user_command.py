"""A command as a user has it in a script, flags after `--`, and samplers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.fake_llama.builds import BUILDS
from tuner.engine.command_line import read_user_flags
from tuner.engine.help_text import HelpText
from tuner.engine.user_command import (
    SAMPLER_FIELDS,
    number,
    option_value,
    parse_command,
    parse_extra,
    parse_sampling,
    split_value,
)
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.core.options import Value

NEW, OLD = (HelpText(BUILDS[build].help_text()) for build in ("11434", "9246"))

SHARED = r"""GGML_CUDA_ALLREDUCE=nccl CUDA_VISIBLE_DEVICES="1,0" \
  ~/llama.cpp/build/bin/llama-server \
    -m '/models/Qwen 3.gguf' --alias "my model" \
    -ngl 99 -sm tensor -ts 2,3 -c 32768 --host 0.0.0.0 --port 8081 --api-key hunter2 \
    --temp 0.6 --top-k 20 --chat-template-kwargs '{"enable_thinking": false}'
"""


# --- a whole command


def test_script_is_taken_apart_as_a_shell_does() -> None:
    command = parse_command(NEW, SHARED)
    assert command.environment == {"GGML_CUDA_ALLREDUCE": "nccl", "CUDA_VISIBLE_DEVICES": "1,0"}
    assert command.argv == [
        *("--alias", "my model", "-ngl", "99", "-sm", "tensor", "-ts", "2,3", "-c", "32768"),
        *("--temp", "0.6", "--top-k", "20", "--chat-template-kwargs", '{"enable_thinking": false}'),
    ]
    assert command.value("ctx-size") == "32768"
    assert command.value("parallel") is None


def test_what_the_tuner_sets_is_left_out_and_said_without_its_value() -> None:
    command = parse_command(NEW, SHARED)
    assert command.left_out == ("--host", "--port", "--api-key")


@pytest.mark.parametrize(
    "flags",
    ["-hf org/model:Q4_K_M", "-mu https://example.org/m.gguf", "--ssl-key-file k --ssl-cert-file c"],
)
def test_another_model_or_another_address_is_left_out(flags: str) -> None:
    command = parse_command(NEW, f"llama-server {flags} -ngl 99")
    assert command.argv == ["-ngl", "99"]
    assert command.left_out == tuple(word for word in flags.split() if word.startswith("-"))


@pytest.mark.parametrize("program", ["llama-server ", "./llama-server ", ""])
def test_program_is_dropped_and_need_not_be_there(program: str) -> None:
    assert parse_command(NEW, f"{program}-ngl 99").argv == ["-ngl", "99"]


def test_last_value_counts_and_both_are_kept() -> None:
    command = parse_command(NEW, "llama-server -c 4096 --ctx-size 8192")
    assert command.value("ctx-size") == "8192"
    assert command.argv == ["-c", "4096", "--ctx-size", "8192"]


def test_samplers_of_a_command_become_fields_of_the_request() -> None:
    sampling = parse_command(NEW, "llama-server --temp 0.6 --top-k 20 --top-nsigma 1 --min-p 0").sampling
    assert sampling.values == {"temperature": 0.6, "top_k": 20, "top_n_sigma": 1, "min_p": 0}
    assert sampling.source == "current"
    assert parse_command(NEW, "llama-server -c 1").sampling.values == {}


def test_every_sampler_is_known_by_the_name_that_the_help_gives_it() -> None:
    names = {name: NEW.canonical(f"--{name}") for name in SAMPLER_FIELDS}
    assert all(canonical in SAMPLER_FIELDS for canonical in names.values()), names


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("llama-server -a 'unclosed", "--current: No closing quotation in: llama-server"),
        ("", "--current: holds no command"),
        ("A=1 B=2", "--current: holds no command"),
        ("llama-server -ngl 99 stray", "--current: 'stray' is no flag"),
        ("llama-server -c", "--current: -c needs a value"),
    ],
)
def test_command_that_cannot_be_read_is_refused(command: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_command(NEW, command)


def test_sampler_that_is_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match="--current: --temp must be a number, got 'hot'"):
        _ = parse_command(NEW, "llama-server --temp hot").sampling


# --- flags after --


def test_extra_flags_are_kept_as_written() -> None:
    flags = parse_extra(NEW, ["--rpc", "host:1,host:2", "--mmproj", "a b.gguf", "--jinja"])
    assert [flag.tokens for flag in flags] == [
        ("--rpc", "host:1,host:2"),
        ("--mmproj", "a b.gguf"),
        ("--jinja",),
    ]


@pytest.mark.parametrize("words", ["--port 1", "--host ::", "-m x.gguf", "--api-key k", "-hf org/model"])
def test_extra_flags_that_the_tuner_sets_are_refused(words: str) -> None:
    with pytest.raises(UsageError, match="after -- is set by the tuner"):
        parse_extra(NEW, words.split())


@pytest.mark.parametrize("words", ["--version", "-h", "--list-devices", "--completion-bash"])
def test_extra_flags_with_which_a_server_never_serves_are_refused(words: str) -> None:
    with pytest.raises(UsageError, match="print something and end"):
        parse_extra(NEW, words.split())


def test_extra_word_that_is_no_flag_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'model\.gguf' is no flag"):
        parse_extra(NEW, ["model.gguf"])


# --- samplers as an option


def test_samplers_are_read_with_either_dash() -> None:
    sampling = parse_sampling("temp=0.6, top_k=20,top-p=1e-1")
    assert sampling.values == {"temperature": 0.6, "top_k": 20, "top_p": 0.1}
    assert sampling.source == "option"


@pytest.mark.parametrize("text", ["temp", "heat=1", "", "temp=0.6,,top-k=1"])
def test_unknown_sampler_names_the_known_ones(text: str) -> None:
    with pytest.raises(UsageError, match=r"--sampling: .* is not understood; .* temp, "):
        parse_sampling(text)


def test_sampler_without_a_number_is_refused() -> None:
    with pytest.raises(UsageError, match="--sampling: temp must be a number, got 'hot'"):
        parse_sampling("temp=hot")


# --- values of flags


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("-ts 2,3", (2, 3)),
        ("-ts 0.6/0.4", (6000, 4000)),
        ("-dev CUDA1,CUDA0", ("CUDA1", "CUDA0")),
        ("-ngl all", 999),
        ("-ngl 20", 20),
        ("-fa on", "on"),
        ("--spec-draft-p-min 0.75", 0.75),
        ("--no-host", True),
        ("--no-kv-unified", False),
        ("-no-kvu", False),
        ("--kv_unified", True),
        ("-nkvo", False),
        ("-kvo", True),
        ("-nr", False),
        ("--no_repack", False),
    ],
)
def test_value_of_a_flag_is_the_options_value(words: str, value: Value) -> None:
    for help_text in (NEW, OLD):
        (flag,) = read_user_flags(help_text, words.split())
        assert option_value(flag) == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("-c 4k", "-c 4k must be a number, got '4k'"),
        ("-c 1.5", "-c 1.5: must be a whole number"),
        ("-ts 0,0", "proportions have to be 0 or more"),
        ("-ts 2,-3", "proportions have to be 0 or more"),
        ("-ts 2,x", "must be a number, got 'x'"),
    ],
)
def test_value_of_another_kind_is_refused(words: str, message: str) -> None:
    (flag,) = read_user_flags(NEW, words.split())
    with pytest.raises(UsageError, match=message):
        option_value(flag)


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999"])
def test_number_is_finite(text: str) -> None:
    with pytest.raises(UsageError, match=f"--x must be a number, got '{text}'"):
        number(text, "--x")
    with pytest.raises(UsageError):
        split_value(f"1,{text}", "-ts")
