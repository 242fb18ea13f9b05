"""The page as a person has it: in Chromium, on a phone and on a desk, in the light and in the dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from playwright.sync_api import expect

from tests.support.browser import DESKTOP, PHONE, browser, chromium, opened
from tests.support.played_night import played_night
from tuner.report.best import shell_command
from tuner.report.headline import winning
from tuner.report.page.render import render

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

PLOTS = ("plot-ratios", "plot-split", "plot-drafts", "plot-progress", "plot-importance", "plot-memory")
SHOWN = "#rows tbody:not([hidden])"


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    chromium()  # says what to install where there is none
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "a report.html"
    path.write_text(render(played_night(), written="2027-01-16T07:02:11+01:00"), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def page(started: Browser, file: Path) -> Iterator[Page]:
    with opened(started, file) as one:
        yield one.page


def trials(page: Page) -> list[int]:
    """The numbers of the trials that are shown, from top to bottom."""
    found: list[str] = page.eval_on_selector_all(SHOWN, "rows => rows.map(row => row.dataset.trial)")
    return [int(number) for number in found]


def rates(page: Page) -> list[float | None]:
    cells: list[str] = page.eval_on_selector_all(
        f"{SHOWN} td:nth-child(4)", "cells => cells.map(cell => cell.dataset.v)"
    )
    return [float(value) if value else None for value in cells]


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_fetched_nothing_complains_and_nothing_overflows(
    started: Browser, file: Path, size: tuple[int, int], scheme: Literal["dark", "light"]
) -> None:
    with opened(started, file, size=size, scheme=scheme) as one:
        page = one.page
        assert one.fetched == []
        assert one.complaints == []
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]
        for plot in PLOTS:
            box = page.locator(f"#{plot} .main-svg").first.bounding_box()
            assert box is not None
            assert 0 < box["width"] <= size[0]
        # the text is readable: its colour is far from that of the paper
        ink, paper = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        assert contrast(ink, paper) > 7
        told = page.evaluate("getComputedStyle(document.querySelector('#plot-split .xtick text')).fill")
        assert contrast(told, paper) > 7


def test_plots_have_marks(page: Page) -> None:
    night = played_night()
    measured = sum(record.score is not None for record in night.records)
    count = {name: page.locator(f"#{name} .points path").count() for name in PLOTS}
    assert count["plot-split"] == len({r.key for r in night.records if r.candidate and r.score is not None})
    assert count["plot-ratios"] == 4
    assert count["plot-memory"] == 14  # seven parts on two cards
    assert count["plot-importance"] == len(night.importances)
    assert count["plot-drafts"] == 16
    assert count["plot-progress"] >= measured
    assert page.locator("#plot-split .lines path").count() >= 6  # two curves and four walls
    assert page.locator("#plot-split .legendtext", has_text="CUDA0 full (tensor)").count() == 1


def test_hovering_a_split_says_what_lies_where(page: Page) -> None:
    point = page.locator("#plot-split .scatterlayer .trace").first.locator(".points path").first
    point.scroll_into_view_if_needed()
    box = point.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    hover = page.locator("#plot-split .hoverlayer .hovertext")
    hover.wait_for()
    text = hover.first.text_content() or ""
    assert "CUDA0: layers 0 to " in text
    assert "tok/s, trial " in text
    page.mouse.move(0, 0)


def test_the_button_copies_the_command(page: Page) -> None:
    night = played_night()
    winner = winning(night.records, night.confirmation)
    assert winner is not None
    page.click("text=Copy the command")
    page.wait_for_selector("[data-copied]")
    assert page.evaluate("navigator.clipboard.readText()") == shell_command(winner.argv, winner.environment)
    assert page.text_content("#said") == "Copied."


def test_the_button_copies_where_the_clipboard_is_closed(started: Browser, file: Path) -> None:
    with opened(started, file) as one:
        one.page.evaluate(
            "() => { navigator.clipboard.writeText = () => Promise.reject(new Error('closed')); }"
        )
        one.page.click("text=Copy the command")
        one.page.wait_for_selector("[data-copied]")
        copied = one.page.evaluate("navigator.clipboard.readText()")
        assert copied.startswith("llama-server -m '/models/my models/")


def test_the_table_sorts_both_ways_and_what_is_unknown_comes_last(page: Page) -> None:
    assert trials(page) == [record.number for record in played_night().records]
    for order in (True, False):
        page.click("#rows th button:text-is('tok/s')")
        known = [rate for rate in rates(page) if rate is not None]
        assert known == sorted(known, reverse=order)
        assert rates(page)[len(known) :] == [None] * (len(rates(page)) - len(known))
        head = page.locator("#rows th", has_text="tok/s")
        assert head.get_attribute("aria-sort") == ("descending" if order else "ascending")
    page.click("#rows th button:text-is('configuration')")
    names: list[str] = page.eval_on_selector_all(
        f"{SHOWN} td:nth-child(2)", "cells => cells.map(one => one.textContent)"
    )
    assert names[0].startswith("layer")
    assert names[-1].startswith("the engine")
    page.click("#rows th button:text-is('#')")
    assert trials(page) == sorted(trials(page))


def test_the_table_filters_by_words_outcome_and_purpose(page: Page) -> None:
    night = played_night()
    page.fill("#find", "layer q8_0")
    assert trials(page) == [
        r.number for r in night.records if r.candidate and r.candidate.get("split-mode") == "layer"
    ]
    assert page.text_content("#shown") == f"{len(trials(page))} of {len(night.records)} trials"
    page.select_option("#outcome", "out-of-memory")
    assert trials(page) == [2]
    page.fill("#find", "")
    assert trials(page) == [2, 16]
    page.select_option("#outcome", "")
    page.select_option("#purpose", "soak")
    assert trials(page) == [29]
    page.select_option("#purpose", "")
    assert page.text_content("#shown") == "31 trials"


def test_a_trial_opens_with_command_outcome_and_log_and_closes_again(page: Page) -> None:
    record = played_night().records[2]
    button = page.locator("tbody[data-trial='2'] .open")
    button.click()
    more = page.locator("tbody[data-trial='2'] .more")
    more.locator(".log").wait_for()
    assert more.locator(".argv").text_content() == shell_command(record.argv, record.environment)
    assert more.locator(".log").text_content() == played_night().log_tails[2]
    assert "out of memory" in (more.text_content() or "")
    assert button.get_attribute("aria-expanded") == "true"
    more.locator("button").click()
    page.wait_for_selector("tbody[data-trial='2'] [data-copied]")
    assert page.evaluate("navigator.clipboard.readText()") == shell_command(record.argv, record.environment)
    button.click()
    assert more.count() == 0


def test_what_a_trial_shows_fits_on_a_phone(started: Browser, file: Path) -> None:
    with opened(started, file, size=PHONE) as one:
        one.page.click("tbody[data-trial='2'] .open")
        one.page.wait_for_selector("tbody[data-trial='2'] .log")
        assert one.page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        assert one.page.locator("#rows td.wide").first.is_hidden()


def test_a_page_follows_when_it_gets_dark(started: Browser, file: Path) -> None:
    with opened(started, file, scheme="light") as one:
        text = one.page.locator("#plot-split .xtick text").first
        light = text.evaluate("text => getComputedStyle(text).fill")
        one.page.emulate_media(color_scheme="dark")
        expect(text).not_to_have_css("fill", light)
        assert contrast(text.evaluate("text => getComputedStyle(text).fill"), "rgb(13, 17, 23)") > 7
        assert one.complaints == []


def test_a_touch_on_a_plot_still_scrolls_the_page(started: Browser, file: Path) -> None:
    with opened(started, file, size=PHONE) as one:
        plot = one.page.locator("#plot-split")
        plot.scroll_into_view_if_needed()
        box, before = plot.bounding_box(), one.page.evaluate("scrollY")
        assert box is not None
        finger = one.page.context.new_cdp_session(one.page)
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 3}
        finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
        for step in range(1, 16):
            moved = {**at, "y": at["y"] - 10 * step}
            finger.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [moved]})
        finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        assert one.page.evaluate("scrollY") > before + 100


def test_without_scripts_all_figures_can_be_read(started: Browser, file: Path) -> None:
    with opened(started, file, javascript=False) as one:
        assert one.page.locator("noscript p").is_visible()
        assert len(trials_without_scripts(one.page)) == len(played_night().records)
        one.page.locator("#split summary").click()
        assert one.page.locator("#split details table").is_visible()


def trials_without_scripts(page: Page) -> list[str]:
    return page.locator("#rows tbody").all_text_contents()


def contrast(one: str, other: str) -> float:
    """Of two colours as browsers state them, by WCAG 2.2."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear: list[float] = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
