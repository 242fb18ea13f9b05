"""A command with some of its options changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.checked_commands import NEW, OLD
from tests.support.strategies import PROPERTY, option_sets
from tuner.core.candidate import format_value
from tuner.engine.changed_command import changed, set_options, words_of
from tuner.engine.checked_command import read_command
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.core.options import Value
    from tuner.engine.help_text import HelpText


def words(command: str, changes: dict[str, Value | None] | None = None, help_text: HelpText = NEW) -> str:
    return " ".join(words_of(changed(read_command(help_text, command), help_text, changes or {})))


def set_words(command: str, *settings: str) -> str:
    return " ".join(words_of(set_options(read_command(NEW, command), NEW, settings)))


# --- changes


def test_all_else_stays_as_its_owner_wrote_it() -> None:
    command = "A=1 ./llama-server -m m.gguf --host 0.0.0.0 -ts 1,1 -c 8192 --api-key k"
    read = read_command(NEW, command)
    new = changed(read, NEW, {"tensor-split": (2, 3)})
    assert (new.environment, new.program) == ({"A": "1"}, "./llama-server")
    assert words_of(new) == [
        *("-m", "m.gguf", "--host", "0.0.0.0", "-c", "8192", "--api-key", "k"),  # noqa: S104 - the user's
        *("--tensor-split", "2,3"),
    ]


def test_no_change_keeps_every_word() -> None:
    command = "-m m.gguf -ngl 99 -nkvo -ts 2,3 -c 8192"
    assert words(f"llama-server {command}") == command


def test_option_is_taken_away_in_all_its_spellings() -> None:
    assert words("llama-server -ngl 9 --n-gpu-layers 8 -c 1", {"gpu-layers": None}) == "-c 1"


def test_option_that_was_not_there_is_added() -> None:
    changes: dict[str, Value | None] = {"gpu-layers": 999, "cache-type-k": "q8_0", "spec-type": None}
    assert words("llama-server -c 1", changes) == "-c 1 --gpu-layers 999 --cache-type-k q8_0"


def test_switch_is_written_as_a_switch() -> None:
    assert words("llama-server -kvu", {"kv-offload": False, "kv-unified": None}) == "--no-kv-offload"


def test_option_that_the_engine_lacks_is_left_out() -> None:
    assert OLD.spelling("load-mode") is not None or "load-mode" not in words(
        "llama-server", {"load-mode": "mmap"}, OLD
    )
    assert words("llama-server -c 1", {"no-such-option": 1}) == "-c 1"


# --- what this engine does not know


def test_flag_that_is_gone_or_unknown_is_left_out() -> None:
    assert words("llama-server -cd 4096 --frobnicate -c 1") == "-c 1"


def test_stray_words_are_left_out() -> None:
    assert words("llama-server -c 8192 stray") == "-c 8192"


@PROPERTY
@given(option_sets)
def test_what_is_written_is_what_is_read(options: dict[str, Value]) -> None:
    """Whatever it is set to: a command that is changed once more to the same is the same."""
    read = read_command(NEW, "llama-server -m m.gguf -ngl 3")
    once = changed(read, NEW, options)
    for name, value in options.items():
        entry = NEW.option(name)
        if entry is not None and entry.takes_value:
            assert once.value(name) == format_value(name, value)
    assert words_of(changed(once, NEW, options)) == words_of(once)


# --- settings


@pytest.mark.parametrize(
    ("settings", "result"),
    [
        (("tensor-split=2,3",), "-c 1 --tensor-split 2,3"),
        (("--tensor-split=2,3",), "-c 1 --tensor-split 2,3"),
        (("ctx-size=8192",), "-ts 1,1 --ctx-size 8192"),
        (("n-gpu-layers=9",), "-c 1 -ts 1,1 --n-gpu-layers 9"),
        (("ctx-size=2", "ctx-size=3"), "-ts 1,1 --ctx-size 3"),
        (("override-tensor=a=CPU",), "-c 1 -ts 1,1 --override-tensor a=CPU"),
        (("kv-offload=off",), "-c 1 -ts 1,1 --no-kv-offload"),
        (("kv-offload=on",), "-c 1 -ts 1,1 --kv-offload"),
        (("no-kv-offload=on",), "-c 1 -ts 1,1 --no-kv-offload"),
        (("no-kv-offload=off",), "-c 1 -ts 1,1 --kv-offload"),
        (("no-host=on",), "-c 1 -ts 1,1 --no-host"),
        (("no-host=off",), "-c 1 -ts 1,1"),
    ],
)
def test_setting_takes_the_place_of_what_was_there(settings: tuple[str, ...], result: str) -> None:
    expected = result if "tensor-split" not in result else result.replace("-ts 1,1 ", "")
    assert set_words("llama-server -c 1 -ts 1,1", *settings) == expected


@pytest.mark.parametrize("setting", ["tensor-split", "no-such-flag=1", "=1", "", "ts=1,1"])
def test_setting_that_names_no_flag_is_refused(setting: str) -> None:
    with pytest.raises(UsageError, match="write NAME=VALUE with a long flag"):
        set_words("llama-server", setting)


def test_switch_is_on_or_off() -> None:
    with pytest.raises(UsageError, match="--set kv-offload=maybe: it is a switch; write on or off"):
        set_words("llama-server", "kv-offload=maybe")


@PROPERTY
@given(st.integers(0, 10**6), st.lists(st.integers(0, 99), min_size=2, max_size=2))
def test_setting_is_what_the_command_then_says(context: int, split: list[int]) -> None:
    ratio = ",".join(map(str, split))
    command = read_command(NEW, "llama-server -m m.gguf -c 1")
    new = set_options(command, NEW, [f"ctx-size={context}", f"tensor-split={ratio}"])
    assert (new.value("ctx-size"), new.value("tensor-split"), new.value("model")) == (
        str(context),
        ratio,
        "m.gguf",
    )
