"""A command that is looked at: every word of it is kept."""

from __future__ import annotations

import contextlib
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fake_llama.builds import BUILDS
from tests.support.strategies import PROPERTY
from tuner.engine.checked_command import is_stray, read_command
from tuner.engine.help_text import HelpText
from tuner.errors import UsageError

NEW, OLD = (HelpText(BUILDS[build].help_text()) for build in ("11434", "9246"))

ARTICLE = (
    "CUDA_VISIBLE_DEVICES=0,1 llama-server -m Qwen3.6-27B-Q8_0.gguf --tensor-split 0.6,0.4 -ngl 64 -c 4096 "
    "--host 0.0.0.0"
)


def tokens(command: str, help_text: HelpText = NEW) -> list[tuple[str, ...]]:
    return [flag.tokens for flag in read_command(help_text, command).flags]


# --- what is kept


def test_model_host_and_key_are_kept() -> None:
    command = read_command(NEW, f"{ARTICLE} --api-key k")
    assert command.environment == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert command.program == "llama-server"
    assert command.value("model") == "Qwen3.6-27B-Q8_0.gguf"
    assert command.value("host") == "0.0.0.0"  # noqa: S104 - what the user wrote
    assert command.value("api-key") == "k"
    assert command.value("tensor-split") == "0.6,0.4"


def test_last_value_counts() -> None:
    command = read_command(NEW, "llama-server -c 4096 --ctx-size 8192")
    assert command.value("ctx-size") == "8192"
    assert (command.value("parallel"), command.has("parallel")) == (None, False)


def test_switch_is_there_without_a_value() -> None:
    command = read_command(NEW, "llama-server -no-kvu")
    assert command.has("kv-unified")
    assert command.value("kv-unified") is None


def test_key_in_the_environment_is_kept() -> None:
    assert read_command(NEW, "LLAMA_API_KEY=k llama-server").environment == {"LLAMA_API_KEY": "k"}


# --- words that are wrong


def test_word_that_is_no_flag_is_kept_where_it_stands() -> None:
    flags = read_command(NEW, "llama-server stray -kvu on -c 1").flags
    assert [flag.tokens for flag in flags] == [("stray",), ("-kvu",), ("on",), ("-c", "1")]
    assert [is_stray(flag) for flag in flags] == [True, False, True, False]


@pytest.mark.parametrize("words", ["-fa -ngl 99", "-fa --unknown", "-fa", "-fa --mlock"])
def test_missing_value_is_not_taken_from_the_next_flag(words: str) -> None:
    assert tokens(f"llama-server {words}")[0] == ("-fa",)


@pytest.mark.parametrize("value", ["-1", "-", "-0.5", "-x", "--- end"])
def test_value_may_begin_with_a_dash(value: str) -> None:
    assert tokens(f"llama-server -r '{value}'") == [("-r", value)]


def test_unknown_flag_takes_what_follows_unless_that_is_a_flag() -> None:
    assert tokens("llama-server --foo 1 --bar -c 1 -baz -qux 2") == [
        ("--foo", "1"),
        ("--bar",),
        ("-c", "1"),
        ("-baz",),
        ("-qux", "2"),
    ]


def test_removed_switch_takes_nothing() -> None:
    assert tokens("llama-server --mlock word") == [("--mlock",), ("word",)]


def test_flag_with_an_equals_sign_is_one_word() -> None:
    assert tokens("llama-server --ctx-size=4096 word") == [("--ctx-size=4096",), ("word",)]


def test_flag_of_two_values_takes_both() -> None:
    words = "--control-vector-layer-range 1 9 -c 1"
    assert tokens(f"llama-server {words}") == [("--control-vector-layer-range", "1", "9"), ("-c", "1")]


def test_flag_with_a_typographic_dash_keeps_its_value() -> None:
    assert tokens("llama-server –ts 3,2 —fa -c 1") == [("–ts", "3,2"), ("—fa",), ("-c", "1")]  # noqa: RUF001


# --- what stands around it in scripts


@pytest.mark.parametrize(
    "command",
    [
        "A=1 nohup ./bin/llama-server -c 1 > log.txt 2>&1 &",
        "sudo env A=1 ./bin/llama-server -c 1 2>err.txt | tee log.txt",
        "export A=1; cd /x && ./bin/llama-server -c 1 &>> log && echo -n done",
        "export A=1\n./bin/llama-server \\\n  -c 1",
    ],
)
def test_shell_around_the_command_is_taken_off(command: str) -> None:
    read = read_command(NEW, command)
    assert read.environment == {"A": "1"}
    assert read.program == "./bin/llama-server"
    assert [flag.tokens for flag in read.flags] == [("-c", "1")]


def test_command_may_begin_with_a_flag() -> None:
    read = read_command(NEW, "-c 1")
    assert (read.program, [flag.tokens for flag in read.flags]) == ("", [("-c", "1")])


def test_another_program_keeps_its_words() -> None:
    read = read_command(NEW, "docker run image -c 1")
    assert read.program == "docker"
    assert [flag.tokens for flag in read.flags] == [("run",), ("image",), ("-c", "1")]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("llama-server -a 'unclosed", "tuner check: No closing quotation in: llama-server"),
        ("", "tuner check: holds no command; give it whole: tuner check"),
        ("A=1", "tuner check: holds no command"),
    ],
)
def test_command_that_cannot_be_read_is_refused(command: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_command(NEW, command)


# --- properties

SPELLINGS = sorted({spelling for entry in NEW.entries for spelling in entry.spellings})
plain_texts = st.text(st.characters(exclude_characters="&|;<>\\", exclude_categories=["Cs"]), max_size=12)
words = st.lists(st.sampled_from(SPELLINGS) | plain_texts, max_size=12)


@PROPERTY
@given(words)
def test_any_words_are_read_and_none_is_lost(typed: list[str]) -> None:
    for help_text in (NEW, OLD):
        command = read_command(help_text, shlex.join(["llama-server", *typed]))
        assert [token for flag in command.flags for token in flag.tokens] == typed


@PROPERTY
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(UsageError):
        read_command(NEW, text)
