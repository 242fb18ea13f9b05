"""What launches have taught about a rig's memory, in a form that is kept with the rig."""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, inf, isfinite
from typing import TYPE_CHECKING, Any

from tuner.core.memory.runtime import Belief, Evidence, Situation, apart_mib, posterior, prior, shifted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: Newest evidence that is kept for a device in one situation.
_KEPT = 24
#: Evidence of another model and engine is this much less sharp, and that of the same model or engine only so much:
#: what no line names is the engine's (its kernels, its workspaces) in one part, and the model's in another.
_ELSEWHERE, _HALF_ELSEWHERE = 3.0, 2.0


@dataclass(frozen=True, slots=True)
class Observation:
    """What one launch says of one device's unnamed memory."""

    device: str
    """The device's identity."""
    situation: str
    """`Situation.key`."""
    source: str
    """Engine and model that it was seen with, as `engine/model`."""
    low_mib: float | None
    high_mib: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse."""
        return {
            "device": self.device,
            "situation": self.situation,
            "source": self.source,
            "low_mib": self.low_mib,
            "high_mib": self.high_mib,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Observation:
        """Read what `to_json` made.

        Raises:
            KeyError: A field is missing.
            TypeError: A field has another form.
            ValueError: A number is none, or not finite.
        """
        low, high = (_amount(document[name]) for name in ("low_mib", "high_mib"))
        return cls(str(document["device"]), str(document["situation"]), str(document["source"]), low, high)


@dataclass(frozen=True, slots=True)
class Learned:
    """All that is known of a rig's memory.

    Attributes:
        observations: The oldest first.
        source: The engine and model of now: what was seen with others counts for less.
    """

    observations: tuple[Observation, ...] = ()
    source: str = ""

    def with_more(self, more: Iterable[Observation]) -> Learned:
        """With further observations, the newest last."""
        return Learned((*self.observations, *more), self.source)

    def belief(self, device: str, situation: Situation) -> Belief:
        """What is believed of a device's unnamed memory in a situation.

        What it has shown in other situations counts as well: a context that is larger than expected is so in
        all of them.
        """
        surprises = []
        for other in self._situations(device):
            if other.key != situation.key and other.family == situation.family:
                expected = prior(other)
                seen = self._posterior(device, other, expected)
                doubt = hypot(seen.sigma, apart_mib(situation, other))
                surprises.append(Belief(seen.mean - expected.mean, doubt))
        return self._posterior(device, situation, shifted(prior(situation), surprises))

    def _situations(self, device: str) -> list[Situation]:
        keys = dict.fromkeys(one.situation for one in self.observations if one.device == device)
        return [found for key in keys if (found := Situation.from_key(key)) is not None]

    def _posterior(self, device: str, situation: Situation, before: Belief) -> Belief:
        found = [one for one in self.observations if one.device == device and one.situation == situation.key]
        return posterior(before, [self._evidence(one) for one in found[-_KEPT:]])

    def _evidence(self, one: Observation) -> Evidence:
        sharp = Evidence(one.low_mib, one.high_mib)
        if one.source == self.source:
            return sharp
        shared = set(zip(one.source.split("/"), self.source.split("/"), strict=False))
        is_half = any(theirs == mine != "" for theirs, mine in shared)
        doubt = _HALF_ELSEWHERE if is_half else _ELSEWHERE
        return Evidence(one.low_mib, one.high_mib, sharp.sigma * doubt)


def _amount(number: float | None) -> float | None:
    if number is None:
        return None
    try:
        amount = float(number)
    except OverflowError:
        amount = inf
    if not isfinite(amount):
        raise ValueError("an amount of memory is not finite")
    return amount


def kept(observations: Sequence[Observation]) -> tuple[Observation, ...]:
    """The newest observations of each device, situation and source: what is worth a place in a file."""
    seen: dict[tuple[str, str, str], int] = {}
    newest: list[Observation] = []
    for one in reversed(observations):
        key = (one.device, one.situation, one.source)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= _KEPT:
            newest.append(one)
    return tuple(reversed(newest))
