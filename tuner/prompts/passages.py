"""Fixed texts at whose places a server is asked what would come next, and text to fill a context with."""

from __future__ import annotations

from functools import cache
from importlib import resources
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_BETWEEN = "\n%%\n"
#: Words before the first place, and between two.
_FIRST_WORDS, _EVERY_WORDS = 8, 9
#: No two of these lengths have a divisor in common, so that lines come again only after 2,431 others.
_BOATS = "Alder Bream Curlew Dunlin Ember Fulmar Gannet Heron Ibis Juniper Kestrel".split()
_PORTS = "Aldvik Brannock Corrie Dunmore Eastness Farrow Glenhaven Holm Inver Jarlsund Kilmory Lorne Mallow".split()
_GOODS = (
    "sacks of barley|crates of glass|barrels of herring|coils of rope|boxes of lamps|bundles of slate|drums of "
    "tar|cases of tea|rolls of canvas|casks of vinegar|chests of tools|bales of wool|baskets of eggs|trays of "
    "seedlings|bags of lime|stacks of roof tiles|jars of honey"
).split("|")


@cache
def passages() -> tuple[str, ...]:
    """The texts, shortest places first within each."""
    text = resources.files("tuner.prompts").joinpath("passages.txt").read_text(encoding="utf-8")
    return tuple(part.strip("\n") for part in text.split(_BETWEEN))


def places(passage: str) -> tuple[str, ...]:
    """The beginnings of a passage after which is asked; each continues the one before."""
    ends, inside = [], False
    for at, character in enumerate(passage):
        if character.isspace() and inside:
            ends.append(at)
        inside = not character.isspace()
    return tuple(passage[:end] for end in ends[_FIRST_WORDS - 1 :: _EVERY_WORDS])


def filler(characters: int) -> str:
    """So many characters of a harbour's ledger, or a few more: always the same, and hardly ever repeating."""
    lines: list[str] = []
    length = 0
    for line in _ledger():
        if length >= characters:
            break
        lines.append(line)
        length += len(line)
    return "".join(lines)


def _ledger() -> Iterator[str]:
    for n in count(1):
        boat, port, goods = _BOATS[n % 11], _PORTS[n * 5 % 13], _GOODS[n * 7 % 17]
        tons, hour, minute = 3 + n * n % 89, n * 13 % 24, n * 37 % 60
        yield (
            f"{n}. The {boat} came in from {port} at {hour:02d}:{minute:02d} with {tons} {goods}"
            f"{'; she waited for the tide' if n % 4 == 1 else ''}"
            f"{f', and berth {n % 9 + 1} was free' if n % 3 == 0 else ''}.\n"
        )
