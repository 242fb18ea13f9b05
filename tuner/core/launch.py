"""What is to be launched, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tuner.core.asked import Asked
from tuner.core.measurement import Sample
from tuner.core.outcome import Kind, Outcome, Phase, Stage
from tuner.core.quality import Quality
from tuner.core.soak import Soaked
from tuner.core.telemetry import GpuSummary

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.candidate import Candidate

ENGINE_DEFAULT = "engine-default"
CURRENT = "current"
PREVIOUS = "previous"
"""What was best before the engine, or something else, has changed: launched as it was then."""


def trial_key(candidate: Candidate | None, reference: str | None) -> str:
    """Equal for launches, and trials, of the same candidate or reference."""
    return candidate.key() if candidate is not None else f"reference:{reference}"


def reference_name(reference: str | None) -> str:
    """What people call a reference."""
    names = {
        ENGINE_DEFAULT: "the engine's own choice",
        CURRENT: "your command",
        PREVIOUS: "what was best before, as it was",
    }
    return names.get(str(reference), str(reference))


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """A server to start: a candidate, or a reference's own words."""

    candidate: Candidate | None
    """None for a reference, which is no point of the search space."""
    reference: str | None = None
    """`engine-default`, `current` or `previous`; None for a candidate."""
    flags: tuple[str, ...] = ()
    """A reference's flags, verbatim; of a candidate, whose own are written from its options, those beside them."""
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Environment variables beside the server's usual ones."""
    takes_extra: bool = True
    """Whether the user's own extra flags are added; their command may hold them already."""
    asked: Asked = field(default_factory=lambda: Asked(None, None, None))

    @property
    def key(self) -> str:
        """Equal for launches of the same candidate or reference, and equal to their trials' keys."""
        return trial_key(self.candidate, self.reference)

    @property
    def own_environment(self) -> dict[str, str]:
        """Environment variables that belong to the command: its own, and those of the candidate."""
        of_candidate = {} if self.candidate is None else self.candidate.environment
        return {**self.environment, **of_candidate}

    @property
    def label(self) -> str:
        """What people call it."""
        if self.candidate is not None:
            return self.candidate.summary()
        return f"reference: {reference_name(self.reference)}"


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """One launch down to its last word; made before it is journalled."""

    argv: tuple[str, ...]
    environment_changes: Mapping[str, str]
    """What the server's environment has beside the user's own."""
    port: int
    api_key: str
    token: str
    """Marks the process, so that it is recognised after we are gone."""
    alias: str | None = None
    """The name that our server gives its model, which no other has; None where the user sets one."""


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What came of one launch."""

    outcome: Outcome
    samples: tuple[Sample, ...] = ()
    load_s: float = 0.0
    """From the start of the process until it was ready, or until it had failed."""
    requests_s: float = 0.0
    """From then to the last answer, warm-up included."""
    warmup_s: float = 0.0
    """The part of it before the first request that is measured."""
    shutdown_s: float = 0.0
    exit_code: int | None = None
    buffers_mib: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """What the engine's buffers add up to, a device (and host memory)."""
    free_mib: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """What was free on each device after the last request, where the driver says."""
    telemetry: Mapping[str, GpuSummary] = field(default_factory=lambda: MappingProxyType({}))
    """What the driver said of each card while it was measured."""
    quality: Quality | None = None
    """How its answers compare with the reference's; None where they were not compared."""
    soak: Soaked | None = None
    """What it went through; None where it was only measured."""

    def without_text(self) -> LaunchResult:
        """The same, but for what was answered."""
        return replace(self, samples=tuple(replace(sample, text="") for sample in self.samples))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse."""
        outcome = self.outcome
        return {
            "outcome": {
                "kind": outcome.kind.value,
                "phase": outcome.phase,
                "stage": outcome.stage,
                "device": outcome.device,
                "requested_mib": outcome.requested_mib,
                "inferred": outcome.inferred,
                "evidence": outcome.evidence,
            },
            "samples": [
                {name: getattr(sample, name) for name in Sample.__dataclass_fields__}
                for sample in self.samples
            ],
            "load_s": self.load_s,
            "requests_s": self.requests_s,
            "warmup_s": self.warmup_s,
            "shutdown_s": self.shutdown_s,
            "exit_code": self.exit_code,
            "buffers_mib": dict(self.buffers_mib),
            "free_mib": dict(self.free_mib),
            "telemetry": {device: summary.to_json() for device, summary in self.telemetry.items()},
            "quality": None if self.quality is None else self.quality.to_json(),
            "soak": None if self.soak is None else self.soak.to_json(),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LaunchResult:
        """Read what `to_json` made.

        Raises:
            KeyError: A field is missing.
            TypeError: A field has another form.
            ValueError: A word is none of ours.
        """
        said = document["outcome"]
        quality, soak = document.get("quality"), document.get("soak")  # older studies have none
        return cls(
            outcome=Outcome(
                kind=Kind(said["kind"]),
                phase=None if said["phase"] is None else Phase(said["phase"]),
                stage=None if said["stage"] is None else Stage(said["stage"]),
                device=said["device"],
                requested_mib=said["requested_mib"],
                evidence=said["evidence"],
                inferred=said["inferred"],
            ),
            samples=tuple(Sample(**sample) for sample in document["samples"]),
            load_s=document["load_s"],
            requests_s=document["requests_s"],
            warmup_s=document["warmup_s"],
            shutdown_s=document["shutdown_s"],
            exit_code=document["exit_code"],
            buffers_mib=MappingProxyType(dict(document["buffers_mib"])),
            free_mib=MappingProxyType(dict(document["free_mib"])),
            telemetry=MappingProxyType(
                {device: GpuSummary.from_json(row) for device, row in document["telemetry"].items()}
            ),
            quality=None if quality is None else Quality.from_json(quality),
            soak=None if soak is None else Soaked.from_json(soak),
        )
