"""Holds each configuration's answers against the plain reference's, and keeps wrong ones from winning."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tuner.core.answers import agreement, why_nonsense
from tuner.core.imprint import Imprint
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.outcome import Kind, Outcome, Phase
from tuner.core.quality import Probe, Quality, bound_nats, loss
from tuner.runs.trial_folder import TrialFolder, write_json
from tuner.runs.works.probing import Probing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tuner.core.candidate import Candidate
    from tuner.core.launch import LaunchResult, LaunchSpec
    from tuner.core.quality import Loss
    from tuner.core.trial import TrialRecord
    from tuner.core.work import RunningServer
    from tuner.core.workload import Workload

_FULL_TYPES = frozenset({"f16", "bf16", "f32"})
PROBE, _ANSWERS = "probe.json", "answers.json"


@dataclass(frozen=True, slots=True)
class _Reference:
    """What the others are compared with."""

    key: str
    probe: Probe
    answers: Mapping[str, Imprint]


@dataclass(slots=True)
class Look:
    """What was seen of one server; asks it when it is called."""

    probing: Probing
    twice: bool
    """Whether it is asked again, to see how far it is from itself."""
    probes: list[Probe] = field(default_factory=list)

    def __call__(self, server: RunningServer, prompt_tok_s: float | None) -> None:
        """Ask it."""
        first = self.probing(server, prompt_tok_s)
        self.probes.append(first)
        if self.twice and first.positions:
            again = replace(self.probing, deep_characters=first.deep_characters)
            self.probes.append(again(server, prompt_tok_s))


class QualityGate:
    """Compares answers with those of the plain reference: layers or a single card, f16 caches, no drafts.

    The reference is the engine's own choice, or else the first plain candidate that was measured.

    Args:
        seconds: How long a launch may be looked at; None not to look at all.
        workload: What is asked; greedy answers have to begin alike.
        folder: The study's, where what the reference would say next after fixed texts is kept, and of what it
            said to the prompts the imprints alone.
        largest: What the plain reference of the largest file says, where this is another file or engine: each launch
            is compared with that, too, but not judged by it.
    """

    def __init__(
        self, seconds: float | None, workload: Workload, folder: Path, *, largest: Probe | None = None
    ) -> None:
        self._seconds = seconds
        self._largest = largest
        self._greedy = workload.sampling.values.get("temperature", 0.0) == 0.0
        # a turn goes on from the server's own answers: once two have differed, they were not asked the same
        self._same_asked = workload.session is None
        self._prompts = {prompt.id: prompt for prompt in workload.prompt_set.prompts}
        self._folder = folder
        self._reference: _Reference | None = None
        self._floor_nats = 0.0

    def begin_with(self, records: Sequence[TrialRecord]) -> None:
        """Take up what a study's launches have shown."""
        for record in records:
            if record.score is None or record.result is None or record.result.quality is None:
                continue
            quality = record.result.quality
            if self._reference is None:
                self._reference = _kept(TrialFolder.of(self._folder, record.number), record.key)
                if self._reference is not None:
                    self._floor_nats = quality.noise_floor_nats
            elif record.key == self._reference.key and quality.loss is not None and quality.objection is None:
                self._floor_nats = max(self._floor_nats, quality.loss.judged_nats)

    def look(self, spec: LaunchSpec) -> Look | None:
        """What a launch is looked at with; None not to look."""
        if self._seconds is None:
            return None
        known, largest = self._reference, self._largest
        deep = None if largest is None else largest.deep_characters or None
        if known is not None:
            deep = known.probe.deep_characters
        return Look(Probing(self._seconds, deep), twice=known is None and is_plain(spec))

    def examined(
        self, result: LaunchResult, folder: TrialFolder, spec: LaunchSpec, look: Look | None
    ) -> LaunchResult:
        """The result with what was seen of its answers; degraded where they are too far off.

        Raises:
            ResultsError: What the reference says cannot be kept.
        """
        if look is None or not result.outcome.policy.measured:
            return result
        known = self._reference
        if known is None:
            return self._first(result, folder, spec, look)
        found = loss(known.probe, look.probes[0]) if look.probes else None
        answers = self._answers(result)
        objection = why_nonsense(answers, known.answers, greedy=self._greedy)
        if spec.key == known.key and found is not None and objection is None:
            self._floor_nats = max(self._floor_nats, found.judged_nats)
        bound = bound_nats(self._floor_nats)
        if objection is None and found is not None and found.judged_nats > bound:
            objection = (
                f"its next tokens are {found.judged_nats:.2g} nats off the plain reference's, "
                f"at most {bound:.2g} are allowed ({found.positions} places)"
            )
        quality = Quality(
            loss=found,
            bound_nats=bound,
            noise_floor_nats=self._floor_nats,
            answers_alike=agreement(answers, known.answers) if self._greedy and self._same_asked else None,
            seconds=sum(probe.seconds for probe in look.probes),
            objection=objection,
            to_largest=self._to_largest(look),
        )
        return _with(result, quality)

    def _to_largest(self, look: Look) -> Loss | None:
        """How far a launch is from the largest file's plain reference."""
        return None if self._largest is None or not look.probes else loss(self._largest, look.probes[0])

    def _first(self, result: LaunchResult, folder: TrialFolder, spec: LaunchSpec, look: Look) -> LaunchResult:
        """A launch that nothing can be compared with yet; a plain one is what the next are compared with."""
        answers = self._answers(result)
        objection = why_nonsense(answers, {}, greedy=False)
        floor = loss(look.probes[0], look.probes[1]) if len(look.probes) > 1 else None
        if objection is None and is_plain(spec) and look.probes and look.probes[0].positions:
            self._reference = _Reference(spec.key, look.probes[0], answers)
            self._floor_nats = 0.0 if floor is None else floor.judged_nats
            write_json(folder.path / _ANSWERS, {name: one.to_json() for name, one in answers.items()})
            write_json(folder.path / PROBE, look.probes[0].to_json())
        quality = Quality(
            loss=None,
            bound_nats=bound_nats(self._floor_nats),
            noise_floor_nats=self._floor_nats,
            answers_alike=None,
            seconds=sum(probe.seconds for probe in look.probes),
            objection=objection,
            to_largest=self._to_largest(look),
        )
        return _with(result, quality)

    def _answers(self, result: LaunchResult) -> dict[str, Imprint]:
        return {
            sample.prompt_id: Imprint.of(sample.text, self._prompts.get(sample.prompt_id))
            for sample in result.samples
        }


