"""`tuner report` on studies of the fake engine."""

from __future__ import annotations

import html
import json
import re
import sqlite3
from typing import TYPE_CHECKING

from tests.report.view.test_slots import CELL
from tests.support.tuner_command import Made, TunerCommand, assert_refused
from tuner.report.page.packed import unpacked

if TYPE_CHECKING:
    from pathlib import Path


def details(page: str) -> dict[str, dict[str, str]]:
    found = re.search(r'id="packed-details">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    read: dict[str, dict[str, str]] = json.loads(unpacked(found[1]))
    return read


def written(command: TunerCommand, *words: str) -> str:
    ended = command.run("report", "mine", "--results", str(command.results), *words)
    assert (ended.code, ended.stderr) == (0, "")
    return ended.stdout


def test_a_study_becomes_one_page_in_its_folder(made: Made) -> None:
    said = written(made.command)
    path = made.command.study / "report.html"
    page = html.unescape(path.read_text(encoding="utf-8"))
    assert said == f"Written: {path} ({path.stat().st_size / 1e6:.1f} MB)\n"
    best = made.command.best()["winner"]
    records = made.command.records()
    shown = details(page)
    assert list(shown) == [str(record.number) for record in records]
    assert shown[str(best["trial"])]["command"] == best["command"]
    lost = next(record for record in records if record.outcome and record.score is None)
    assert "out of memory" in shown[str(lost.number)]["evidence"]
    assert shown[str(lost.number)]["log"].strip()
    for part in (
        "Speed against split",
        "fills a card with layer",
        "Memory of each card",
        "Every trial",
        "no run is going on",
    ):
        assert part in page


def test_what_stands_in_the_page_can_be_written_elsewhere(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "some where" / "r.html"
    path.parent.mkdir()
    assert str(path) in written(made.command, "-o", str(path))
    assert path.read_text(encoding="utf-8").endswith("</html>\n")


def test_a_page_changes_nothing_else(made: Made) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in made.command.results.rglob("*")
            if path.is_file() and path.name != "report.html"
        }

    before = state()
    written(made.command)
    assert state() == before


def test_no_page_is_written_where_there_is_no_study_or_no_place(made: Made, tmp_path: Path) -> None:
    results = str(made.command.results)
    assert_refused(
        made.command.run("report", "nothing", "--results", results), "nothing: no study there", "mine"
    )
    lost = tmp_path / "no folder" / "r.html"
    assert_refused(
        made.command.run("report", "mine", "--results", results, "-o", str(lost)),
        str(lost),
        "cannot be written",
    )
    assert not lost.exists()


def test_a_run_that_goes_on_can_be_looked_at(command: TunerCommand) -> None:
    command.fake.always(load_s=0.3)
    with command.started("--launches", "40") as process:
        command.wait_until((command.study / "best.json").is_file)
        written(command)
        page = (command.study / "report.html").read_text(encoding="utf-8")
        assert process.poll() is None
    assert "The run is going on: " in page
    process.wait(60)
    written(command)
    assert "no run is going on" in (command.study / "report.html").read_text(encoding="utf-8")


def test_before_the_first_measurement_there_is_a_page_too(command: TunerCommand) -> None:
    command.fake.always(oom={"stage": "weights", "device": 0})
    command.run(*command.words("--launches", "1"))
    written(command)
    page = (command.study / "report.html").read_text(encoding="utf-8")
    assert "Nothing could be measured" in page
    assert '<pre id="command"' not in page


def test_a_model_that_is_gone_leaves_all_but_the_walls(command: TunerCommand) -> None:
    command.tune("--launches", "3", space="dual-gpu")
    command.model.unlink()
    written(command)
    page = (command.study / "report.html").read_text(encoding="utf-8")
    assert "the model's file cannot be read any more" in html.unescape(page)
    assert "Memory of each card" in page


def test_of_a_ladder_each_context_has_a_page_with_the_whole_ladder(command: TunerCommand) -> None:
    command.tune("--context", "1k,2k", "--launches", "3")
    said = written(command)
    paths = [command.study / context / "report.html" for context in ("1024", "2048")]
    assert [line.split()[1] for line in said.splitlines()] == [str(path) for path in paths]
    for path in paths:
        page = path.read_text(encoding="utf-8")
        assert "What more context costs" in page
        assert page.count("<summary>The command for ") == 2
    ended = command.run("report", "mine", "--results", str(command.results), "-o", "r.html")
    assert_refused(ended, "--output", "has a page for each context")


def test_a_study_of_several_shows_the_table_of_all(command: TunerCommand) -> None:
    command.tune("--launches", "2")
    table = command.results / "table.json"
    table.write_text(json.dumps({"rows": [CELL], "notes": []}), encoding="utf-8")
    written(command)
    path = command.study / "report.html"
    assert "Engine by file" not in path.read_text(encoding="utf-8")  # it is of other studies
    table.write_text(json.dumps({"rows": [CELL, {**CELL, "name": "mine"}], "notes": []}), encoding="utf-8")
    written(command)
    assert "Engine by file" in path.read_text(encoding="utf-8")


def test_the_log_of_a_trial_that_has_not_ended_is_not_in_the_page(command: TunerCommand) -> None:
    """What an engine quotes of somebody's prompts is taken out of its log once its server has ended."""
    command.tune("--launches", "2")
    log = command.study / "trials" / "1" / "server.log"
    log.write_text("what the engine quotes", encoding="utf-8")
    path = command.study / "report.html"
    written(command)
    assert details(path.read_text(encoding="utf-8"))["1"]["log"] == "what the engine quotes"
    with sqlite3.connect(command.study / "study.db") as database:  # as a killed tuner would have left it
        database.execute("UPDATE trials SET state = 'RUNNING' WHERE number = 1")
    written(command)
    assert details(path.read_text(encoding="utf-8"))["1"]["log"] == ""


def test_what_was_best_with_another_build_is_drawn_beside_it(command: TunerCommand) -> None:
    words = command.words("--launches", "2", "--facts", str(command.folder / "facts"))
    assert command.run(*words).code == 0
    assert "From build to build" not in _page(command)
    (path,) = (command.folder / "facts").glob("history-*.json")
    document = json.loads(path.read_text(encoding="utf-8"))
    (own,) = document["entries"]
    before = {**own, "study": "before", "date": "2026-01-01T00:00:00+00:00", "engine_digest": "0" * 64}
    another = {**before, "study": "another", "context": own["context"] * 2}
    document["entries"] = [before, another, own]
    path.write_text(json.dumps(document), encoding="utf-8")
    page = _page(command)
    assert "From build to build" in page
    assert page.count("[00000000]") > 0
    assert "another" not in page.partition("From build to build")[2].partition("</section>")[0]


def _page(command: TunerCommand) -> str:
    written(command, "--facts", str(command.folder / "facts"))
    return html.unescape((command.study / "report.html").read_text(encoding="utf-8"))
