"""The sections of the page: which plot, sentences and tables each has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.report.page.figures.bars import importance_figure, memory_figure
from tuner.report.page.figures.drafts import depth_figure
from tuner.report.page.figures.lines import builds_figure, ladder_figure, ratio_figure
from tuner.report.page.figures.progress import progress_figure
from tuner.report.page.figures.splits import split_figure
from tuner.report.view.card_work import decode_work, work_table
from tuner.report.view.draft_depth import depth_table, draft_depth
from tuner.report.view.memory import memory_stacks, memory_table
from tuner.report.view.progress import failures_table, progress
from tuner.report.view.slots import builds_section, engines_section, ladder_section
from tuner.report.view.split_speed import split_speed, split_table
from tuner.report.view.standings import (
    class_standings,
    depth_standings,
    published_standings,
    standing_cells,
    standings,
)
from tuner.report.view.table import Table, table
from tuner.report.view.workers import workers_table
from tuner.report.words import number, ratio_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.report.page.figures.parts import Figure
    from tuner.report.view.inputs import ReportInputs
    from tuner.report.view.standings import ClassStanding, PublishedStanding, Standing


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot with what stands for it where it cannot be seen."""

    id: str
    alt: str
    figure: Figure
    figures: Table | None
    """The same as a table, to be opened."""

    @property
    def height(self) -> int:
        """Pixels, reserved before it is drawn so that nothing jumps."""
        return int(self.figure["layout"].get("height", 380))


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the page."""

    id: str
    title: str
    lead: str = ""
    plot: Plot | None = None
    sentences: tuple[str, ...] = ()
    tables: tuple[tuple[str, Table], ...] = ()
    """Each with its caption."""
    commands: tuple[tuple[str, str], ...] = ()
    """Commands to copy, each with what it is for."""


def sections_of(inputs: ReportInputs) -> list[Section]:
    """The sections for which a study has something, in the page's order."""
    found = (
        _standings(inputs),
        _splits(inputs),
        _drafts(inputs),
        _ladder(inputs),
        _engines(inputs),
        _builds(inputs),
        _progress(inputs),
        _importances(inputs),
        _memory(inputs),
        _work(inputs),
        _workers(inputs),
    )
    return [section for section in found if section is not None]


def _standings(inputs: ReportInputs) -> Section | None:
    rows = standings(inputs)
    if not rows:
        return None
    classes, depths, owners = class_standings(inputs), depth_standings(inputs), published_standings(inputs)
    figure = ratio_figure(rows, classes)
    tables = [("", _standings_table(rows))]
    if classes:
        tables.append(("By class of prompts", _parts_table("class", classes)))
    if depths:
        tables.append(("By depth in the context", _parts_table("depth", depths)))
    if owners:
        tables.append(("What owners of such cards published, which nobody checked", _owners_table(owners)))
    alt = "By how much the winner is faster: " + "; ".join(
        f"than {row.configuration}, {row.ratio}" for row in rows if row.interval is not None
    )
    return Section(
        "references",
        "Against what it was compared with",
        plot=None if figure is None else Plot("plot-ratios", f"{alt}.", figure, None),
        tables=tuple(tables),
    )


def _standings_table(rows: Sequence[Standing]) -> Table:
    return table(
        "what|configuration|>tok/s|>prompt|>TTFT|>accepted|the winner is",
        [
            (
                row.role,
                row.configuration + (f": {row.failure}" if row.failure else ""),
                *standing_cells(row),
                "" if row.role == "winner" else row.ratio,
            )
            for row in rows
        ],
    )


def _parts_table(name: str, rows: Sequence[ClassStanding]) -> Table:
    return table(
        f"{name}|>winner, tok/s|>accepted|>reference, tok/s|reference|the winner is",
        [
            (
                row.name,
                number(row.winner_tok_s, ".1f"),
                number(row.winner_acceptance, ".0%"),
                number(row.reference_tok_s, ".1f"),
                row.reference,
                "-" if row.interval is None else ratio_words(row.interval),
            )
            for row in rows
        ],
    )


def _owners_table(rows: Sequence[PublishedStanding]) -> Table:
    return table(
        "source|claim|options|>here, tok/s",
        [
            (
                row.source,
                row.claim,
                row.options,
                "not launched" if row.here_tok_s is None else f"{row.here_tok_s:.1f}",
            )
            for row in rows
        ],
    )