def is_plain(spec: LaunchSpec) -> bool:
    """Whether a launch's answers are what others are held against."""
    if spec.candidate is None:
        return spec.reference == ENGINE_DEFAULT
    return is_plain_candidate(spec.candidate)


def is_plain_candidate(candidate: Candidate) -> bool:
    """Whether nothing about a candidate changes what it answers: no other sums, no smaller cache, no drafts."""
    return (
        candidate.get("split-mode") in {"layer", "none"}
        and candidate.get("cache-type-k") in _FULL_TYPES
        and candidate.get("cache-type-v") in _FULL_TYPES
        and candidate.get("spec-type") in {None, "none"}
        and not candidate.environment
    )


def reference_probe(records: Sequence[TrialRecord], folder: Path) -> Probe | None:
    """What a study's plain reference would say next at the fixed places; None where it has no reference.

    Args:
        records: The study's trials.
        folder: The study's.
    """
    for record in records:
        if record.score is not None and record.result is not None and record.result.quality is not None:
            kept = _kept(TrialFolder.of(folder, record.number), record.key)
            if kept is not None:
                return kept.probe
    return None


def _with(result: LaunchResult, quality: Quality) -> LaunchResult:
    if quality.objection is None:
        return replace(result, quality=quality)
    degraded = Outcome(Kind.DEGRADED, phase=Phase.BENCHMARK, evidence=quality.objection)
    return replace(result, quality=quality, outcome=degraded)


def _kept(folder: TrialFolder, key: str) -> _Reference | None:
    """What a reference's folder holds; None where one of its files was never written, or cut by a power failure.

    Another launch becomes the reference then.
    """
    try:
        probe, answers = (
            json.loads((folder.path / name).read_text(encoding="utf-8")) for name in (PROBE, _ANSWERS)
        )
        return _Reference(
            key, Probe.from_json(probe), {name: Imprint.from_json(row) for name, row in answers.items()}
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
