"""What a report says beside its verdict, in a few sentences for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.report.view.card_work import decode_work
from tuner.report.view.memory import memory_stacks
from tuner.report.view.progress import failures_of
from tuner.report.view.standings import (
    ClassStanding,
    class_standings,
    depth_standings,
    published_standings,
)
from tuner.report.words import ratio_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.report.view.inputs import ReportInputs

#: Parameters that explain less are not named.
_LEAST_IMPORTANCE = 0.05


def essentials(inputs: ReportInputs) -> list[str]:
    """The sentences; none is there twice in the verdict."""
    lines = [
        *_parts("class", class_standings(inputs)),
        *_parts("depth in the context", depth_standings(inputs)),
    ]
    for one in published_standings(inputs):
        here = "not launched here" if one.here_tok_s is None else f"{one.here_tok_s:.1f} tok/s here"
        lines.append(f"Published by {one.source}: {one.claim} ({here}).")
    failures = failures_of(inputs.records)
    if failures:
        named = ", ".join(f"{one.sentence} ({one.count})" for one in failures)
        lines.append(f"Launches that were not measured: {named}.")
    told = [(name, part) for name, part in inputs.importances.items() if part >= _LEAST_IMPORTANCE]
    if told:
        named = ", ".join(f"{name} {part:.0%}" for name, part in told)
        lines.append(f"What the speed depends on, by Optuna: {named}.")
    stacks = memory_stacks(inputs)
    if stacks is not None:
        lines += [f"Memory: {sentence}" for sentence in stacks.sentences]
    work = decode_work(inputs)
    if work is not None and work.cards:
        lines += work.sentences
    return lines


def _parts(name: str, rows: Sequence[ClassStanding]) -> list[str]:
    """By how much the winner is faster in each class or at each depth, where that is confirmed."""
    lines = []
    for reference in dict.fromkeys(row.reference for row in rows):
        told = [
            f"{row.name} {ratio_words(row.interval)}"
            for row in rows
            if row.reference == reference and row.interval is not None
        ]
        if told:
            lines.append(f"By {name}, against {reference}: {'; '.join(told)}.")
    return lines
