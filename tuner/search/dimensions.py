"""What a sampler draws: dimensions, and the coordinates along them."""

from __future__ import annotations

from dataclasses import dataclass

Coordinate = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Categorical:
    """A dimension that takes one of some values without order."""

    name: str
    choices: tuple[Coordinate, ...]


@dataclass(frozen=True, slots=True)
class Integer:
    """A dimension of whole numbers, both ends included."""

    name: str
    low: int
    high: int
    step: int = 1


@dataclass(frozen=True, slots=True)
class Number:
    """A dimension of numbers on a grid, both ends included."""

    name: str
    low: float
    high: float
    step: float


Dimension = Categorical | Integer | Number
