"""Where a race of several studies stands, as far as their trials do not say it: what is kept beside them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tuner.search.confirmation.state import Confirmation
from tuner.search.racing import Out
from tuner.search.side_by_side import Arm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _none() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RaceState:
    """What was decided so far."""

    studies: tuple[str, ...]
    """Names of those that race, in the order of their first turns."""
    budget: tuple[float | None, int | None]
    """Seconds and launches that there were; with more of them it goes on."""
    out: tuple[Out, ...] = ()
    """Who cannot win any more."""
    turn: tuple[str, int] | None = None
    """Whose turn it is, and how many launches its search has made once that is through; None between turns."""
    searched: bool = False
    """Whether the search is over."""
    proof_s: Mapping[str, float | None] = field(default_factory=_none)
    """What each study's proof may use, in seconds; those that are not named have had none yet."""
    reference: str | None = None
    """The study whose plain reference all answers are compared with."""
    arms: Mapping[str, Arm] = field(default_factory=_none)
    """What is launched side by side."""
    comparison: Confirmation | None = None
    """Where that stands; None where it has not begun."""
    rounds: int = 0
    """How many comparisons have begun: launches of one do not count for another."""

    @property
    def gone(self) -> frozenset[str]:
        """Names of those that cannot win any more."""
        return frozenset(one.name for one in self.out)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse."""
        return {
            "studies": list(self.studies),
            "budget": list(self.budget),
            "out": [asdict(one) for one in self.out],
            "turn": None if self.turn is None else list(self.turn),
            "searched": self.searched,
            "proof_s": dict(self.proof_s),
            "reference": self.reference,
            "arms": {name: asdict(arm) for name, arm in self.arms.items()},
            "comparison": None if self.comparison is None else self.comparison.to_json(),
            "rounds": self.rounds,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RaceState:
        """Read what `to_json` made.

        Raises:
            KeyError: A field is missing.
            TypeError: A field has another form.
            ValueError: As above.
        """
        seconds, launches = document["budget"]
        comparison, turn = document["comparison"], document["turn"]
        return cls(
            studies=tuple(document["studies"]),
            budget=(seconds, launches),
            out=tuple(Out(**row) for row in document["out"]),
            turn=None if turn is None else (str(turn[0]), int(turn[1])),
            searched=bool(document["searched"]),
            proof_s=MappingProxyType(dict(document["proof_s"])),
            reference=document["reference"],
            arms=MappingProxyType({name: Arm(**row) for name, row in document["arms"].items()}),
            comparison=None if comparison is None else Confirmation.from_json(comparison),
            rounds=document["rounds"],
        )

    def taken_up(self, studies: Sequence[str], budget: tuple[float | None, int | None]) -> RaceState:
        """As it is gone on with: with other studies or more to use the search goes on, and what follows it is open.

        Args:
            studies: Those that race now.
            budget: Seconds and launches that there are now.
        """
        more = any(
            had is not None and (has is None or has > had)
            for had, has in zip(self.budget, budget, strict=True)
        )
        if tuple(studies) == self.studies and not more:
            return self
        kept = tuple(one for one in self.out if one.name in studies and (one.by is None or one.by in studies))
        reference = self.reference if self.reference in studies else None
        return RaceState(tuple(studies), budget, out=kept, reference=reference, rounds=self.rounds)
