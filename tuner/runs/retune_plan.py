"""What a retune is to do, and what is known from before the change."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.search.canary.arms import Arms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.launch import LaunchSpec
    from tuner.core.quality import Probe
    from tuner.core.trial import TrialRecord
    from tuner.runs.launching import LaunchRules
    from tuner.search.canary.claim import Claim
    from tuner.search.strategy import Search


@dataclass(frozen=True, slots=True)
class Before:
    """What is known from before the change."""

    scores: Mapping[str, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """What each launch made that compared them, by the keys of now."""
    records: tuple[TrialRecord, ...] = ()
    """The trials; none where the study is gone."""
    plain: Probe | None = None
    """What the engine's own choice said next at fixed places; None where nobody knows, or it has to be other."""


@dataclass(frozen=True, slots=True)
class RetunePlan:
    """What is to be done, decided before anything starts."""

    rules: LaunchRules
    best: LaunchSpec
    """What was best, as it is launched now."""
    previous: LaunchSpec | None
    """The same as it was; None where that is gone."""
    references: tuple[LaunchSpec, ...]
    """What the best was compared with, the reference of its claim first."""
    beside: tuple[tuple[str, LaunchSpec], ...]
    """What may be better, with a word on why, the most promising first."""
    starts: tuple[tuple[str, Candidate], ...]
    """What has become possible, for the search."""
    candidate_spec: Callable[[Candidate], LaunchSpec]
    search: Callable[[Sequence[TrialRecord]], Search]
    """Makes a search that believes these trials of before."""
    before: Before
    renews: bool
    """Whether a new result is wanted even if nothing is better: the old one does not serve any more."""
    launches: int
    """All that may be made."""
    seconds: float | None
    blocks: int
    """Launches a side."""
    worthwhile: float
    seed: int
    quality_s: float | None
    soak: bool = True
    same_answers: bool = True
    """Whether the answers of now should be those of then; not so with another file of the model."""
    claim: Claim | None = None
    """What is measured, where nothing else is wanted."""
    refused: str = ""
    """Why the old best cannot be launched at all; empty where it can."""

    @property
    def arms(self) -> Arms:
        """Who takes part in the canary."""
        return Arms(
            best=self.best.key,
            previous=None if self.previous is None else self.previous.key,
            references=tuple(one.key for one in self.references),
            beside=tuple(one.key for _, one in self.beside),
        )

    @property
    def specs(self) -> dict[str, LaunchSpec]:
        """Everything that the canary may launch, by key."""
        every = [self.best, *(one for _, one in self.beside), *self.references]
        every += [] if self.previous is None else [self.previous]
        return {one.key: one for one in every}
