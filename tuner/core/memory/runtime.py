"""What no line of the engine names: what is expected of it beforehand, and what evidence makes of that.

A process holds a driver context, library workspaces, pools, graphs, and in tensor mode the buffers of its
reductions. Nobody prints them. The prior is what was measured on two H200 with build 11434; consumer cards are
near it. What the engine lists as free is less a context already, since listing takes one; what a user states is
not. Evidence of the rig then narrows it: a reading of the driver is a value, a launch that worked where
only a total is known is an upper bound, one that ran out of memory a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import erf, exp, log, sqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_STEPS = 400
_WIDTH = 6.0
_LEAST = 1e-12

#: A CUDA context, MiB: 527 on an H200, less on smaller cards.
_CONTEXT_MIB, _CONTEXT_SPREAD_MIB = 475.0, 120.0
#: Beyond it 98 were measured (168 in tensor mode); other cards and drivers are given some more, and a wide berth.
_SPREAD_MIB = 200.0
#: How many times wider a belief becomes at most where bounds contradict it.
_MOST_DOUBT = 5.0
#: How far the surprises of two situations of one device lie apart: always, and if they differ in the mode, in
#: drafts, in NCCL. What NCCL takes is a matter of its own, and says little of a driver's context.
_APART_MIB, _MODE_APART_MIB, _DRAFTS_APART_MIB, _NCCL_APART_MIB = 40.0, 60.0, 60.0, 150.0


@dataclass(frozen=True, slots=True)
class Belief:
    """A quantity in MiB that is not known exactly."""

    mean: float
    sigma: float


@dataclass(frozen=True, slots=True)
class Situation:
    """What the unnamed memory of a device depends on."""

    backend: str
    """`CUDA`, `ROCm`, `Vulkan`, `RPC`, ... as the engine names its devices."""
    mode: str
    """`layer`, `tensor` or `none`."""
    drafts: bool
    """Whether a draft context runs beside the model's."""
    nccl: bool
    """Whether reductions go through NCCL."""
    stated: bool = False
    """Whether the device's memory is what the user states."""

    @property
    def key(self) -> str:
        """Equal for equal situations."""
        marks = {"drafts": self.drafts, "nccl": self.nccl, "stated": self.stated}
        return "/".join([self.backend, self.mode, *(name for name, holds in marks.items() if holds)])

    @classmethod
    def from_key(cls, key: str) -> Situation | None:
        """The situation of a key; None where it is none of ours."""
        backend, sign, rest = key.partition("/")
        mode, *marks = rest.split("/")
        if not sign or not set(marks) <= {"drafts", "nccl", "stated"}:
            return None
        return cls(backend, mode, "drafts" in marks, "nccl" in marks, "stated" in marks)

    @property
    def family(self) -> tuple[str, bool]:
        """What situations share whose surprises are likely the same."""
        return self.backend, self.stated


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one launch says of a device's unnamed memory, in MiB."""

    low: float | None
    """It is at least this; None where nothing bounds it from below."""
    high: float | None
    """It is at most this; equal to `low` where it is known."""
    sigma: float = 24.0
    """How sharp that is."""


def backend_of(device: str) -> str:
    """The back end of a device, by the engine's name of it: `CUDA` of `CUDA0`."""
    return device.rstrip("0123456789")


def prior(situation: Situation) -> Belief:
    """What is expected before the rig has said anything."""
    if situation.backend == "RPC":
        # stated: a limit on the whole of an RPC server, of which next to nothing is gone before it is asked
        return Belief(4.0, 8.0) if situation.stated else Belief(50.0, 100.0)
    if situation.backend != "CUDA":
        return Belief(350.0, 250.0)
    tensor = situation.mode == "tensor"
    mean, variance = (220.0 if tensor else 150.0), _SPREAD_MIB**2
    if situation.stated:
        mean, variance = mean + _CONTEXT_MIB, variance + _CONTEXT_SPREAD_MIB**2
    if situation.nccl:
        mean, variance = mean + 766.0, variance + 100.0**2
    if situation.drafts:
        mean += (90.0 if tensor else 0.0) + (475.0 if situation.nccl else 0.0)
        variance += 120.0**2
    return Belief(mean, sqrt(variance))


