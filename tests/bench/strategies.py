"""Strategies that propose candidates: the baselines that the tuner's own search is compared with.

A strategy is made for one task and one seed, and is then asked for a candidate with the records of all launches
so far. None of the baselines gets starting candidates: their first launch is the engine's own default, which
every strategy has.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import random
import warnings
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol, cast

import optuna  # noqa: TID251 - two of the baselines are Optuna's own samplers
from optuna.trial import TrialState as OptunaState  # noqa: TID251 - as above
from optuna.trial import create_trial  # noqa: TID251 - as above

from tuner.core.cards import decode_bandwidth
from tuner.core.memory.predict import Predictor
from tuner.core.outcome import TrialState
from tuner.core.space import Choice, broken_rule
from tuner.core.trial import best_of
from tuner.search.coordinates import complete, coordinates
from tuner.search.dimensions import Categorical, Integer
from tuner.search.memory_gate import MemoryGate
from tuner.search.queue import propose, refusal
from tuner.search.starts import starting_candidates
from tuner.search.strategy import Search
from tuner.study import STARTUP_TRIALS, TpeSampler
from tuner.study.sampler import placed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from optuna.trial import FrozenTrial, Trial  # noqa: TID251 - as above

    from tests.bench.task import Task
    from tuner.core.candidate import Candidate
    from tuner.core.options import Value
    from tuner.core.trial import TrialRecord
    from tuner.search.dimensions import Coordinate, Dimension
    from tuner.search.queue import Sampler

_USABLE = "usable"


class Strategy(Protocol):
    """One search on one rig."""

    def propose(self, history: Sequence[TrialRecord]) -> Candidate | None:
        """What to launch next; None where there is nothing left that it would try.

        Args:
            history: All launches so far, in order, the reference's first; its candidate is None.
        """

    def exported(self, history: Sequence[TrialRecord]) -> TrialRecord | None:
        """What would be exported after these launches; None where there is nothing."""


class Measured:
    """Exports what was measured fastest."""

    def exported(self, history: Sequence[TrialRecord]) -> TrialRecord | None:
        """The highest measured mean."""
        return best_of(history)


def sampled(task: Task, sampler: Sampler, history: Sequence[TrialRecord]) -> Candidate | None:
    """A sampler's next candidate that keeps the space's rules and was not tried."""
    return propose(sampler, task.bound, lambda one: refusal(task.bound, one, history) is not None)


@dataclass(frozen=True, slots=True)
class RandomDraw:
    """Each dimension on its own, all values alike."""

    rng: random.Random

    def suggest(self, dimension: Dimension) -> Coordinate:
        """Any value."""
        if isinstance(dimension, Categorical):
            return self.rng.choice(dimension.choices)
        if isinstance(dimension, Integer):
            return self.rng.randrange(dimension.low, dimension.high + 1, dimension.step)
        steps = round((dimension.high - dimension.low) / dimension.step)
        return min(dimension.low + self.rng.randint(0, steps) * dimension.step, dimension.high)

    def refuse(self) -> None:
        """Nothing is learnt."""


@dataclass(frozen=True, slots=True)
class RandomSampler:
    """Draws at random."""

    rng: random.Random

    def ask(self) -> RandomDraw:
        """Begin a proposal."""
        return RandomDraw(self.rng)


class RandomSearch(Measured):
    """Draws at random from the space."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task = task
        self._sampler = RandomSampler(random.Random(seed))  # noqa: S311 - no secret

    def propose(self, history: Sequence[TrialRecord]) -> Candidate | None:
        """A draw."""
        return sampled(self._task, self._sampler, history)


