"""From what a study holds to one HTML file."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2

from tuner.report.page.packed import (
    MOST_BYTES,
    MOST_DETAIL_CHARACTERS,
    packed_details,
    plotly_js,
)
from tuner.report.page.sections import sections_of
from tuner.report.view.method import facts_table, method_sentences, rig_table
from tuner.report.view.trial_rows import trial_rows
from tuner.report.view.verdict import verdict
from tuner.report.words import number

if TYPE_CHECKING:
    from tuner.report.view.inputs import ReportInputs

#: Where the trials' details go, once it is known how much room they have.
_DETAILS = "@details@"


def render(inputs: ReportInputs, *, written: str) -> str:
    """The page.

    Args:
        inputs: What the study holds.
        written: When this is written, ISO 8601 with offset.
    """
    said = verdict(inputs)
    sections = sections_of(inputs)
    rows = trial_rows(inputs)
    plots = {one.plot.id: one.plot.figure for one in sections if one.plot is not None}
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            study=inputs.facts["study"]["name"],
            written=written,
            verdict=said,
            sections=sections,
            trials=rows,
            outcomes=sorted({row.outcome for row in rows}),
            purposes=list(dict.fromkeys(row.purpose for row in rows)),
            method=method_sentences(inputs),
            rig=rig_table(inputs.facts),
            facts=facts_table(inputs.facts),
            style=_asset("report.css"),
            script=_asset("report.js"),
            plots=_json(plots),
            plotly=plotly_js(),
            details=_DETAILS,
        )
    )
    room = MOST_BYTES - len(page.encode())
    details = packed_details(inputs, min(max(room, 0), MOST_DETAIL_CHARACTERS))
    before, _, after = page.rpartition(_DETAILS)
    return f"{before}{details}{after}"


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["figure"] = number
    return environment


def _asset(name: str) -> str:
    return resources.files("tuner.report.page").joinpath("assets", name).read_text(encoding="utf-8")


def _json(value: Any) -> str:  # noqa: ANN401 - whatever JSON holds
    """JSON that may stand in a script element: no text in it can end the element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
