"""Hypothesis strategies for commands as a build's help text allows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.support.strategies import option_sets
from tuner.core.options import OPTIONS, ValueType
from tuner.engine.findings.words import COMMA_LISTS
from tuner.engine.load_modes import SWITCHES
from tuner.engine.user_command import PRINTS_AND_ENDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tuner.core.options import Value
    from tuner.engine.help_text import HelpEntry, HelpText

#: Options whose values are words: what they are depends on the build.
LOOSE = frozenset(name for name, option in OPTIONS.items() if option.value_type is ValueType.TEXT)
#: With one of these a server never serves, or asks others for a model.
_ENDS = PRINTS_AND_ENDS | {"license", "hf-repo", "hf-repo-v", "spec-draft-hf", "model-url", "docker-repo"}
#: One kind of drafts at a time: the build has no comma list.
_ONE_KIND = "[none|"


def offered(help_text: HelpText) -> list[HelpEntry]:
    """The entries of flags that a server can be started with."""
    return [
        entry
        for entry in help_text.entries
        if help_text.entry(entry.spellings[-1]) is not None
        and help_text.canonical(entry.spellings[-1]) not in _ENDS
        and not entry.spellings[-1].endswith(("-default", "-spec"))  # they fetch a model of their own
    ]


def values(help_text: HelpText, entry: HelpEntry) -> st.SearchStrategy[str]:
    """A value of a flag: one that the help lists, or a number or word where it lists none."""
    allowed = sorted(entry.allowed)
    if (
        allowed
        and help_text.canonical(entry.spellings[-1]) in COMMA_LISTS
        and not entry.hint.startswith(_ONE_KIND)
    ):
        return st.lists(st.sampled_from(allowed), min_size=1, max_size=3, unique=True).map(",".join)
    if allowed:
        return st.sampled_from(allowed)
    if entry.hint in {"N", "P", "L", "<0...100>"}:
        return st.integers(1, 90).map(str)
    return st.sampled_from(["a", "CUDA0", "1,2", "x y", "/there/file", "-1"])


@st.composite
def flags(draw: st.DrawFn, help_text: HelpText, entries: Iterable[HelpEntry]) -> tuple[str, ...]:
    """A flag in one of its spellings, with its values."""
    entry = draw(st.sampled_from(list(entries)))
    spelling = draw(st.sampled_from(entry.spellings))
    return (spelling, *(draw(values(help_text, entry)) for _ in range(entry.n_values)))


def commands(help_text: HelpText) -> st.SearchStrategy[tuple[tuple[str, ...], ...]]:
    """Flags of a command, each a tuple of words; several may set one option."""
    entries = offered(help_text)
    drafts = [entry for entry in entries if "spec-" in entry.spellings[0] or "--spec-type" in entry.spellings]
    drafts += [entry for entry in entries if "--model-draft" in entry.spellings]
    any_flag = st.one_of(flags(help_text, entries), flags(help_text, drafts))
    return st.lists(any_flag, max_size=8).map(tuple)


def environments(help_text: HelpText) -> st.SearchStrategy[dict[str, str]]:
    """Variables that set options, and one of the driver's."""

    @st.composite
    def assigned(draw: st.DrawFn) -> dict[str, str]:
        names = draw(st.lists(st.sampled_from(sorted(help_text.variables)), max_size=3, unique=True))
        found = {}
        for name in names:
            entry = help_text.variables[name]
            switch = st.sampled_from(["1", "0", "on", "false"])
            found[name] = draw(values(help_text, entry) if entry.takes_value else switch)
        return found | draw(st.sampled_from([{}, {"CUDA_VISIBLE_DEVICES": "0"}]))

    return assigned()


def candidate_options(help_text: HelpText) -> st.SearchStrategy[dict[str, Value]]:
    """Options of a candidate, with values that a build takes."""
    texts = {
        name: st.sampled_from(sorted(entry.allowed)) if entry.allowed else st.just("CUDA0")
        for name, option in OPTIONS.items()
        if option.value_type is ValueType.TEXT and (entry := help_text.option(name)) is not None
    }
    modes = {} if "load-mode" in texts else {"load-mode": st.sampled_from(sorted(SWITCHES))}
    return st.builds(
        lambda options, own: {name: value for name, value in options.items() if name not in LOOSE} | own,
        option_sets,
        st.fixed_dictionaries({}, optional=texts | modes),
    )
