"""The report of a real study of the real pair, while it is made and after it, in a real browser."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import DESKTOP, PHONE, browser, opened
from tests.support.rpc_pair import FAST_LIMIT_BYTES, RpcPair
from tuner.core.outcome import Kind
from tuner.report.best import shell_command
from tuner.search.confirmation.result import winner_of
from tuner.study import StudyStore

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]
DEADLINE_S = 540.0


def tune(tmp_path: Path, server: Path, model: Path, pair: RpcPair) -> list[str]:
    return [
        *(sys.executable, "-m", "tuner", "tune", str(model), "--server", str(server), "--space", "demo"),
        *("--study", "pair", "--results", str(tmp_path), "--context", "8192", "--prompts", "short"),
        # more than it has, so that something that cannot fit is launched
        *("--device-memory", f"RPC0={FAST_LIMIT_BYTES // 2**20 + 90}", "--facts", str(tmp_path / "facts")),
        *("--requests", "2", "--tokens", "16", "--launches", "5", "--confirm", "2", "--yes"),
        *("--endure", "off", "--quality", "off", "--", "--rpc", pair.endpoints),
    ]


def report(tmp_path: Path, environment: dict[str, str]) -> Path:
    argv = [sys.executable, "-m", "tuner", "report", str(tmp_path / "pair")]
    run = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    path = tmp_path / "pair" / "report.html"
    assert path.stat().st_size < 6_000_000
    return path


def test_a_real_study_is_shown_while_it_is_made_and_after_it(
    tmp_path: Path, llama_server_path: Path, smollm2_path: Path, rpc_pair: RpcPair
) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    end_s = time.monotonic() + DEADLINE_S
    log_path = tmp_path / "tune.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            tune(tmp_path, llama_server_path, smollm2_path, rpc_pair),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        while not (tmp_path / "pair" / "best.json").is_file():
            assert process.poll() is None, log_path.read_text(encoding="utf-8")
            assert time.monotonic() < end_s
            time.sleep(0.1)
        early = report(tmp_path, environment).read_text(encoding="utf-8")
        assert process.wait(max(end_s - time.monotonic(), 0.0)) == 0, log_path.read_text(encoding="utf-8")
    finally:
        process.kill()
        process.wait(60)
    assert "The run is going on: " in early

    path = report(tmp_path, environment)
    store = StudyStore.open(tmp_path / "pair" / "study.db")
    records = store.records()
    key = winner_of(store.confirmation(), records)
    winner = next(record for record in records if record.key == key)
    lost = next(r for r in records if r.outcome is not None and r.outcome.kind is Kind.OUT_OF_MEMORY)
    candidates = {r.key for r in records if r.candidate is not None and r.score is not None}
    with browser() as started:
        for size in (DESKTOP, PHONE):
            with opened(started, path, size=size) as one:
                page = one.page
                assert (one.fetched, one.complaints) == ([], [])
                assert page.evaluate("document.documentElement.scrollWidth") == size[0]
                assert page.locator("#plot-split .points path").count() == len(candidates)
                assert page.locator("#plot-progress .points path").count() >= len(records)
                assert page.locator("#rows tbody").count() == len(records)
                page.click("text=Copy the command")
                page.wait_for_selector("[data-copied]")
                copied = page.evaluate("navigator.clipboard.readText()")
                assert copied == shell_command(winner.argv, winner.environment)
        with opened(started, path) as one:
            page = one.page
            page.select_option("#outcome", Kind.OUT_OF_MEMORY.value)
            assert page.locator("#rows tbody:not([hidden])").count() >= 1
            page.click(f"tbody[data-trial='{lost.number}'] .open")
            shown = page.locator(f"tbody[data-trial='{lost.number}'] .log")
            shown.wait_for()
            kept = (tmp_path / "pair" / "trials" / str(lost.number) / "server.log").read_text(
                encoding="utf-8"
            )
            assert (shown.text_content() or "").strip() in kept
            assert page.get_by_text("No driver reports what these devices do").is_visible()