def _splits(inputs: ReportInputs) -> Section | None:
    section = split_speed(inputs)
    if section is None:
        return None
    return Section(
        "split",
        "Speed against split",
        lead="The fastest that was measured at each split, one curve a split mode; paler points are slower "
        "candidates at the same split. Touch or hover a point for what lies where.",
        plot=Plot("plot-split", section.alt, split_figure(section), split_table(section)),
        sentences=section.sentences,
    )


def _drafts(inputs: ReportInputs) -> Section | None:
    section = draft_depth(inputs)
    if section is None:
        return None
    return Section(
        "drafts",
        "Draft depth",
        lead="The fastest that was measured at each depth, one curve a split mode, and how many of the drafted "
        "tokens were accepted.",
        plot=Plot("plot-drafts", section.alt, depth_figure(section), depth_table(section)),
    )


def _ladder(inputs: ReportInputs) -> Section | None:
    section = None if inputs.ladder is None else ladder_section(inputs.ladder)
    if section is None:
        return None
    return Section(
        "ladder",
        "What more context costs",
        plot=Plot("plot-ladder", section.alt, ladder_figure(section), None),
        tables=(("", section.figures),),
        commands=tuple(
            (f"{rung.context:,} tokens", rung.command) for rung in section.rungs if rung.command is not None
        ),
    )


def _engines(inputs: ReportInputs) -> Section | None:
    section = None if inputs.engines is None else engines_section(inputs.engines)
    if section is None:
        return None
    return Section("engines", "Engine by file", tables=(("", section.figures),), sentences=section.sentences)


def _builds(inputs: ReportInputs) -> Section | None:
    section = builds_section(inputs.builds)
    if section is None:
        return None
    return Section(
        "builds",
        "From build to build",
        lead="What was best on this rig, build by build.",
        plot=Plot("plot-builds", section.alt, builds_figure(section), section.figures),
    )


def _progress(inputs: ReportInputs) -> Section | None:
    section = progress(inputs)
    if not section.events:
        return None
    made = ", ".join(f"{count} to {purpose}" for purpose, count in section.counts)
    return Section(
        "progress",
        "Over the night",
        lead=f"{len(section.events)} launches: {made}.",
        plot=Plot("plot-progress", section.alt, progress_figure(section), None),
        sentences=section.not_launched,
        tables=(("Launches that were not measured", failures_table(section)),) if section.failures else (),
    )


def _importances(inputs: ReportInputs) -> Section:
    title = "What the speed depends on"
    if not inputs.importances:
        return Section("importance", title, lead="Too few candidates were measured to tell parameters apart.")
    said = ", ".join(f"{name} {part:.0%}" for name, part in inputs.importances.items())
    return Section(
        "importance",
        title,
        lead="How much each parameter decides whether a candidate is among the fastest tenth of those that were "
        "measured, by Optuna (PED-ANOVA). A search looks mostly where it is fast, so this tells of that region.",
        plot=Plot(
            "plot-importance",
            f"How much each parameter decides whether a candidate is among the fastest: {said}.",
            importance_figure(inputs.importances),
            table("parameter|>part", [(name, f"{part:.0%}") for name, part in inputs.importances.items()]),
        ),
    )


def _memory(inputs: ReportInputs) -> Section | None:
    section = memory_stacks(inputs)
    if section is None:
        return None
    return Section(
        "memory",
        "Memory of each card",
        lead="What the winner was predicted to take, part by part; the KV cache holds recurrent states too, overhead "
        "is what no line of the engine names.",
        plot=Plot("plot-memory", section.alt, memory_figure(section), memory_table(section)),
        sentences=section.sentences,
    )


def _work(inputs: ReportInputs) -> Section | None:
    section = decode_work(inputs)
    if section is None:
        return None
    return Section(
        "cards",
        "What each card did",
        sentences=section.sentences,
        tables=(("", work_table(section)),) if section.cards else (),
    )


def _workers(inputs: ReportInputs) -> Section | None:
    if not inputs.workers:
        return None
    return Section(
        "workers",
        "Who took part",
        lead="Every machine that worked on this study; each has measured the references on its own rig first.",
        tables=(("", workers_table(inputs.workers)),),
    )
