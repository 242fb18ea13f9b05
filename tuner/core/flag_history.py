"""Flags and variables that llama-server no longer has, and what is written instead.

Builds are those of llama.cpp, compared at 9095, 9246, 10001, 10435 and 11434.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FlagChange:
    """A flag that is gone."""

    old: tuple[str, ...]
    """Its spellings, with their dashes."""
    new: str | None
    """The flag that is written instead; None where nothing is."""
    since: int | None
    """The build that removed it, or the first one compared that lacks it; None for one that was never there."""
    why: str
    takes_value: bool = True
    """Whether a value followed the old flag."""
    value: str | None = None
    """What the new flag is set to; None for the value of the old one."""
    by_spec_type: Mapping[str, str] = field(default_factory=lambda: _NONE)
    """The new flag by kind of drafts, where it depends on that and `new` is the usual one."""

    def written(self, value: str | None, spec_types: Collection[str] = ()) -> tuple[str, ...]:
        """The words to write instead.

        Args:
            value: What followed the old flag; None for a switch, or where it is missing.
            spec_types: Kinds of drafts that the command asks for.

        Returns:
            The new flag and its value; nothing where the old flag is just left out.
        """
        new = next((flag for kind, flag in self.by_spec_type.items() if kind in spec_types), self.new)
        if new is None:
            return ()
        follows = self.value if self.value is not None else value
        return (new,) if follows is None else (new, follows)


@dataclass(frozen=True, slots=True)
class VariableChange:
    """A variable of the environment that no longer sets anything."""

    old: str
    new: str | None
    since: int
    """As of a flag."""
    stops_start: bool = False
    """Whether a server that finds it ends at once; others never look at it."""


def _by_kind(suffix: str, mod: str | None = None) -> Mapping[str, str]:
    """`--spec-ngram-KIND-suffix` for each kind that has it."""
    kinds = {kind: f"--spec-{kind}-{suffix}" for kind in ("ngram-simple", "ngram-map-k", "ngram-map-k4v")}
    return MappingProxyType(kinds if mod is None else {"ngram-mod": mod, **kinds})


_LOAD_MODE = "one flag, --load-mode, took the place of four switches"
_SPLIT_UP = "each kind of drafts has a flag of its own now"

FLAG_CHANGES: tuple[FlagChange, ...] = (
    FlagChange(("--no-mmap",), "--load-mode", 10884, _LOAD_MODE, takes_value=False, value="none"),
    FlagChange(("--mmap",), "--load-mode", 10884, _LOAD_MODE, takes_value=False, value="mmap"),
    FlagChange(("--mlock",), "--load-mode", 10884, _LOAD_MODE, takes_value=False, value="mmap+mlock"),
    FlagChange(("--direct-io", "-dio"), "--load-mode", 10884, _LOAD_MODE, takes_value=False, value="dio"),
    FlagChange(
        ("--no-direct-io", "-ndio"), None, 10884, f"{_LOAD_MODE}; this one was the default", takes_value=False
    ),
    FlagChange(
        ("--draft-max", "--draft-n", "--draft"),
        "--spec-draft-n-max",
        9095,
        _SPLIT_UP,
        by_spec_type=MappingProxyType({"ngram-mod": "--spec-ngram-mod-n-max"}),
    ),
    FlagChange(
        ("--draft-min", "--draft-n-min"),
        "--spec-draft-n-min",
        9095,
        _SPLIT_UP,
        by_spec_type=MappingProxyType({"ngram-mod": "--spec-ngram-mod-n-min"}),
    ),
    FlagChange(
        ("--spec-ngram-size-n",),
        "--spec-ngram-mod-n-match",
        9095,
        _SPLIT_UP,
        by_spec_type=_by_kind("size-n", "--spec-ngram-mod-n-match"),
    ),
    FlagChange(
        ("--spec-ngram-size-m",),
        "--spec-ngram-simple-size-m",
        9095,
        _SPLIT_UP,
        by_spec_type=_by_kind("size-m"),
    ),
    FlagChange(
        ("--spec-ngram-min-hits",),
        "--spec-ngram-simple-min-hits",
        9095,
        _SPLIT_UP,
        by_spec_type=_by_kind("min-hits"),
    ),
    FlagChange(
        ("--ctx-size-draft", "-cd", "--spec-draft-ctx-size"),
        None,
        9246,
        "a draft has as much context as the model itself",
    ),
    FlagChange(("--spec-replace", "--spec-draft-replace"), None, 9246, "drafts are no longer translated"),
    FlagChange(
        ("--checkpoint-every-n-tokens", "-cpent"),
        "--checkpoint-min-step",
        10001,
        "checkpoints have a least distance now, no fixed one",
    ),
    FlagChange(("--fit-print", "-fitp"), None, None, "it is a flag of llama-fit-params, not of llama-server"),
    FlagChange(("--spec-draft-conf-min",), "--spec-draft-p-min", None, "no build has had it"),
)

VARIABLE_CHANGES: tuple[VariableChange, ...] = (
    VariableChange("LLAMA_ARG_DRAFT_MAX", "LLAMA_ARG_SPEC_DRAFT_N_MAX", 9095, stops_start=True),
    VariableChange("LLAMA_ARG_DRAFT_MIN", "LLAMA_ARG_SPEC_DRAFT_N_MIN", 9095, stops_start=True),
    VariableChange("LLAMA_ARG_MMAP", "LLAMA_ARG_LOAD_MODE", 10884),
    VariableChange("LLAMA_ARG_MLOCK", "LLAMA_ARG_LOAD_MODE", 10884),
    VariableChange("LLAMA_ARG_DIO", "LLAMA_ARG_LOAD_MODE", 10884),
    VariableChange("LLAMA_ARG_SPEC_DRAFT_CTX_SIZE", None, 9246),
    VariableChange("LLAMA_ARG_CHECKPOINT_EVERY_NT", "LLAMA_ARG_CHECKPOINT_MIN_SPACING_NT", 10001),
    VariableChange("LLAMA_LOG_FILE", "LLAMA_ARG_LOG_FILE", 10001),
    VariableChange("LLAMA_LOG_COLORS", "LLAMA_ARG_LOG_COLORS", 10001),
    VariableChange("LLAMA_LOG_VERBOSITY", "LLAMA_ARG_LOG_VERBOSITY", 10001),
    VariableChange("LLAMA_LOG_PREFIX", "LLAMA_ARG_LOG_PREFIX", 10001),
    VariableChange("LLAMA_LOG_TIMESTAMPS", "LLAMA_ARG_LOG_TIMESTAMPS", 10001),
    VariableChange("LLAMA_OFFLINE", "LLAMA_ARG_OFFLINE", 10001),
    VariableChange("LLAMA_CHAT_TEMPLATE_KWARGS", "LLAMA_ARG_CHAT_TEMPLATE_KWARGS", 10001),
)

#: Values that people write and no build knows, by option: what they mean.
VALUE_NAMES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "spec-type": MappingProxyType(
            {
                "mtp": "draft-mtp",
                "draft": "draft-simple",
                "simple": "draft-simple",
                "eagle3": "draft-eagle3",
                "dflash": "draft-dflash",
                "dspark": "draft-dspark",
                "ngram": "ngram-mod",
            }
        ),
        "split-mode": MappingProxyType({"rows": "row", "layers": "layer", "tensors": "tensor"}),
    }
)

_BY_SPELLING = {spelling: change for change in FLAG_CHANGES for spelling in change.old}
_BY_VARIABLE = {change.old: change for change in VARIABLE_CHANGES}


def flag_change(spelling: str) -> FlagChange | None:
    """What became of a flag as a user writes it; None for one that is not known to be gone."""
    return _BY_SPELLING.get(spelling.replace("_", "-") if spelling.startswith("--") else spelling)


def variable_change(name: str) -> VariableChange | None:
    """What became of a variable; None for one that is not known to be gone."""
    return _BY_VARIABLE.get(name)


def older_flags(new: str) -> tuple[FlagChange, ...]:
    """The flags whose place a flag took: what an engine from before it may have."""
    return tuple(change for change in FLAG_CHANGES if change.new == new)


def load_mode(spellings: Collection[str]) -> str | None:
    """The `--load-mode` that several old switches of one command come to; None where they change nothing.

    Memory mapping was on unless `--no-mmap` was there, and reading past the page cache came before it.
    """
    changes = {change.old[0] for spelling in spellings if (change := flag_change(spelling)) is not None}
    if "--direct-io" in changes:
        return "dio"
    if "--mlock" in changes:
        return "mlock" if "--no-mmap" in changes else "mmap+mlock"
    if "--no-mmap" in changes:
        return "none"
    return "mmap" if "--mmap" in changes else None
