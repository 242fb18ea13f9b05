"""Reading numbers and texts of a decoded TOML document: what is wrong is said as file, key and remedy."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn

from tuner.core.document_reader import DocumentReader

if TYPE_CHECKING:
    from collections.abc import Mapping


class FigureReader(DocumentReader):
    """Reads values by their dotted key from the table that holds them; what is wrong is a ValueError."""

    def fail(self, key: str, what: str) -> NoReturn:
        """Refuse the document."""
        raise ValueError(f"{self._name}: {key}: {what}")

    def part(self, key: str, document: Mapping[str, Any], allowed: set[str]) -> Mapping[str, Any]:
        """A table of the document, which may be missing, and in which nothing else is known."""
        row = self.table(key, document.get(key, {}))
        self.known(key, row, allowed)
        return row

    def some(self, key: str, row: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """One value or a list of them."""
        value = row.get(key.rpartition(".")[2], [])
        if isinstance(value, list):
            return [(f"{key}[{index}]", one) for index, one in enumerate(value)]
        return [(key, value)]

    def text(self, key: str, row: Mapping[str, Any], default: str | None = None) -> str:
        """A text that is not empty."""
        value = row.get(key.rpartition(".")[2], default)
        if not isinstance(value, str) or not value:
            self.fail(key, f"must be a text, got {value!r}" if value is not None else "is missing: a text")
        return value

    def whole(
        self,
        key: str,
        row: Mapping[str, Any],
        default: int | None = None,
        *,
        low: int = 0,
        high: int | None = None,
    ) -> int:
        """A whole number within limits; without a default it must be there."""
        value = row.get(key.rpartition(".")[2], default)
        if value is None:
            self.fail(key, "is missing: a whole number")
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(key, f"must be a whole number, got {value!r}")
        if value < low or (high is not None and value > high):
            span = f"from {low} on" if high is None else f"from {low} to {high}"
            self.fail(key, f"must be {span}, got {value}")
        return value

    def number(
        self,
        key: str,
        row: Mapping[str, Any],
        default: float | None = None,
        *,
        low: float | None = None,
        high: float | None = None,
        above: float | None = None,
        below: float | None = None,
        name: str | None = None,
    ) -> float:
        """A finite number within limits; without a default it must be there.

        Args:
            key: Its dotted key; the last part is its name in the table.
            row: The table.
            default: Where it is missing.
            low: It is at least this.
            high: It is at most this.
            above: It is more than this.
            below: It is less than this.
            name: Its name in the table, where that is not the last part of the key.
        """
        value = row.get(name or key.rpartition(".")[2], default)
        if value is None:
            self.fail(key, "is missing: a number")
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not isfinite(value):
            self.fail(key, f"must be a number, got {value!r}")
        limits = (
            (low is not None and value < low, f"at least {low:g}" if low is not None else ""),
            (high is not None and value > high, f"at most {high:g}" if high is not None else ""),
            (above is not None and value <= above, f"above {above:g}" if above is not None else ""),
            (below is not None and value >= below, f"below {below:g}" if below is not None else ""),
        )
        for broken, words in limits:
            if broken:
                self.fail(key, f"must be {words}, got {value:g}")
        return float(value)
