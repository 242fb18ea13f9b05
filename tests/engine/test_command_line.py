"""From a candidate to flags in the spelling of a build, and from flags back to options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fake_engine import FakeEngine
from tests.support.fake_llama.builds import BUILDS
from tests.support.strategies import expert_lists
from tuner.core.candidate import Candidate
from tuner.core.options import BASE_OPTIONS, OPTIONS, Value, ValueType
from tuner.engine.command_line import (
    can_take,
    can_write,
    options_to_flags,
    read_user_flags,
    serving_flags,
    with_rates_for,
)
from tuner.engine.help_text import HelpText
from tuner.engine.probe import probe
from tuner.engine.user_command import option_value
from tuner.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

NEW, OLD = (HelpText(BUILDS[build].help_text()) for build in ("11434", "9246"))
BOTH = pytest.mark.parametrize("help_text", [NEW, OLD], ids=["11434", "9246"])

SHARED: dict[str, Value] = {
    **BASE_OPTIONS,
    "device": ("CUDA0", "CUDA1"),
    "split-mode": "tensor",
    "tensor-split": (2, 3),
    "ctx-size": 32768,
    "kv-unified": True,
    "cache-type-k": "q8_0",
    "cache-type-v": "q8_0",
    "load-mode": "none",
    "spec-type": "ngram-mod,draft-mtp",
    "spec-draft-n-max": 3,
    "spec-draft-p-min": 0.75,
    "spec-draft-sampling": "greedy",
    "GGML_CUDA_ALLREDUCE": "nccl",
}
GOLDEN = (
    "--device CUDA0,CUDA1 --split-mode tensor --tensor-split 2,3 --gpu-layers 999 --fit off --ctx-size 32768 "
    "--parallel 1 --kv-unified --batch-size 2048 --ubatch-size 512 --flash-attn on --cache-type-k q8_0 "
    "--cache-type-v q8_0 {load} --spec-type ngram-mod,draft-mtp --spec-draft-n-max 3 --spec-draft-p-min 0.75"
)


def flags_of(help_text: HelpText, **options: Value) -> list[str]:
    return options_to_flags(help_text, Candidate.of({n.replace("_", "-"): v for n, v in options.items()}))


# --- a candidate's flags


def test_flags_are_those_of_the_new_build() -> None:
    flags = options_to_flags(NEW, Candidate.of(SHARED))
    assert " ".join(flags) == GOLDEN.format(load="--load-mode none") + " --spec-draft-sampling greedy"


def test_flags_are_those_of_the_old_build() -> None:
    assert " ".join(options_to_flags(OLD, Candidate.of(SHARED))) == GOLDEN.format(load="--no-mmap")


@pytest.mark.parametrize("build", ["11434", "9246"])
def test_both_builds_take_them(tmp_path: Path, build: str) -> None:
    """The fake refuses what the build of that help text refuses."""
    fake = FakeEngine(tmp_path, build=build)
    flags = options_to_flags(HelpText(BUILDS[build].help_text()), Candidate.of(SHARED))
    with fake.serving(*flags) as server:
        assert server.get("/props").json()["total_slots"] == 1


@pytest.mark.parametrize(
    ("mode", "flags"),
    [
        ("auto", []),
        ("none", ["--no-mmap"]),
        ("mmap", ["--mmap"]),
        ("mlock", ["--no-mmap", "--mlock"]),
        ("mmap+mlock", ["--mmap", "--mlock"]),
        ("dio", ["--direct-io"]),
    ],
)
def test_load_mode_is_translated_for_builds_before_it(mode: str, flags: list[str]) -> None:
    assert flags_of(OLD, load_mode=mode) == flags
    assert flags_of(NEW, load_mode=mode) == ["--load-mode", mode]
    assert can_take(OLD, "load-mode", mode)


def test_load_mode_that_no_build_has_is_not_written() -> None:
    assert flags_of(OLD, load_mode="lazy") == []
    assert not can_take(OLD, "load-mode", "lazy")
    assert not can_take(NEW, "load-mode", "lazy")


@BOTH
@pytest.mark.parametrize(
    ("name", "on", "off"),
    [
        ("kv_unified", ["--kv-unified"], ["--no-kv-unified"]),
        ("kv_offload", ["--kv-offload"], ["--no-kv-offload"]),
        ("repack", ["--repack"], ["--no-repack"]),
        ("swa_full", ["--swa-full"], []),  # off is how it is without the flag
        ("no_host", ["--no-host"], []),
        ("cpu_moe", ["--cpu-moe"], []),
    ],
)
def test_switches_are_flags_without_a_value(
    help_text: HelpText, name: str, on: list[str], off: list[str]
) -> None:
    assert flags_of(help_text, **{name: True}) == on
    assert flags_of(help_text, **{name: False}) == off


@BOTH
def test_skipped_options_and_environment_are_no_flags(help_text: HelpText) -> None:
    candidate = Candidate.of({"ctx-size": 4096, "parallel": 2, "GGML_CUDA_P2P": "1"})
    assert options_to_flags(help_text, candidate, frozenset({"ctx-size"})) == ["--parallel", "2"]


def test_what_a_build_lacks_is_known_beforehand() -> None:
    assert {name for name in OPTIONS if not can_write(NEW, name)} == set()
    lacking = {name for name in OPTIONS if not can_write(OLD, name)}
    assert lacking == {"spec-draft-sampling", "spec-draft-backend-sampling", "n-cpu-ffn"}


def test_older_names_are_written_where_the_build_has_only_them() -> None:
    older = HelpText("-ngl N, --n-gpu-layers N   layers\n--draft-max, --draft N      drafts\n")
    assert flags_of(older, spec_draft_n_max=4) == ["--draft-max", "4"]


# --- what a launch needs beside it


@pytest.mark.parametrize("build", ["11434", "9246"])
def test_serving_flags_are_private_and_ask_for_memory_lines(tmp_path: Path, build: str) -> None:
    fake = FakeEngine(tmp_path, build=build)
    engine = probe(fake.path, fake.environment())
    flags = serving_flags(engine, port=8123, api_key="secret", alias=None)
    assert flags == ["--host", "127.0.0.1", "--port", "8123", "--api-key", "secret", "-lv", "4"]


# --- a user's words


@BOTH
def test_words_are_grouped_into_flags_and_kept_as_written(help_text: HelpText) -> None:
    words = "-ngl 99 --no-kv-unified -ts 2,3 --prio -1 --cache_type_k q8_0 -nkvo".split()
    flags = read_user_flags(help_text, words)
    assert [(flag.name, flag.value) for flag in flags] == [
        ("gpu-layers", "99"),
        ("kv-unified", None),
        ("tensor-split", "2,3"),
        ("prio", "-1"),
        ("cache-type-k", "q8_0"),
        ("kv-offload", None),
    ]
    assert [token for flag in flags for token in flag.tokens] == words


@BOTH
def test_unlisted_flag_takes_what_follows_unless_that_is_a_flag(help_text: HelpText) -> None:
    flags = read_user_flags(help_text, ["--brand-new", "--fit", "off", "--other-new", "-3", "--last-new"])
    assert [flag.tokens for flag in flags] == [
        ("--brand-new",),
        ("--fit", "off"),
        ("--other-new", "-3"),
        ("--last-new",),
    ]
    assert [flag.name for flag in flags] == [None, "fit", None, None]


@BOTH
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--fit", "off", "on"], "'on' is no flag of llama-server"),
        (["model.gguf"], "'model.gguf' is no flag"),
        (["--ctx-size"], "--ctx-size needs a value"),
    ],
)
def test_words_that_make_no_sense_are_named(help_text: HelpText, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_user_flags(help_text, words)


# --- there and back

_VALUES: dict[ValueType, st.SearchStrategy[Value]] = {
    ValueType.INTEGER: st.integers(-1, 10**6),
    ValueType.NUMBER: st.integers(0, 20).map(lambda steps: steps / 20),
    ValueType.SWITCH: st.booleans(),
    ValueType.DEVICES: st.lists(st.sampled_from(["CUDA0", "CUDA1", "RPC0"]), min_size=1, unique=True).map(
        tuple
    ),
    ValueType.SPLIT: st.lists(st.integers(0, 99), min_size=2, max_size=4).filter(any).map(tuple),
    ValueType.EXPERTS: expert_lists,
}


def _value(help_text: HelpText, name: str) -> st.SearchStrategy[Value]:
    kind = OPTIONS[name].value_type
    if kind is not ValueType.TEXT:
        return _VALUES[kind]
    entry = help_text.option(name)
    allowed = sorted(entry.allowed) if entry is not None else []
    return st.sampled_from(allowed or ["CUDA1", "draft model.gguf"])


def _candidates(help_text: HelpText) -> st.SearchStrategy[Candidate]:
    """Of options that have a flag of their own in that build."""
    names = [name for name in OPTIONS if help_text.spelling(name) is not None]
    options = st.fixed_dictionaries({}, optional={name: _value(help_text, name) for name in names})
    return options.map(Candidate.of)


@BOTH
@given(data=st.data())
def test_flags_read_back_are_the_options(help_text: HelpText, data: st.DataObject) -> None:
    candidate = data.draw(_candidates(help_text))
    read = read_user_flags(help_text, options_to_flags(help_text, candidate))
    found = {str(flag.name): option_value(flag) for flag in read}
    unwritten = {
        name
        for name, value in candidate.items
        if value is False and flags_of(help_text, **{name.replace("-", "_"): False}) == []
    }
    assert found == {name: value for name, value in candidate.items if name not in unwritten}


def test_a_server_of_ours_has_a_name_of_its_own(tmp_path: Path) -> None:
    engine = probe(FakeEngine(tmp_path).path, FakeEngine(tmp_path).environment())
    flags = serving_flags(engine, port=1, api_key="k", alias="tuner-1")
    assert flags[flags.index("--alias") + 1] == "tuner-1"


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (0, ("--rpc", "h:1", "-v")),
        (2, ("--rpc", "h:1", "--spec-synth-rates", "0.9,0.8", "-v")),
        (5, ("--rpc", "h:1", "--spec-synth-rates", "0.9,0.8,0.7", "-v")),
    ],
)
def test_synthetic_acceptance_is_cut_to_the_draft_depth(depth: int, expected: tuple[str, ...]) -> None:
    words = ("--rpc", "h:1", "--spec-synth-rates", "0.9,0.8,0.7", "-v")
    assert with_rates_for(words, depth) == expected
    assert with_rates_for(words[:2], depth) == words[:2]