@lru_cache(maxsize=4096)
def _posterior(belief: Belief, evidence: tuple[Evidence, ...]) -> Belief:
    # a bound that the belief keeps anyway must not widen the grid: its steps would be too coarse for the belief
    highs = [one.high - _WIDTH * one.sigma for one in evidence if one.high is not None]
    lows = [one.low + _WIDTH * one.sigma for one in evidence if one.low is not None]
    begin = min([belief.mean - _WIDTH * belief.sigma, *highs])
    end = max([belief.mean + _WIDTH * belief.sigma, *lows])
    step = (end - begin) / _STEPS
    points = [begin + step * (place + 0.5) for place in range(_STEPS)]
    logs = [
        -0.5 * ((point - belief.mean) / belief.sigma) ** 2
        + sum(_log_likelihood(one, point) for one in evidence)
        for point in points
    ]
    top = max(logs)
    weights = [exp(value - top) for value in logs]
    whole = sum(weights)
    mean = sum(weight * point for weight, point in zip(weights, points, strict=True)) / whole
    variance = (
        sum(weight * (point - mean) ** 2 for weight, point in zip(weights, points, strict=True)) / whole
    )
    return Belief(mean, max(sqrt(variance), step / 2))


def apart_mib(one: Situation, other: Situation) -> float:
    """How far the surprises of two situations of one device lie apart, as a standard deviation."""
    differs = (
        ((one.mode == "tensor") != (other.mode == "tensor"), _MODE_APART_MIB),
        (one.drafts != other.drafts, _DRAFTS_APART_MIB),
        (one.nccl != other.nccl, _NCCL_APART_MIB),
    )
    return sqrt(_APART_MIB**2 + sum(mib**2 for is_so, mib in differs if is_so))


def shifted(belief: Belief, surprises: Sequence[Belief]) -> Belief:
    """A prior after other situations of the same device have turned out otherwise than theirs.

    Args:
        belief: The prior.
        surprises: By how much each of the others was off, and how sure that is for this situation.
    """
    if not surprises:
        return belief
    weights = [1 / one.sigma**2 for one in surprises]
    own = 1 / belief.sigma**2
    shift = sum(weight * one.mean for weight, one in zip(weights, surprises, strict=True))
    return Belief(belief.mean + shift / (own + sum(weights)), sqrt(1 / (own + sum(weights))))


def posterior(belief: Belief, evidence: Sequence[Evidence]) -> Belief:
    """What is believed after some launches, by Bayes' rule on a grid of the quantity."""
    return _posterior(_doubted(belief, evidence), tuple(evidence)) if evidence else belief


def _doubted(belief: Belief, evidence: Sequence[Evidence]) -> Belief:
    """The belief with a spread that makes room for the bounds that contradict it.

    A bound far out on the tail of a sharp belief would move it by a hair beyond the bound and make it sharper still:
    one launch after the other would be sure to fit, and run out of memory. It is the sharpness that was wrong.
    """
    beyond = [one.low - belief.mean for one in evidence if one.low is not None and one.low != one.high]
    beyond += [belief.mean - one.high for one in evidence if one.high is not None and one.low != one.high]
    spread = min(max([belief.sigma, *beyond]), _MOST_DOUBT * belief.sigma)
    return Belief(belief.mean, spread)


def _log_likelihood(evidence: Evidence, point: float) -> float:
    """How well a value agrees with one piece of evidence; a misread one cannot rule everything out."""
    if evidence.low is not None and evidence.low == evidence.high:
        return -0.5 * ((point - evidence.low) / evidence.sigma) ** 2
    total = 0.0
    if evidence.low is not None:
        total += log(max(_normal((point - evidence.low) / evidence.sigma), _LEAST))
    if evidence.high is not None:
        total += log(max(_normal((evidence.high - point) / evidence.sigma), _LEAST))
    return total


def _normal(z: float) -> float:
    return (1 + erf(z / sqrt(2))) / 2
