"""Commands of older builds in the words of newer ones, rename by rename, and what cannot be carried over."""

from __future__ import annotations

import shlex
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from tuner.engine.flag_history import FLAG_CHANGES, VARIABLE_CHANGES
from tuner.engine.known_builds import known_build, known_builds
from tuner.engine.translation import ChangeKind, translate, translate_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.options import Value
    from tuner.engine.flag_history import FlagChange, VariableChange
    from tuner.engine.translation import Translation

RENAMED, PINNED, LEFT_OUT, LOST, DIFFERS = (
    ChangeKind.RENAMED,
    ChangeKind.PINNED,
    ChangeKind.LEFT_OUT,
    ChangeKind.LOST,
    ChangeKind.DIFFERS,
)
#: What a command without any flag gets when it moves from one build to another.
MOVING = {
    (9095, 11434): "--timeout 600 --no-log-prefix --no-log-timestamps --load-mode mmap --lazy-mode off",
    (9246, 11434): "--timeout 600 --load-mode mmap --lazy-mode off",
    (10001, 11434): "--load-mode mmap --lazy-mode off",
    (10435, 11434): "--lazy-mode off",
    (9095, 9246): "--no-log-prefix --no-log-timestamps",
    (9246, 10001): "--timeout 600",
    (10001, 10435): "--load-mode mmap",
    (11434, 9246): "--timeout 3600",
}


def moved(
    words: str, old: int, new: int = 11434, environment: Mapping[str, str] = MappingProxyType({})
) -> Translation:
    return translate(shlex.split(words), known_build(old).help, known_build(new).help, environment)


def own_words(translation: Translation) -> str:
    """The words but for the defaults that are pinned behind them."""
    pinned = (after for before, after in told(translation, PINNED) if not before and "spec-type" not in after)
    n_pinned = sum(len(after.split()) for after in pinned)
    return " ".join(translation.words[: len(translation.words) - n_pinned])


def told(translation: Translation, *kinds: ChangeKind) -> list[tuple[str, str]]:
    """Before and after of the changes of some kinds."""
    return [(change.before, change.after) for change in translation.changes if change.kind in kinds]


@pytest.mark.parametrize(("builds", "words"), MOVING.items(), ids=str)
def test_command_without_flags_keeps_the_defaults_that_it_had(builds: tuple[int, int], words: str) -> None:
    assert " ".join(moved("", *builds).words) == words


@pytest.mark.parametrize(
    ("old", "new", "words", "result"),
    [
        (10001, 11434, "--no-mmap", "--load-mode none"),
        (10001, 11434, "--mmap", "--load-mode mmap"),
        (10001, 11434, "--mlock", "--load-mode mmap+mlock"),
        (10001, 11434, "--mlock --no_mmap", "--load-mode mlock"),
        (10001, 11434, "-dio", "--load-mode dio"),
        (10001, 11434, "-ndio", ""),
        (10001, 11434, "-c 1 --no-mmap -b 2 --mlock -ub 1", "-c 1 --load-mode mlock -b 2 -ub 1"),
        # 10435 lists both, and its switches each set all of it
        (10435, 11434, "--mlock", "--load-mode mlock"),
        (10435, 11434, "--mlock --no-mmap", "--load-mode none"),
        (10435, 11434, "--no-mmap -lm dio", "--load-mode dio"),
        (10001, 10435, "--mlock", "--load-mode mmap+mlock"),
        (11434, 10001, "-lm mlock", "--no-mmap --mlock"),
        (11434, 10001, "-lm mmap+mlock", "--mmap --mlock"),
        (11434, 10001, "-lm dio", "--direct-io"),
        (11434, 10001, "-lm auto", ""),
        (9095, 9246, "--draft-max 8", "--spec-draft-n-max 8"),
        (9095, 9246, "--draft_min 2", "--spec-draft-n-min 2"),
        (9095, 9246, "--draft 8 --spec-type ngram-mod", "--spec-ngram-mod-n-max 8 --spec-type ngram-mod"),
        (9246, 10001, "-cpent 4096 -to 9", "--checkpoint-min-step 4096 -to 9"),
        (11434, 9246, "-cms 4096 -to 9", "--checkpoint-every-n-tokens 4096 -to 9"),
        (9095, 9246, "-fa -ngl 99", "-fa on -ngl 99"),
        (9095, 9246, "-lv 4", "-lv 5"),
        (9246, 10001, "-lv 4 -to 9", "-lv 4 -to 9"),
        (11434, 9095, "--no-ui --timeout 9", "--no-webui --timeout 9"),
        (9246, 10001, "--webui --timeout 9", "--webui --timeout 9"),
    ],
)
def test_renamed_flag_is_mapped(old: int, new: int, words: str, result: str) -> None:
    translation = moved(words, old, new)
    assert own_words(translation) == result
    assert told(translation, LOST) == []


