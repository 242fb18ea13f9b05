"""A table of a report: what a plot shows as figures, or figures alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading, and whether figures stand in it."""

    name: str
    figures: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under columns."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{len(row)} cells under {len(self.columns)} columns: {row}")


def table(columns: str, rows: Iterable[Sequence[str]]) -> Table:
    """A table out of column names.

    Args:
        columns: Names with bars between them; one that begins with `>` holds figures.
        rows: Rows of text.
    """
    heads = tuple(Column(name.lstrip(">"), figures=name.startswith(">")) for name in columns.split("|"))
    return Table(heads, tuple(tuple(row) for row in rows))
