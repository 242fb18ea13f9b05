"""Reads a help text of llama-server into the table of its options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_DESCRIPTION_COLUMN = 40
_SPELLING = re.compile(r"(--?[A-Za-z][\w.-]*)(,\s+)?")
_REMOVED = "the argument has been removed. "


@dataclass(frozen=True, slots=True)
class Option:
    """One option of the help text, with all its spellings."""

    positive: tuple[str, ...]
    negative: tuple[str, ...]
    hint: str
    """What the help text shows for the value: `N`, `{none,layer}`; empty for a switch."""
    description: str
    usage: str
    """Its lines of the help text, repeated when a value is refused."""
    env: str | None

    @property
    def name(self) -> str:
        """The first long spelling, without dashes."""
        return next((s for s in self.positive if s.startswith("--")), self.positive[0]).lstrip("-")

    @property
    def value_count(self) -> int:
        # Only --control-vector-layer-range takes two; `<tensor name pattern>=...` has blanks and is one.
        return 2 if self.hint == "START END" else int(bool(self.hint))

    @property
    def removed(self) -> bool:
        return self.description.startswith(_REMOVED)

    @property
    def is_real_number(self) -> bool:
        return re.search(r"default: -?\d+\.\d", self.description) is not None

    @property
    def bullets(self) -> list[str]:
        """The values that the description lists as `- value: meaning`."""
        return re.findall(r"^ *- ([\w+]+):", self.description, re.MULTILINE)


class OptionTable:
    """The options of one build, found by any spelling, with or without dashes."""

    def __init__(self, options: Iterable[Option]) -> None:
        self.options = tuple(options)
        self._by_spelling = {s: o for o in self.options for s in (*o.positive, *o.negative)}

    def find(self, spelling: str) -> Option | None:
        return self._by_spelling.get(spelling)

    def find_name(self, name: str) -> Option | None:
        """Finds `tensor-split`, `model-draft` or `ts`."""
        return self.find(f"--{name}") or self.find(f"-{name}")


def parse_help(text: str) -> OptionTable:
    return OptionTable(_option(block) for block in _blocks(text.splitlines()))


def _blocks(lines: Sequence[str]) -> Iterator[list[str]]:
    block: list[str] = []
    for line in lines:
        starts = line.startswith("-")
        if block and (starts or not line):
            yield block
            block = []
        if (starts and not line.startswith("-----")) or (block and line):
            block.append(line)
    if block:
        yield block


def _option(block: Sequence[str]) -> Option:
    head = block[0]
    spellings: list[str] = []
    position, more = 0, True
    while more and (match := _SPELLING.match(head, position)):
        spellings.append(match[1])
        position, more = match.end(), match[2] is not None
    # A value hint follows one blank; the description stands behind three or more, or on the next line.
    hint, _, first = head[position:].partition("   ")
    described = [first.strip(), *(line[_DESCRIPTION_COLUMN:] for line in block[1:])]
    description = "\n".join(line for line in described if line)
    env = re.search(r"\(env: (\w+)\)", description)
    cut = _first_negative(spellings)
    return Option(
        positive=tuple(spellings[:cut]),
        negative=tuple(spellings[cut:]),
        hint=hint.strip(),
        description=description,
        usage="\n".join(block),
        env=env[1] if env else None,
    )


def _first_negative(spellings: Sequence[str]) -> int:
    """Where `-nkvo, --no-kv-offload` begin; an option that only has a `--no-` form is no pair."""
    for index, spelling in enumerate(spellings):
        if index and spelling.startswith("--no-"):
            before = spellings[index - 1]
            is_short_form = before.startswith("-n") and not before.startswith("--")
            return index - 1 if is_short_form and index > 1 else index
    return len(spellings)