@pytest.mark.parametrize("change", FLAG_CHANGES, ids=lambda change: change.old[0])
def test_every_flag_that_is_gone_is_mapped_or_told(change: FlagChange) -> None:
    old = max((b.number for b in known_builds() if b.number < (change.since or 0)), default=9095)
    words = " ".join((change.old[-1], *["7"] * change.n_values))
    translation = moved(f"{words} -to 9", old)
    if change.new is None and not change.is_loading:
        kind = LEFT_OUT if change.since is None else LOST
        assert told(translation, LOST, LEFT_OUT) == [(words, "")]
        assert [one.why for one in translation.changes if one.kind is kind] == [change.why]
    elif not change.is_loading:
        assert told(translation, RENAMED) == [(words, f"{change.new} 7")]
    assert change.old[-1] not in translation.words


@pytest.mark.parametrize("change", VARIABLE_CHANGES, ids=lambda change: change.old)
def test_every_variable_that_is_gone_is_mapped_or_told(change: VariableChange) -> None:
    old = max((b.number for b in known_builds() if b.number < change.since), default=9095)
    translation = moved("-to 9", old, environment={change.old: "1"})
    assert change.old not in translation.environment
    assert any(change.old in one.before for one in translation.changes)
    if change.new is not None and change.new != "LLAMA_ARG_LOAD_MODE":
        assert translation.environment == {change.new: "1"}


def test_variables_of_loading_become_its_flag() -> None:
    translation = moved("-c 1", 10001, environment={"LLAMA_ARG_MMAP": "0", "LLAMA_ARG_MLOCK": "1", "A": "b"})
    assert (translation.environment, own_words(translation)) == ({"A": "b"}, "--load-mode mlock -c 1")
    assert own_words(moved("", 10001, environment={"LLAMA_ARG_NO_MMAP": "1"})) == "--load-mode none"
    assert own_words(moved("", 10435, environment={"LLAMA_ARG_MLOCK": "0"})) == ""


def test_variable_of_an_option_that_is_still_there_stays() -> None:
    variables = {"LLAMA_ARG_SPLIT_MODE": "layer", "LLAMA_ARG_NO_KV_OFFLOAD": "1", "GGML_CUDA_P2P": "1"}
    translation = moved("", 10435, environment=variables)
    assert (translation.environment, told(translation, RENAMED, LEFT_OUT, LOST)) == (variables, [])


# --- defaults


def test_default_of_drafts_is_pinned_to_what_was_measured() -> None:
    translation = moved("-m x -md y --log-prefix --log-timestamps", 9095, 9246)
    assert translation.words[-4:] == ("--spec-draft-n-max", "16", "--spec-draft-p-min", "0.75")
    assert [str(change) for change in translation.changes] == [
        "--spec-draft-n-max 16: the default was 16 and is 3",
        "--spec-draft-p-min 0.75: the default was 0.75 and is 0.00",
    ]


@pytest.mark.parametrize(
    "words", ["-md y --spec-draft-n-max 5 --draft-p-min 0.5", "--spec-type ngram-mod", "-c 1"]
)
def test_default_that_is_set_or_that_nothing_reads_is_not_pinned(words: str) -> None:
    assert "--spec-draft" not in str(told(moved(words, 9095, 9246), PINNED))


def test_default_that_a_variable_sets_is_not_pinned() -> None:
    variables = {"LLAMA_ARG_SPEC_DRAFT_N_MAX": "5", "LLAMA_ARG_TIMEOUT": "9"}
    translation = moved("-md y", 9095, 10001, variables)
    assert translation.environment == variables
    assert "--spec-draft-n-max" not in translation.words
    assert "--timeout" not in translation.words


def test_sampler_default_is_pinned_where_the_sampler_is_on() -> None:
    assert "--dry-penalty-last-n" not in moved("-c 1", 10001).words
    assert ("", "--dry-penalty-last-n 64") in told(moved("--dry-multiplier 0.8", 11434, 10001), PINNED)
    # what it was cannot be written any more
    assert ("--dry-penalty-last-n", "") in told(moved("--dry-multiplier 0.8", 10001), DIFFERS)


def test_default_that_no_flag_can_set_is_told() -> None:
    (change,) = moved("-c 1 -lzm off", 10435).changes
    assert change.kind is DIFFERS
    assert str(change) == (
        "--reasoning-preserve: the default was 'template default' and is enabled; no flag sets it to what it was"
    )
    assert moved("--reasoning-preserve -lzm off", 10435).changes == ()


# --- drafts


