"""The page as a file: what it holds, how large it is, and that it is one."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from html.parser import HTMLParser

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.test_best import FACTS
from tests.report.view.test_slots import CELL
from tests.support.played_night import played_night
from tests.support.strategies import PROPERTY
from tests.support.trials import a_record
from tuner.core.candidate import Candidate
from tuner.report.page.packed import MOST_BYTES, packed, packed_details, unpacked
from tuner.report.page.render import render
from tuner.report.view.inputs import ReportInputs
from tuner.report.view.slots import BuildPoint

WRITTEN = "2027-01-16T07:02:11+01:00"
LAYER = Candidate.of({"device": ("CUDA0", "CUDA1"), "split-mode": "layer", "tensor-split": (10, 21)})


class Read(HTMLParser):
    """Elements that are open at the end, ids, and what refers to something outside."""

    VOID = frozenset({"meta", "link", "input", "br", "option"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.refers: list[str] = []
        self.named: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {name: value or "" for name, value in attrs}
        if tag not in self.VOID:
            self.open.append(tag)
        self.ids += [own["id"]] if "id" in own else []
        self.refers += [own[name] for name in ("src", "href", "srcset", "action") if name in own]
        self.named += [own["aria-label"]] if own.get("role") == "img" else []

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def read(page: str) -> Read:
    parser = Read()
    parser.feed(page)
    return parser


def plots_of(page: str) -> dict[str, dict[str, object]]:
    found = re.search(r'<script type="application/json" id="plots">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    plots: dict[str, dict[str, object]] = json.loads(found[1])
    return plots


@pytest.fixture(scope="module")
def page() -> str:
    return render(played_night(), written=WRITTEN)


def test_it_is_one_file_that_refers_to_nothing_outside(page: str) -> None:
    parser = read(page)
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    inside = {f"#{one}" for one in parser.ids}
    assert {one for one in parser.refers if one not in inside} == {"data:,"}
    assert "default-src 'none'" in page


def test_every_plot_has_an_alt_text_that_says_what_it_shows(page: str) -> None:
    parser, plots = read(page), plots_of(page)
    assert set(plots) == {
        *("plot-ratios", "plot-split", "plot-drafts", "plot-progress", "plot-importance", "plot-memory")
    }
    assert len(parser.named) == len(plots)
    assert all(len(alt) > 40 and alt.endswith(".") for alt in parser.named)


def test_plots_are_what_plotly_takes_once_colours_are_put_in(page: str) -> None:
    for figure in plots_of(page).values():
        coloured = json.loads(re.sub(r'"--[a-z0-9-]+"', '"#000000"', json.dumps(figure)))
        go.Figure(coloured)  # raises for what it does not know


def test_colours_are_in_the_style_sheet_for_light_and_dark(page: str) -> None:
    named = set(re.findall(r'"(--[a-z0-9-]+)"', json.dumps(plots_of(page))))
    assert "--layer" in named
    for name in named:
        assert page.count(f"{name}: #") == 2


@pytest.mark.parametrize(
    "evil", ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a&b\"'<"]
)
def test_no_text_of_a_study_becomes_markup(evil: str) -> None:
    night = played_night()
    facts = {
        **night.facts,
        "study": {**night.facts["study"], "name": evil},
        "devices": [{**device, "description": evil} for device in night.facts["devices"]],
    }
    records = [replace(night.records[1], argv=("llama-server", evil)), *night.records[2:]]
    parser = read(render(replace(night, facts=facts, records=tuple(records)), written=WRITTEN))
    assert parser.open == []
    assert "x" not in parser.refers


def test_the_slots_are_filled_where_there_is_something() -> None:
    builds = tuple(BuildPoint(f"2026-0{n}-01", f"1{n}434", 50.0 + n, None, None, "tensor") for n in (1, 2))
    engines = {"rows": [CELL], "notes": ["A note."]}
    ladder = {
        "rungs": [
            {
                "context": 16_384,
                "is_max": False,
                "configuration": "tensor · 2,3",
                "score_tok_s": 84.0,
                "prompt_tok_s": None,
                "launches": 9,
                "out_of_memory": 0,
                "engine_default_tok_s": None,
                "ratio": None,
                "free_mib": {},
                "command": "llama-server -c 16384",
            }
        ]
    }
    night = replace(played_night(), builds=builds, engines=engines, ladder=ladder)
    page = render(night, written=WRITTEN)
    assert {"engines", "builds", "ladder", "ladder-1"} <= set(read(page).ids)
    assert {"plot-builds", "plot-ladder"} <= set(plots_of(page))


def test_a_study_in_which_nothing_was_launched_yet_has_a_page() -> None:
    page = render(ReportInputs((), FACTS, running=True), written=WRITTEN)
    assert "Nothing was measured yet." in page
    assert read(page).open == []


def test_a_night_of_three_thousand_launches_stays_below_the_limit() -> None:
    dice = random.Random(1)  # noqa: S311 - no secret
    result = played_night().records[1].result
    records = tuple(
        replace(
            a_record(number, LAYER.with_options({"batch-size": number}), result),
            argv=("llama-server", *"-c 8192".split() * 60),
        )
        for number in range(3000)
    )
    logs = {
        number: "\n".join(f"{dice.random()} I slot release: id {dice.random()}" for _ in range(80))
        for number in range(3000)
    }
    facts = {**FACTS, "devices": [{**FACTS["devices"][0], "name": name} for name in ("CUDA0", "CUDA1")]}
    page = render(ReportInputs(records, facts, log_tails=logs), written=WRITTEN)
    assert len(page.encode()) <= MOST_BYTES
    details = re.search(r'id="packed-details">(.*?)</script>', page, re.DOTALL)
    assert details is not None
    assert json.loads(unpacked(details[1]))["2999"]["command"].startswith("llama-server -c 8192")
    assert page.count("<tbody data-trial=") == 3000


def test_logs_are_cut_to_their_ends_where_all_would_be_too_much() -> None:
    night = played_night()
    whole = json.loads(unpacked(packed_details(night)))
    assert whole["4"]["log"] == night.log_tails[4]
    some = packed_details(night, most_characters=len(packed_details(night)) - 1)
    assert json.loads(unpacked(some))["4"]["log"] == ""
    assert json.loads(unpacked(some))["4"]["command"] == whole["4"]["command"]


@PROPERTY
@given(st.text())
def test_what_is_packed_can_be_unpacked(text: str) -> None:
    assert unpacked(packed(text)) == text


def test_pages_of_the_same_study_are_the_same(page: str) -> None:
    assert render(played_night(), written=WRITTEN) == page
