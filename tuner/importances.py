"""How much each parameter decides whether a candidate is among the fastest: Optuna's own figures.

Optuna is given the candidates' options as they are, not the coordinates that a sampler drew: those of a split depend
on other parameters, and a study may hold them otherwise.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
)
from optuna.trial import TrialState as OptunaState
from optuna.trial import create_trial

from tuner.core.candidate import Candidate, format_value
from tuner.core.trial import searched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.options import Value
    from tuner.core.trial import TrialRecord

optuna.logging.set_verbosity(optuna.logging.ERROR)  # as for the study
#: Fewer measured candidates say nothing of parameters.
LEAST_MEASURED = 6

_Column = dict[int, "str | float"]
"""A parameter's values by trial; what is missing does not have it."""


def importances(records: Sequence[TrialRecord]) -> dict[str, float]:
    """How much each parameter decides whether a candidate is in the fastest tenth, most first; in all 1.

    By Optuna's default evaluator, PED-ANOVA (Watanabe et al. 2023, arXiv:2304.10255). Options that always change
    together are one parameter. Empty where fewer than `LEAST_MEASURED` candidates were measured, or all alike.

    Args:
        records: A study's trials; those of the search count.
    """
    measured = [
        (record, record.candidate, record.score)
        for record in searched(records)
        if record.candidate is not None and record.score is not None
    ]
    columns = _columns({record.number: candidate for record, candidate, _ in measured})
    if len(measured) < LEAST_MEASURED or not columns or len({score for _, _, score in measured}) < 2:
        return {}
    distributions = {name: _distribution(column) for name, column in columns.items()}
    study = optuna.create_study(direction="maximize")
    for record, _, score in measured:
        own = {name: column[record.number] for name, column in columns.items() if record.number in column}
        study.add_trial(
            create_trial(
                state=OptunaState.COMPLETE,
                value=score,
                params=own,
                distributions={name: distributions[name] for name in own},
            )
        )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # where few candidates have a parameter Optuna says so on standard error
        return dict(optuna.importance.get_param_importances(study))


def _columns(candidates: Mapping[int, Candidate]) -> dict[str, _Column]:
    """The parameters in which candidates differ, those that change together under one name."""
    raw: dict[str, dict[int, Value]] = {}
    for number, candidate in candidates.items():
        for name, value in candidate.items:
            raw.setdefault(name, {})[number] = value
    named: dict[tuple[tuple[int, ...], ...], tuple[list[str], _Column]] = {}
    for name, values in raw.items():
        column = {number: _plain(name, value) for number, value in values.items()}
        groups: dict[str | float, list[int]] = {}
        for number, one in column.items():
            groups.setdefault(one, []).append(number)
        if len(groups) > 1:
            pattern = tuple(sorted(tuple(numbers) for numbers in groups.values()))
            named.setdefault(pattern, ([], column))[0].append(name)
    return {", ".join(names): column for names, column in named.values()}


def _plain(name: str, value: Value) -> str | float:
    """A number where order means something, else a word; a split is the part of its first device."""
    if isinstance(value, tuple) and value and all(isinstance(part, int) for part in value):
        return int(value[0]) / (sum(map(int, value)) or 1)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return format_value(name, value)


def _distribution(column: _Column) -> BaseDistribution:
    values = list(dict.fromkeys(column.values()))
    numbers = [value for value in values if isinstance(value, float)]
    if len(numbers) == len(values):
        return FloatDistribution(min(numbers), max(numbers))
    return CategoricalDistribution(values)
