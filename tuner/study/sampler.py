"""Optuna's samplers as a source of proposals.

Proposals are drawn in a throw-away study in memory that is filled from the record each time, with a generator
seeded by (seed, trials so far): so a resumed study proposes what an uninterrupted one would have, refused proposals
leave no trace, and a trial that a killed tuner left RUNNING is not counted by anyone.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, cast

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, Trial
from optuna.trial import TrialState as OptunaState

from tuner.search.dimensions import Categorical, Coordinate, Dimension, Integer

if TYPE_CHECKING:
    from collections.abc import Sequence

optuna.logging.set_verbosity(optuna.logging.ERROR)  # what is worth saying the tuner says itself
#: Constraint of a trial: above 0 where the candidate cannot be used.
USABLE = "usable"
#: Random proposals before TPE has enough to go by.
STARTUP_TRIALS = 8


class TpeSampler:
    """Multivariate TPE over groups of parameters that are open together, with constraints."""

    def __init__(self, trials: Sequence[FrozenTrial], *, seed: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=mixed(seed, len(trials)),
                n_startup_trials=STARTUP_TRIALS,
                multivariate=True,
                group=True,
            )
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._study.add_trials(trials)

    def ask(self) -> TpeDraw:
        """Begin a proposal."""
        return TpeDraw(self._study, self._study.ask())


@dataclass(frozen=True, slots=True)
class TpeDraw:
    """One proposal being drawn."""

    _study: optuna.Study
    _trial: Trial

    def suggest(self, dimension: Dimension) -> Coordinate:
        """TPE's value for a dimension."""
        if isinstance(dimension, Categorical):
            return cast("Coordinate", self._trial.suggest_categorical(dimension.name, dimension.choices))
        if isinstance(dimension, Integer):
            return self._trial.suggest_int(dimension.name, dimension.low, dimension.high, step=dimension.step)
        return self._trial.suggest_float(dimension.name, dimension.low, dimension.high, step=dimension.step)

    def refuse(self) -> None:
        """Tell TPE that this one cannot be used."""
        self._trial.set_constraint(USABLE, 1.0)
        self._study.tell(self._trial, state=OptunaState.PRUNED)


class Placed(TypedDict):
    """Arguments of `create_trial`."""

    params: dict[str, Any]
    distributions: dict[str, BaseDistribution]


def placed(place: Sequence[tuple[Dimension, Coordinate]]) -> Placed:
    """Where a candidate lies, as a trial has it."""
    return {
        "params": {dimension.name: value for dimension, value in place},
        "distributions": {dimension.name: distribution_of(dimension) for dimension, _ in place},
    }


def distribution_of(dimension: Dimension) -> BaseDistribution:
    """A dimension in Optuna's words."""
    if isinstance(dimension, Categorical):
        return CategoricalDistribution(dimension.choices)
    if isinstance(dimension, Integer):
        return IntDistribution(dimension.low, dimension.high, step=dimension.step)
    return FloatDistribution(dimension.low, dimension.high, step=dimension.step)


def mixed(seed: int, other: int | str) -> int:
    """One seed out of two; neighbours give unlike generators."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{other}".encode()).digest()[:4], "big")
