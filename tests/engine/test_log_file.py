"""A server that talks without end fills no disk, and its first and last words are kept."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Self

import pytest

from tuner.engine import log_file
from tuner.engine.log_file import MIB, CappedLog

if TYPE_CHECKING:
    from pathlib import Path

CAP_BYTES = 2 * MIB
KEPT_BYTES = MIB // 4
MARK = re.compile(r"^\[(\d+) MiB of log left out here\]$", re.MULTILINE)
DEADLINE_S = 20.0

#: Writes so many MiB of numbered lines; pauses while its log is above the cap, as a slower server would.
CHATTY = f"""
import os, sys, time
print("first words", flush=True)
end = time.monotonic() + {DEADLINE_S}
for number in range(int(sys.argv[1])):
    os.write(1, (f"chunk {{number:7}} ".ljust(127, "x") + "\\n").encode() * 8192)
    while os.fstat(1).st_size > {CAP_BYTES} and time.monotonic() < end:
        time.sleep(0.0005)
print("last words", flush=True)
"""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "CAP_BYTES", CAP_BYTES)
    monkeypatch.setattr(log_file, "KEPT_BYTES", KEPT_BYTES)
    monkeypatch.setattr(log_file, "LOOK_EVERY_S", 0.001)


@pytest.fixture
def log(tmp_path: Path) -> CappedLog:
    return CappedLog(tmp_path / "server.log")


def run_chatty(log: CappedLog, mib: int) -> None:
    with log.open() as file:
        subprocess.run(
            [sys.executable, "-c", CHATTY, str(mib)], stdout=file, timeout=DEADLINE_S + 5, check=True
        )


class Looker:
    """Looks at the log all the time, from another thread."""

    def __init__(self, log: CappedLog) -> None:
        self.on_disk: list[int] = []
        self.sizes: list[int] = []
        self._log = log
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(DEADLINE_S)

    def _look(self) -> None:
        while not self._done.wait(0.0005):
            if self._log.path.exists():
                self.on_disk.append(self._log.path.stat().st_size)
                self.sizes.append(self._log.size())


def test_a_hundred_mib_never_lie_on_the_disk_and_both_ends_are_kept(log: CappedLog) -> None:
    with Looker(log) as looker, log:
        run_chatty(log, 100)
    assert max(looker.on_disk) <= CAP_BYTES + MIB  # what is written at once
    assert log.path.stat().st_size <= CAP_BYTES
    text = log.text()
    assert text.startswith("first words\nchunk       0 ")
    assert text.endswith("last words\n")
    assert "chunk      99 " in text
    (missing,) = MARK.findall(text)
    assert int(missing) == pytest.approx(100 - len(text) / MIB, abs=1.0)


def test_size_is_of_all_that_was_written_and_only_grows(log: CappedLog) -> None:
    with Looker(log) as looker, log:
        run_chatty(log, 30)
    assert looker.sizes == sorted(looker.sizes)
    assert len(set(looker.sizes)) > 10
    assert 30 * MIB <= log.size() < 30.1 * MIB


def test_log_below_the_cap_is_left_as_it_is(log: CappedLog) -> None:
    said = b"x" * CAP_BYTES
    with log, log.open() as file:
        file.write(said)
    assert log.path.read_bytes() == said
    assert log.size() == len(said)


def test_what_came_since_the_last_look_is_cut_at_the_end(
    log: CappedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_file, "LOOK_EVERY_S", 60.0)
    start = time.monotonic()
    with log:
        run_chatty_at_once(log)
    assert time.monotonic() - start < 10
    assert 2 * KEPT_BYTES < log.path.stat().st_size < 2 * KEPT_BYTES + 100
    assert MARK.findall(log.text()) == ["8"]


def run_chatty_at_once(log: CappedLog) -> None:
    with log.open() as file:
        file.write(b"first\n" + b"x" * 8 * MIB + b"\nlast\n")


def test_a_new_log_is_empty(log: CappedLog) -> None:
    log.path.write_text("of an earlier server\n", encoding="utf-8")
    log.open().close()
    assert (log.text(), log.size()) == ("", 0)


def test_log_whose_file_is_gone_ends_nothing(log: CappedLog) -> None:
    with log:
        log.open().close()
        log.path.unlink()
