"""What is read out of the help texts of five real builds."""

from __future__ import annotations

import pytest

from tuner.core.options import OPTIONS
from tuner.engine.help_text import HelpText
from tuner.engine.known_builds import known_build, known_builds

NEW, OLD = known_build(11434).help, known_build(9246).help
EVERY = pytest.mark.parametrize(
    "help_text", [pytest.param(one.help, id=str(one.number)) for one in known_builds()]
)
KV_TYPES = set("f32 f16 bf16 q8_0 q4_0 q4_1 iq4_nl q5_0 q5_1".split())


def test_every_option_of_ours_is_spelled_as_the_new_build_lists_it() -> None:
    assert {name: NEW.spelling(name) for name in OPTIONS} == {name: f"--{name}" for name in OPTIONS}


def test_options_that_came_later_are_missing_in_the_old_build() -> None:
    missing = {name for name in OPTIONS if OLD.spelling(name) is None}
    assert missing == {"load-mode", "spec-draft-sampling", "spec-draft-backend-sampling", "n-cpu-ffn"}
    assert OLD.option("load-mode") is None


@EVERY
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


@EVERY
@pytest.mark.parametrize("flag", ["--draft", "--draft-max", "--draft-min", "--spec-ngram-size-n"])
def test_removed_flags_are_listed_but_not_offered(help_text: HelpText, flag: str) -> None:
    listed = [entry for entry in help_text.entries if flag in entry.spellings]
    assert len(listed) == 1
    assert help_text.entry(flag) is None
    assert help_text.canonical(flag) is None


@EVERY
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


@EVERY
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


@EVERY
def test_descriptions_are_joined_and_are_no_entries(help_text: HelpText) -> None:
    entry = help_text.option("ctx-size")
    assert entry is not None
    assert entry.text.startswith("size of the prompt context")
    assert entry.text.endswith("(env: LLAMA_ARG_CTX_SIZE)")
    for one in help_text.entries:
        assert all(spelling.startswith("-") for spelling in one.spellings)


@EVERY
def test_no_flag_of_a_build_is_overlooked(help_text: HelpText) -> None:
    """Compared with the table of the fake server, which is read by other code."""
    from tests.support.fake_llama.options import parse_help

    table = parse_help(help_text.text)
    theirs = {spelling for o in table.options if not o.removed for spelling in (*o.positive, *o.negative)}
    assert {spelling for spelling in theirs if help_text.entry(spelling) is None} == set()
    for option in table.options:
        entry = help_text.entry(option.positive[0])
        assert entry is None or entry.takes_value == (option.value_count > 0), option.name


@pytest.mark.parametrize(
    ("number", "lacks", "kinds"),
    [
        (9095, {"load-mode", "n-cpu-ffn", "spec-draft-sampling", "spec-draft-backend-sampling"}, set()),
        (
            9246,
            {"load-mode", "n-cpu-ffn", "spec-draft-sampling", "spec-draft-backend-sampling"},
            {"draft-simple", "draft-eagle3", "draft-mtp"},
        ),
        (
            10001,
            {"load-mode", "n-cpu-ffn", "spec-draft-sampling"},
            {"draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash"},
        ),
        (
            10435,
            {"n-cpu-ffn", "spec-draft-sampling"},
            {"draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark"},
        ),
        (11434, set(), {"draft-simple", "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark"}),
    ],
)
def test_what_a_build_can_do_is_read_from_its_help(number: int, lacks: set[str], kinds: set[str]) -> None:
    help_text = known_build(number).help
    assert {name for name in OPTIONS if help_text.spelling(name) is None} == lacks
    entry = help_text.option("spec-type")
    assert entry is not None
    assert {kind for kind in entry.allowed if kind.startswith("draft-")} == kinds
    assert help_text.allows("split-mode", "tensor")


@pytest.mark.parametrize(
    ("number", "defaults"),
    [
        (9095, {"spec-draft-n-max": "16", "spec-draft-p-min": "0.75", "timeout": "600"}),
        (9246, {"spec-draft-n-max": "3", "spec-draft-p-min": "0.00", "timeout": "600"}),
        (10001, {"timeout": "3600", "flash-attn": "auto", "kv-offload": "enabled"}),
        (11434, {"load-mode": "auto", "fit-target": "1024", "spec-draft-device": "follows --device"}),
    ],
)
def test_default_is_what_the_help_states(number: int, defaults: dict[str, str]) -> None:
    for name, value in defaults.items():
        entry = known_build(number).help.option(name)
        assert entry is not None
        assert entry.default == value, name


def test_default_that_is_a_list_is_read_whole() -> None:
    entry = NEW.option("samplers")
    assert entry is not None
    assert entry.default == "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"


def test_variables_are_those_of_flags_that_are_still_there() -> None:
    assert NEW.variables["LLAMA_ARG_CTX_SIZE"].spellings == ("-c", "--ctx-size")
    assert "LLAMA_ARG_DRAFT_MAX" in NEW.text
    assert "LLAMA_ARG_DRAFT_MAX" not in NEW.variables
    assert OLD.variables["LLAMA_LOG_FILE"].spellings == ("--log-file",)


def test_flag_of_two_values_is_told_from_one() -> None:
    entry = known_build(9095).help.entry("--spec-replace")
    assert entry is not None
    assert entry.n_values == 2
    assert [NEW.entries[at].n_values for at in (0, 2)] == [0, 0]


def test_tools_that_can_be_named_are_listed() -> None:
    entry = OLD.option("tools")
    assert entry is not None
    assert {"all", "apply_diff", "get_datetime"} <= entry.allowed
    assert "note" not in entry.allowed


def test_a_text_that_is_no_help_lists_nothing() -> None:
    nothing = HelpText("Segmentation fault\n\n")
    assert nothing.entries == ()
    assert nothing.option("split-mode") is None
