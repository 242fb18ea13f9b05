"""What is read out of the help texts of two real builds."""

from __future__ import annotations

import pytest

from tests.support.fake_llama.builds import BUILDS
from tuner.core.options import OPTIONS
from tuner.engine.help_text import HelpText

NEW, OLD = (HelpText(BUILDS[build].help_text()) for build in ("11434", "9246"))
BOTH = pytest.mark.parametrize("help_text", [NEW, OLD], ids=["11434", "9246"])
KV_TYPES = set("f32 f16 bf16 q8_0 q4_0 q4_1 iq4_nl q5_0 q5_1".split())


def test_every_option_of_ours_is_spelled_as_the_new_build_lists_it() -> None:
    assert {name: NEW.spelling(name) for name in OPTIONS} == {name: f"--{name}" for name in OPTIONS}


def test_options_that_came_later_are_missing_in_the_old_build() -> None:
    missing = {name for name in OPTIONS if OLD.spelling(name) is None}
    assert missing == {"load-mode", "spec-draft-sampling", "spec-draft-backend-sampling", "n-cpu-ffn"}
    assert OLD.option("load-mode") is None


@BOTH
@pytest.mark.parametrize(
    ("short", "name"),
    [
        ("-ngl", "gpu-layers"),
        ("--n-gpu-layers", "gpu-layers"),
        ("-sm", "split-mode"),
        ("-ts", "tensor-split"),
        ("-dev", "device"),
        ("-c", "ctx-size"),
        ("-np", "parallel"),
        ("-ub", "ubatch-size"),
        ("-fa", "flash-attn"),
        ("-ctk", "cache-type-k"),
        ("-nkvo", "kv-offload"),
        ("-no-kvu", "kv-unified"),
        ("--no-kv-unified", "kv-unified"),
        ("--no-host", "no-host"),
        ("-m", "model"),
        ("--cache_type_v", "cache-type-v"),
        ("--model-draft", "spec-draft-model"),
        ("--swa-checkpoints", "ctx-checkpoints"),
        ("--temperature", "temp"),
        ("--no-such-flag", None),
        ("-c_x", None),
    ],
)
def test_any_spelling_leads_to_one_name(help_text: HelpText, short: str, name: str | None) -> None:
    assert help_text.canonical(short) == name


@BOTH
@pytest.mark.parametrize("flag", ["--draft", "--draft-max", "--draft-min", "--spec-ngram-size-n"])
def test_removed_flags_are_listed_but_not_offered(help_text: HelpText, flag: str) -> None:
    listed = [entry for entry in help_text.entries if flag in entry.spellings]
    assert len(listed) == 1
    assert help_text.entry(flag) is None
    assert help_text.canonical(flag) is None


@BOTH
@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("split-mode", {"none", "layer", "row", "tensor"}),
        ("fit", {"on", "off"}),
        ("flash-attn", {"on", "off", "auto"}),
        ("cache-type-k", KV_TYPES),
        ("spec-draft-type-v", KV_TYPES),
        ("device", set()),
        ("ctx-size", set()),
        ("kv-unified", set()),
    ],
)
def test_allowed_values_are_those_that_are_listed(help_text: HelpText, name: str, allowed: set[str]) -> None:
    entry = help_text.option(name)
    assert entry is not None
    assert entry.allowed == allowed


def test_values_listed_line_by_line_are_read() -> None:
    entry = NEW.option("load-mode")
    assert entry is not None
    assert entry.allowed == {"auto", "none", "mmap", "mlock", "mmap+mlock", "dio"}


@pytest.mark.parametrize(
    ("name", "value", "new", "old"),
    [
        ("split-mode", "tensor", True, True),
        ("split-mode", "rows", False, False),
        ("spec-type", "ngram-mod,draft-mtp", True, True),
        ("spec-type", "ngram-mod,draft-dspark", True, False),
        ("spec-type", "draft-dflash", True, False),
        ("cache-type-k", "q4_1", True, True),
        ("cache-type-k", "q3_0", False, False),
        ("ctx-size", "4096", True, True),
        ("load-mode", "dio", True, False),
        ("no-such-option", "1", False, False),
    ],
)
def test_values_are_allowed_as_far_as_the_help_lists_them(
    name: str, value: str, *, new: bool, old: bool
) -> None:
    assert (NEW.allows(name, value), OLD.allows(name, value)) == (new, old)


@BOTH
def test_switches_take_no_value_and_know_their_negation(help_text: HelpText) -> None:
    negations = {
        "kv-unified": "--no-kv-unified",
        "kv-offload": "--no-kv-offload",
        "repack": "--no-repack",
        "swa-full": None,
    }
    for name, negation in negations.items():
        entry = help_text.option(name)
        assert entry is not None
        assert not entry.takes_value, name
        assert entry.negation == negation


@BOTH
def test_descriptions_are_joined_and_are_no_entries(help_text: HelpText) -> None:
    entry = help_text.option("ctx-size")
    assert entry is not None
    assert entry.text.startswith("size of the prompt context")
    assert entry.text.endswith("(env: LLAMA_ARG_CTX_SIZE)")
    for one in help_text.entries:
        assert all(spelling.startswith("-") for spelling in one.spellings)


@BOTH
def test_no_flag_of_a_build_is_overlooked(help_text: HelpText) -> None:
    """Compared with the table of the fake server, which is read by other code."""
    from tests.support.fake_llama.options import parse_help

    table = parse_help(help_text.text)
    theirs = {spelling for o in table.options if not o.removed for spelling in (*o.positive, *o.negative)}
    assert {spelling for spelling in theirs if help_text.entry(spelling) is None} == set()
    for option in table.options:
        entry = help_text.entry(option.positive[0])
        assert entry is None or entry.takes_value == (option.value_count > 0), option.name


def test_a_text_that_is_no_help_lists_nothing() -> None:
    nothing = HelpText("Segmentation fault\n\n")
    assert nothing.entries == ()
    assert nothing.option("split-mode") is None