class TpeSearch(Measured):
    """Optuna's TPE as the tuner's study makes it: multivariate, grouped, with constraints."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self._trials = Trials(task)

    def propose(self, history: Sequence[TrialRecord]) -> Candidate | None:
        """What TPE makes of the history."""
        sampler = TpeSampler(self._trials.of(history), seed=self._seed)
        return sampled(self._task, sampler, history)


class GpSearch(Measured):
    """Optuna's Gaussian process with constraints. Needs torch and scipy."""

    def __init__(self, task: Task, seed: int) -> None:
        importlib.import_module("torch").set_num_threads(1)  # the bench has a process for each core
        self._task, self._seed = task, seed
        self._trials = Trials(task)

    def propose(self, history: Sequence[TrialRecord]) -> Candidate | None:
        """What the process makes of the history."""
        return sampled(self._task, GpSampler(self._trials.completed(history), self._seed), history)


class GpSampler:
    """A throw-away study with Optuna's GPSampler, filled from the history."""

    def __init__(self, trials: Sequence[FrozenTrial], seed: int) -> None:
        mixed = hashlib.sha256(f"{seed}:{len(trials)}".encode()).digest()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.GPSampler(
                seed=int.from_bytes(mixed[:4], "big"), n_startup_trials=STARTUP_TRIALS
            )
            self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._study.add_trials(trials)

    def ask(self) -> GpDraw:
        """Begin a proposal."""
        return GpDraw(self._study, self._study.ask())


@dataclass(frozen=True, slots=True)
class GpDraw:
    """One proposal being drawn."""

    _study: optuna.Study
    _trial: Trial

    def suggest(self, dimension: Dimension) -> Coordinate:
        """The process's value for a dimension."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if isinstance(dimension, Categorical):
                return cast("Coordinate", self._trial.suggest_categorical(dimension.name, dimension.choices))
            if isinstance(dimension, Integer):
                low, high = dimension.low, dimension.high
                return self._trial.suggest_int(dimension.name, low, high, step=dimension.step)
            low_number, high_number = dimension.low, dimension.high
            return self._trial.suggest_float(dimension.name, low_number, high_number, step=dimension.step)

    def refuse(self) -> None:
        """Tell the process that this one cannot be used."""
        self._trial.set_constraint(_USABLE, 1.0)
        self._study.tell(self._trial, state=OptunaState.PRUNED)


class Trials:
    """A history as Optuna's trials.

    Args:
        task: Whose candidates they are.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._known: list[FrozenTrial] = []

    def of(self, history: Sequence[TrialRecord]) -> list[FrozenTrial]:
        """As the tuner's study would have stored them; what was seen before is not made again."""
        for record in history[len(self._known) :]:
            state = record.state or TrialState.PRUNED
            self._known.append(self._trial(record, record.score if state is TrialState.COMPLETE else None))
        return self._known

    def completed(self, history: Sequence[TrialRecord]) -> list[FrozenTrial]:
        """For a sampler that sees COMPLETE alone: what failed has the lowest score measured, and is not usable.

        The reference is left out: it has no place in the space, and a process would then know of no dimension.
        """
        scores = [record.score for record in history if record.score is not None]
        worst = min(scores, default=0.0)
        return [
            self._trial(record, worst if record.score is None else record.score)
            for record in history
            if record.candidate is not None
        ]

    def _trial(self, record: TrialRecord, value: float | None) -> FrozenTrial:
        place = [] if record.candidate is None else coordinates(self._task.bound, record.candidate)
        return create_trial(
            state=OptunaState.PRUNED if value is None else OptunaState.COMPLETE,
            value=value,
            **placed(place),
            constraints={_USABLE: 0.0 if record.may_win else 1.0},
        )