@pytest.mark.parametrize(
    ("old", "new", "words", "result"),
    [
        # a draft model alone drafts up to 9246, and is only loaded from 10001 on
        (9246, 10001, "-md y", "-md y --spec-type draft-simple"),
        (9246, 11434, "-md y --spec-type none", "-md y --spec-type draft-simple"),
        (9246, 11434, "-md y --spec-type ngram-mod", "-md y --spec-type ngram-mod,draft-simple"),
        (9246, 11434, "-md y --spec-type draft-mtp", "-md y --spec-type draft-mtp"),
        (9095, 11434, "-md y --spec-type ngram-mod", "-md y --spec-type ngram-mod,draft-simple"),
        (9095, 9246, "-md y --spec-type ngram-mod", "-md y --spec-type ngram-mod"),
        (9095, 11434, "--spec-type ngram-mod --spec-type ngram-cache", "--spec-type ngram-cache"),
        (10001, 9246, "-md y", ""),
        (10001, 9246, "-md y --spec-type draft-simple", "-md y --spec-type draft-simple"),
        (10001, 9095, "-md y --spec-type draft-simple", "-md y"),
        (10001, 9095, "-md y --spec-type ngram-mod,draft-simple", "-md y --spec-type ngram-mod"),
        (10435, 11434, "--spec-type ngram-mod --spec-type draft-mtp", None),
    ],
)
def test_same_kinds_of_drafts_are_on(old: int, new: int, words: str, result: str | None) -> None:
    translation = moved(words, old, new)
    assert own_words(translation) == (words if result is None else result)
    assert told(translation, LOST) == []


def test_kind_of_drafts_that_a_build_lacks_is_told() -> None:
    translation = moved("-md y --spec-type draft-dspark,ngram-mod", 11434, 9246)
    assert told(translation, LOST) == [
        ("--spec-type draft-dspark,ngram-mod", "--spec-type ngram-mod"),
    ]
    assert str(translation.lost[0]).startswith(
        "cannot be carried over: --spec-type draft-dspark,ngram-mod -> "
    )


def test_draft_model_that_was_never_used_may_be_used_now() -> None:
    assert [change.before for change in moved("-md y", 10435).changes if change.kind is DIFFERS] == [
        "-md y",
        "--reasoning-preserve",
    ]
    on_one = moved("-md y --spec-type draft-simple -dev CUDA0", 10435)
    assert "it lay on every device" in str(on_one.changes[0])
    placed = moved("-md y --spec-type draft-simple -dev CUDA0 -devd CUDA1", 10435)
    assert told(placed, DIFFERS) == [("--reasoning-preserve", "")]


# --- what has no words


@pytest.mark.parametrize(
    ("old", "new", "words", "why"),
    [
        (9246, 11434, "-sm row", "refuse to split by rows"),
        (9095, 11434, "-cd 4096", "as much context as the model itself"),
        (9095, 9246, "--spec-replace a b", "no longer translated"),
        (9246, 11434, "--tools apply_diff", "does not list apply_diff"),
        (9246, 11434, "-mv x", "vocoder"),
        (10001, 11434, "--repeat-last-n -1", "the whole context"),
        (10001, 11434, "--dry-penalty-last-n -1", "the whole context"),
        (9246, 11434, "-cpent -1", "takes no such number"),
        (11434, 10435, "--n-cpu-ffn 4", "no such flag"),
        (11434, 9246, "--spec-type draft-dflash", "cannot draft so: draft-dflash"),
    ],
)
def test_what_cannot_be_carried_over_is_left_out_and_told(old: int, new: int, words: str, why: str) -> None:
    translation = moved(words, old, new)
    (lost,) = translation.lost
    assert (lost.before, lost.after) == (words, "")
    assert why in lost.why
    assert str(lost) == f"cannot be carried over: {words}: {lost.why}"
    assert words.split(maxsplit=1)[0] not in translation.words


def test_row_mode_stays_where_it_was_refused_before() -> None:
    assert "row" in moved("-sm row", 10001).words


def test_words_of_no_build_are_left_out() -> None:
    translation = moved("stray --frobnicate 7 -c 1", 10435)
    assert own_words(translation) == "-c 1"
    assert told(translation, LEFT_OUT, LOST) == [("stray", ""), ("--frobnicate 7", "")]


def test_no_value_of_a_key_is_told() -> None:
    translation = translate(
        ["--api-key", "hunter2"],
        known_build(10435).help,
        type(known_build(10435).help)(known_build(10435).help.text.replace("--api-key KEY", "--secret KEY")),
    )
    assert "hunter2" not in " ".join(map(str, translation.changes))


# --- options


def test_options_of_a_best_are_translated() -> None:
    options: dict[str, Value] = {
        "split-mode": "tensor",
        "tensor-split": (3, 2),
        "load-mode": "none",
        "GGML_CUDA_P2P": "1",
    }
    translated = translate_options(options, known_build(10001).help, known_build(11434).help)
    assert (translated.options, translated.flags) == (options, ("--lazy-mode", "off"))
    assert [change.after for change in translated.changes if change.kind is RENAMED] == ["--load-mode none"]
    back = translate_options(options, known_build(11434).help, known_build(9246).help)
    assert (back.options, back.flags) == (options, ("--timeout", "3600"))


def test_option_that_a_build_lacks_is_no_longer_one() -> None:
    translated = translate_options(
        {"n-cpu-ffn": 3, "ctx-size": 8192}, known_build(11434).help, known_build(10435).help
    )
    assert translated.options == {"ctx-size": 8192}
    assert [change.before for change in translated.changes if change.kind is LOST] == ["--n-cpu-ffn 3"]
