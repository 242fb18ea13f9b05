"""How far a configuration's answers are from those of the plain reference: distributions of next tokens.

A q4_0 cache, or a split mode with a bug, is fast and wrong. What a model would say next after fixed texts tells,
without sampling and without drafts: the Kullback-Leibler divergence from the reference, over the tokens that
both show and the rest of the mass as one. A median over positions is insensitive to single near-ties; deep
positions are judged by themselves, since some faults only show in a long context.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import exp, log
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Nats. On a model of 135M parameters (tests/bench/quality.py; medians of 90 shallow and 14 places at 2,000 tokens):
#: other kernels alone (`-fa off`) 0.0026 and 0.0047, q8_0 0.0025 and 0.0030, q4_0 keys 0.021 and 0.037, a q4_0 cache
#: without rotation 0.099 and 0.091. Earlier, of 23 places: another layer split 0, tensor mode with f16 0.0022.
BOUND_NATS = 0.01
#: A reference that differs more from itself than that has no right to a tighter bound.
_FLOOR_TIMES = 4.0
#: A median of fewer deep places is one near-tie's.
_LEAST_DEEP_PLACES = 3
_LEAST_MASS = 1e-9
_LEAST_SHOWN = 5e-5


@dataclass(frozen=True, slots=True)
class NextToken:
    """What may come next after a text."""

    probabilities: Mapping[int, float]
    """Of the likeliest tokens by their ids; what is missing from 1 is the rest of the vocabulary."""

    @property
    def top(self) -> int | None:
        """The likeliest token; None where nothing is shown."""
        return max(self.probabilities, key=self.probabilities.__getitem__, default=None)

    def to_json(self) -> list[list[float]]:
        """Pairs of token and logarithm, likeliest first."""
        rows = sorted(self.probabilities.items(), key=lambda row: (-row[1], row[0]))
        return [[token, round(log(max(part, _LEAST_MASS)), 5)] for token, part in rows]

    @classmethod
    def from_json(cls, rows: Sequence[Sequence[float]]) -> NextToken:
        """Read what `to_json` made."""
        return cls(MappingProxyType({int(token): exp(logarithm) for token, logarithm in rows}))


@dataclass(frozen=True, slots=True)
class Position:
    """One place in one text."""

    name: str
    """The same name is the same place, whoever is asked."""
    tokens: int
    """How deep in the context it lies; 0 where the server did not say."""
    next: NextToken
    deep: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """What a server would say next at fixed places."""

    positions: tuple[Position, ...]
    seconds: float
    deep_characters: int = 0
    """Length of the text before the deep positions; 0 without them."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse, but for rounding."""
        return {
            "seconds": self.seconds,
            "deep_characters": self.deep_characters,
            "positions": [
                {"name": one.name, "tokens": one.tokens, "deep": one.deep, "next": one.next.to_json()}
                for one in self.positions
            ],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Probe:
        """Read what `to_json` made.

        Raises:
            KeyError: A field is missing.
            TypeError: A field has another form.
            ValueError: As above.
        """
        return cls(
            positions=tuple(
                Position(row["name"], row["tokens"], NextToken.from_json(row["next"]), deep=row["deep"])
                for row in document["positions"]
            ),
            seconds=document["seconds"],
            deep_characters=document["deep_characters"],
        )


@dataclass(frozen=True, slots=True)
class Loss:
    """How far a configuration is from the reference."""

    positions: int
    """Places that both were asked at."""
    deepest_tokens: int
    kl_nats: float
    """Median over the shallow places."""
    deep_kl_nats: float | None
    """Median over the deep ones; None without enough of them."""
    worst_kl_nats: float
    top1: float
    """Part of the places at which both have the same likeliest token."""

    @property
    def judged_nats(self) -> float:
        """What is held against the bound."""
        return max(self.kl_nats, self.deep_kl_nats or 0.0)


@dataclass(frozen=True, slots=True)
class Quality:
    """How a launch's answers compare with the plain reference's."""

    loss: Loss | None
    """None where no place was compared."""
    bound_nats: float
    noise_floor_nats: float
    """How far the reference is from itself, launched or asked again."""
    answers_alike: float | None
    """Mean part of the reference's greedy answers before the first word that differs; None where none were."""
    seconds: float
    """What looking took."""
    objection: str | None = None
    """Why it may not win; None where nothing is against it."""
    to_largest: Loss | None = None
    """How far it is from the plain reference of the largest file of several; None where there is no other file, or
    no place was compared."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Quality:
        """Read what `to_json` made.

        Raises:
            TypeError: A field is missing or of another form.
        """
        losses = {
            name: document.get(name) for name in ("loss", "to_largest")
        }  # studies of one file lack the second
        found = {name: None if row is None else Loss(**row) for name, row in losses.items()}
        return cls(**{**document, **found})


def divergence_nats(reference: NextToken, other: NextToken) -> float:
    """Kullback-Leibler divergence of the other from the reference, or a little less.

    Three kinds of events are told apart: each token that both show, those that the reference alone shows, and the
    rest. What the other does not show is no likelier to it than the least that it shows, and than what it leaves.
    """
    shared = reference.probabilities.keys() & other.probabilities.keys()
    alone = reference.probabilities.keys() - shared
    rest = max(1.0 - sum(reference.probabilities[token] for token in shared), 0.0)
    their_rest = max(1.0 - sum(other.probabilities[token] for token in shared), 0.0)
    part = min(sum(reference.probabilities[token] for token in alone), rest)
    unseen = max(1.0 - sum(other.probabilities.values()), 0.0)
    at_most = min(len(alone) * min(other.probabilities.values(), default=1.0), unseen)
    theirs = min(their_rest * part / rest if rest > 0 else 0.0, at_most)  # as near as it may be
    found = sum(_event(reference.probabilities[token], other.probabilities[token]) for token in shared)
    return max(found + _event(part, theirs) + _event(rest - part, their_rest - theirs), 0.0)


def _event(probability: float, theirs: float) -> float:
    return probability * log(max(probability, _LEAST_MASS) / max(theirs, _LEAST_MASS))


def loss(reference: Probe, other: Probe) -> Loss | None:
    """Compare place by place; None where they have none in common.

    Deep places are the same place only behind the same text.
    """
    as_deep = reference.deep_characters == other.deep_characters
    theirs = {one.name: one for one in other.positions}
    pairs = [
        (one, theirs[one.name])
        for one in reference.positions
        if one.name in theirs and (as_deep or not one.deep)
    ]
    if not pairs:
        return None
    every = [divergence_nats(mine.next, their.next) for mine, their in pairs]
    deep = [nats for nats, (mine, _) in zip(every, pairs, strict=True) if mine.deep]
    shallow = [nats for nats, (mine, _) in zip(every, pairs, strict=True) if not mine.deep]
    return Loss(
        positions=len(pairs),
        deepest_tokens=max(their.tokens for _, their in pairs),
        kl_nats=median(shallow or deep),
        deep_kl_nats=median(deep) if len(deep) >= _LEAST_DEEP_PLACES else None,
        worst_kl_nats=max(every),
        top1=sum(mine.next.top == their.next.top for mine, their in pairs) / len(pairs),
    )


def nats(amount: float) -> str:
    """A divergence for people: what is far below any noise is 0."""
    return f"{amount if amount >= _LEAST_SHOWN else 0:.2g} nats"


def bound_nats(noise_floor_nats: float) -> float:
    """What counts as different, given how far the reference is from itself."""
    return max(BOUND_NATS, _FLOOR_TIMES * noise_floor_nats)
