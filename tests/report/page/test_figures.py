"""Plots show what matters where one figure is far from the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.played_night import played_night
from tuner.report.page.figures.bars import memory_figure
from tuner.report.page.figures.lines import ratio_figure
from tuner.report.page.figures.splits import split_figure
from tuner.report.view.memory import memory_stacks
from tuner.report.view.split_speed import split_speed
from tuner.report.view.standings import class_standings, standings
from tuner.search.confirmation.interval import Interval


def test_an_interval_that_two_launches_left_wide_open_does_not_press_the_rest_together() -> None:
    night = played_night()
    rows, classes = standings(night), class_standings(night)
    figure = ratio_figure(rows, classes)
    assert figure is not None
    low, high = figure["layout"]["xaxis"]["range"]
    intervals = [*(row.interval for row in rows), *(row.interval for row in classes)]
    ends = [one for one in intervals if one is not None]
    assert low == pytest.approx(0.9)  # 1, where nothing is faster, is always shown
    assert high == pytest.approx(max(one.high for one in ends) + 0.1)
    wide = Interval(2.0, 1e-6, 1e4, 2, 0.05)
    figure = ratio_figure([replace(rows[1], interval=wide)], [])
    assert figure is not None
    assert figure["layout"]["xaxis"]["range"] == pytest.approx([1 / 3 - 0.1, 6.1])
    assert ratio_figure([replace(rows[1], interval=None)], []) is None


def test_cards_of_about_one_size_are_shown_in_gib_and_others_as_parts_of_themselves() -> None:
    night = played_night()
    section = memory_stacks(night)
    assert section is not None
    figure = memory_figure(section)
    assert figure["layout"]["xaxis"]["title"]["text"] == "GiB"
    sums = [sum(trace["x"][place] for trace in figure["data"]) for place in range(2)]
    assert sums == pytest.approx([card.available_mib / 1024 for card in reversed(section.cards)])  # type: ignore[operator]
    room = {**night.facts["memory"], "free_mib": {"CUDA0": 15_974, "CUDA1": 200_000}}
    section = memory_stacks(replace(night, facts={**night.facts, "memory": room}))
    assert section is not None
    figure = memory_figure(section)
    assert figure["layout"]["xaxis"]["title"]["text"] == "% of what was free"
    sums = [sum(trace["x"][place] for trace in figure["data"]) for place in range(2)]
    assert sums == pytest.approx([100, 100])
    assert {trace["text"][1] for trace in figure["data"]} >= {"reserve: 256 MiB"}


def test_the_axis_of_splits_ends_where_there_is_nothing_more() -> None:
    section = split_speed(played_night())
    assert section is not None
    low, high = split_figure(section)["layout"]["xaxis"]["range"]
    shares = [wall.at_pct for one in section.walls for wall in one.walls]
    assert 0 < low < min(shares)
    assert max(shares) < high < 100