@dataclass
class GridSearch(Measured):
    """What a person would write: a few splits in both modes, with drafts and without, row after row."""

    task: Task
    seed: int
    """A grid needs none."""
    _left: Iterator[Candidate] = field(init=False)

    def __post_init__(self) -> None:
        self._left = self._rows()

    def propose(self, history: Sequence[TrialRecord]) -> Candidate | None:
        """The next row that was not launched."""
        tried = {record.key for record in history}
        return next((one for one in self._left if one.key() not in tried), None)

    def _rows(self) -> Iterator[Candidate]:
        bound = self.task.bound
        for cache in ("f16", "q8_0"):
            for drafts in self._drafts():
                for placement in self._placements():
                    rest = {"cache-type-k": cache, "cache-type-v": cache, "ubatch-size": 512}
                    candidate = complete(bound, {**rest, **drafts, **placement})
                    if broken_rule(bound.space, candidate.options) is None:
                        yield candidate

    def _drafts(self) -> list[Mapping[str, Value]]:
        rows: list[Mapping[str, Value]] = []
        if "draft-mtp" in self._choices("spec-type"):
            rows = [{"spec-type": "draft-mtp", "spec-draft-n-max": depth} for depth in (3, 2, 4)]
        return [*rows, {"spec-type": "none"}]

    def _placements(self) -> list[Mapping[str, Value]]:
        devices = self.task.devices
        even = (1,) * len(devices)
        free = tuple(max(device.free_mib // 256, 1) for device in devices)
        splits = [even, free]
        if len(devices) == 2:
            splits += [(3, 2), (2, 3), (7, 3), (3, 7), (4, 1)]
        else:
            splits += [
                tuple(2 if place == more else 1 for place in range(len(devices)))
                for more in range(len(devices))
            ]
        modes = self._choices("split-mode")
        rows: list[Mapping[str, Value]] = [
            {"split-mode": mode, "tensor-split": split}
            for mode in ("tensor", "layer")
            if mode in modes
            for split in splits
        ]
        if "none" in modes:
            rows += [{"split-mode": "none", "device": (device.name,)} for device in devices]
        return rows

    def _choices(self, name: str) -> tuple[Value, ...]:
        parameter = self.task.bound.space.parameter(name)
        return parameter.choices if isinstance(parameter, Choice) else ()


class TunerSearch:
    """The tuner's own search, as a run has it."""

    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self._trials = Trials(task)
        self._gate = MemoryGate(
            Predictor(task.bound.splits, task.devices),
            task.devices,
            reserve_mib={device.name: 0 for device in task.devices},
            source="bench",
            host_room_mib=task.host_room_mib,
        )
        self._search = Search(
            task.bound,
            self._gate,
            bandwidths={device.name: decode_bandwidth(device.description) for device in task.devices},
        )

    def propose(self, history: Sequence[TrialRecord]) -> Candidate | None:
        """A starting candidate, or what the search proposes, if it is likely to fit."""
        self._gate.learn(history)
        tried = {record.key for record in history}
        for _, start in starting_candidates(self._task.bound, self._task.devices):
            if start.key() not in tried and self._gate.turned_away(start) is None:
                return start
        found = self._search.propose(
            history,
            lambda one: refusal(self._task.bound, one, history) is not None,
            lambda one: self._gate.excess(one) is not None,
            lambda: TpeSampler(self._trials.of(history), seed=self._seed),
        )
        return None if found is None else found.candidate

    def exported(self, history: Sequence[TrialRecord]) -> TrialRecord | None:
        """The best by the estimates of all trials together."""
        estimates = self._search.estimates(history)
        return best_of([replace(record, estimate_tok_s=estimates.get(record.number)) for record in history])


#: Every strategy by its name; a new one is a callable of a task and a seed.
STRATEGIES: Mapping[str, Callable[[Task, int], Strategy]] = MappingProxyType(
    {"tuner": TunerSearch, "random": RandomSearch, "tpe": TpeSearch, "gp": GpSearch, "grid": GridSearch}
)
_NEEDS = {"gp": ("torch", "scipy")}


def missing(name: str) -> str | None:
    """What a strategy needs that is not installed, as a sentence; None where it can run."""
    absent = [module for module in _NEEDS.get(name, ()) if importlib.util.find_spec(module) is None]
    if not absent:
        return None
    return f"{name}: left out, {' and '.join(absent)} not installed; add with: pip install {' '.join(absent)}"
