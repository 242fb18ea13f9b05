"""What an engine's `--help` lists: its flags, their spellings, and the values that they allow.

Decisions are made from this text and never from a build number: packaged builds print `build 0` or `build 1`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

# An entry starts near the left edge with its spellings; a value hint follows after one blank, the description
# after two or more or on the next lines. Descriptions are indented by some 40 columns and may hold lists.
_ENTRY = re.compile(
    r"^ {0,8}(?P<spellings>--?[A-Za-z0-9][\w.-]*(?:,\s+--?[A-Za-z0-9][\w.-]*)*)"
    r"(?:[ =](?P<hint>\S.*?))?(?:\s{2,}(?P<text>.*))?$"
)
_BRACED = re.compile(r"^(?:\{|\[|<|\()(?P<values>[a-z0-9_+-]+(?:[,|][a-z0-9_+-]+)+)(?:\}|\]|>|\))$")
#: The one kind of hint that stands for more than one value: `START END`.
_SEVERAL = re.compile(r"[A-Z]+(?: [A-Z]+)+")
_PLACEHOLDERS = frozenset({"dev1", "dev2"})
_WORDS = re.compile(r"^[a-z0-9_+-]+(?:,[a-z0-9_+-]+)+$")
_ALLOWED = re.compile(r"allowed values:\s*(?P<values>[\w+, -]+?)\s*(?:\(|$)")
_LISTED = re.compile(r"(?:^|\s)- (?P<value>[a-z0-9_+-]+)(?: \(default\))?:")
_TOOLS = re.compile(r'specify "(?P<all>[a-z]+)" to .*?available tools: (?P<values>[a-z_]+(?:, [a-z_]+)*)')
_DEFAULT = re.compile(r"\bdefault: '?(?P<value>(?:[^(),;']|;(?! ))+)")
_VARIABLE = re.compile(r"\(env: (?P<name>[A-Z][A-Z0-9_]*)\)")

#: Removed flags stay listed, with this remark, and stop the start.
_REMOVED = "has been removed"

#: Options under other names in other builds: canonical name to the names it has had.
OTHER_NAMES: dict[str, tuple[str, ...]] = {
    "gpu-layers": ("n-gpu-layers",),
    "spec-draft-model": ("model-draft",),
    "spec-draft-n-max": ("draft-max", "draft-n", "draft"),
    "spec-draft-n-min": ("draft-min", "draft-n-min"),
    "spec-draft-p-min": ("draft-p-min",),
    "spec-draft-device": ("device-draft",),
    "spec-draft-ngl": ("gpu-layers-draft", "n-gpu-layers-draft"),
    "spec-draft-type-k": ("cache-type-k-draft",),
    "spec-draft-type-v": ("cache-type-v-draft",),
    "spec-ngram-mod-n-match": ("spec-ngram-size-n",),
    "ctx-checkpoints": ("swa-checkpoints",),
}
_CANONICAL = {other: name for name, others in OTHER_NAMES.items() for other in others}


@dataclass(frozen=True, slots=True)
class HelpEntry:
    """One entry of the help text."""

    spellings: tuple[str, ...]
    """With their dashes, as listed."""
    hint: str
    """What stands for the value, such as `N` or `{none,layer}`; empty for a switch."""
    text: str
    """The description, in one line."""

    @property
    def takes_value(self) -> bool:
        """Whether a value follows the flag."""
        return bool(self.hint)

    @property
    def n_values(self) -> int:
        """How many values follow the flag."""
        return len(self.hint.split()) if _SEVERAL.fullmatch(self.hint) else int(self.takes_value)

    @property
    def allowed(self) -> frozenset[str]:
        """The values that it says it allows; empty where it does not say."""
        if (braced := _BRACED.match(self.hint)) is not None:
            return frozenset(re.split(r"[,|]", braced["values"])) - _PLACEHOLDERS
        if _WORDS.match(self.hint):
            return frozenset(self.hint.split(","))
        if (listed := _ALLOWED.search(self.text)) is not None:
            return frozenset(re.split(r",\s*", listed["values"]))
        if (tools := _TOOLS.search(self.text)) is not None:
            return frozenset((tools["all"], *tools["values"].split(", ")))
        return frozenset(match["value"] for match in _LISTED.finditer(self.text))

    @property
    def default(self) -> str | None:
        """What it says it does where the flag is not given, such as `0.75`, `enabled` or `follows --device`."""
        stated = _DEFAULT.search(self.text)
        return None if stated is None else stated["value"].strip()

    @property
    def variable(self) -> str | None:
        """The variable of the environment that sets it as well."""
        named = _VARIABLE.search(self.text)
        return None if named is None else named["name"]

    @property
    def negation(self) -> str | None:
        """The spelling that switches it off, where it has one."""
        return next((spelling for spelling in self.spellings if spelling.startswith("--no-")), None)


class HelpText:
    """The flags of one engine.

    Attributes:
        text: The whole text, as printed.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def entries(self) -> tuple[HelpEntry, ...]:
        """All entries, in the order of the text."""
        entries: list[HelpEntry] = []
        for line in self.text.splitlines():
            match = _ENTRY.match(line)
            if match is not None:
                spellings = tuple(re.split(r",\s+", match["spellings"]))
                entries.append(HelpEntry(spellings, (match["hint"] or "").strip(), match["text"] or ""))
            elif line.strip() and entries:
                last = entries[-1]
                entries[-1] = HelpEntry(last.spellings, last.hint, f"{last.text} {line.strip()}".strip())
        return tuple(entries)

    @cached_property
    def _by_spelling(self) -> dict[str, HelpEntry]:
        return {
            spelling: entry
            for entry in self.entries
            if _REMOVED not in entry.text
            for spelling in entry.spellings
        }

    @cached_property
    def variables(self) -> dict[str, HelpEntry]:
        """The entry that each variable of the environment sets."""
        offered = (entry for entry in self.entries if _REMOVED not in entry.text)
        return {entry.variable: entry for entry in offered if entry.variable is not None}

    def entry(self, spelling: str) -> HelpEntry | None:
        """The entry of a flag as a user writes it; in long flags `_` counts as `-`, as for the engine."""
        if spelling.startswith("--"):
            spelling = spelling.replace("_", "-")
        return self._by_spelling.get(spelling)

    def option(self, name: str) -> HelpEntry | None:
        """The entry of an option by its canonical name, or by its flag; None where this engine does not have it."""
        if name.startswith("--"):
            return self._by_spelling.get(name)
        for candidate in (name, *OTHER_NAMES.get(name, ())):
            if (entry := self._by_spelling.get(f"--{candidate}")) is not None:
                return entry
        return None

    def spelling(self, name: str) -> str | None:
        """How this engine spells an option; None where it does not have it."""
        if name.startswith("--"):
            return name if name in self._by_spelling else None
        for candidate in (name, *OTHER_NAMES.get(name, ())):
            if f"--{candidate}" in self._by_spelling:
                return f"--{candidate}"
        return None

    def canonical(self, spelling: str) -> str | None:
        """The canonical option name of a flag as a user writes it; None for a flag that is not listed."""
        entry = self.entry(spelling)
        if entry is None:
            return None
        names = [one.removeprefix("--") for one in entry.spellings if one.startswith("--")]
        for name in names:
            if name in OTHER_NAMES:
                return name
            if name in _CANONICAL:
                return _CANONICAL[name]
        positive = [name for name in names if not name.startswith("no-")]
        return (positive or names or [spelling.lstrip("-")])[0]

    def allows(self, name: str, value: str) -> bool:
        """Whether an option takes a value; True where the help text does not list values.

        A value that is a comma list (`ngram-mod,draft-mtp`) is allowed when each part is.
        """
        entry = self.option(name)
        if entry is None:
            return False
        allowed = entry.allowed
        return not allowed or all(part in allowed for part in value.split(","))
