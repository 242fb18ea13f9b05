"""Runs the command `tuner` on the fake engine, in a folder of the test's own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import psutil

from tests.support.fake_engine import FakeEngine
from tests.support.gguf_files import write_gguf
from tuner.cli.app import main
from tuner.study import StudyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from tuner.core.outcome import Kind
    from tuner.core.trial import TrialRecord

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60.0
_POLL_S = 0.01


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it said."""

    code: object
    stdout: str
    stderr: str


class TunerCommand:
    """`tuner tune` on the fake, as quick as can be: one short request a launch, no modelled time is real, and
    nothing is proved.

    Locks, temporary files and what launches teach about the rig go to the test's folder too, so that tests do not
    meet each other.
    """

    def __init__(self, folder: Path, fake: FakeEngine | None = None) -> None:
        self.folder = folder
        self.fake = FakeEngine(folder) if fake is None else fake
        self.model = write_gguf(folder / "small.gguf")
        self.results = folder / "results"
        self.study = self.results / "mine"
        (folder / "tmp").mkdir(exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        changing = ("LLAMA_", "GGML_", "TUNER_", "PG")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(changing)}
        own = {
            "TMPDIR": str(self.folder / "tmp"),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "COLUMNS": "160",
        }
        return self.fake.environment(kept) | own

    def words(self, *options: str, model: Path | None = None, space: str = "quick") -> list[str]:
        """The words of `tuner tune` behind the program; an option that is given again wins, `--server` too."""
        server = () if "--server" in options else ("--server", str(self.fake.path))
        return [
            *("tune", str(model or self.model), *server, "--space", space),
            *("--study", "mine", "--results", str(self.results), "--context", "2048"),
            *("--prompts", "short", "--requests", "1", "--tokens", "8", "--yes"),
            *("--confirm", "0", "--endure", "off", "--quality", "off", *options),
        ]

    def run(self, *words: str) -> Ended:
        """A command to its end, in this process: starting Python would take longer than most commands do."""
        said, complained = io.StringIO(), io.StringIO()
        with ExitStack() as stack:
            stack.enter_context(patch.dict(os.environ, self.environment, clear=True))
            stack.enter_context(patch.object(tempfile, "tempdir", str(self.folder / "tmp")))
            stack.enter_context(patch.object(sys, "argv", ["tuner", *words]))
            stack.enter_context(redirect_stdout(said))
            stack.enter_context(redirect_stderr(complained))
            code: object = 0
            try:
                main()
            except SystemExit as end:
                code = end.code
        return Ended(code, said.getvalue(), complained.getvalue())

    def run_apart(self, *words: str) -> Ended:
        """As `run`, in a process of its own."""
        ended = subprocess.run(
            [sys.executable, "-m", "tuner", *words],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def tune(self, *options: str, space: str = "quick") -> Ended:
        """A run that is to end well."""
        ended = self.run(*self.words(*options, space=space))
        assert ended.code == 0, ended
        return ended

    def started(self, *options: str, space: str = "quick") -> AbstractContextManager[subprocess.Popen[bytes]]:
        """A run that goes on, killed at the end if it still does."""
        return self.going_on(self.words(*options, space=space))

    @contextmanager
    def going_on(self, words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """A command that goes on, killed at the end if it still does."""
        with (self.folder / "tuner.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "tuner", *words],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait(DEADLINE_S)

    def launches(self) -> list[dict[str, Any]]:
        """Starts of servers, without those that were only asked for their help or devices."""
        return [event for event in self.fake.events("start") if "-m" in event["argv"]]

    def records(self) -> list[TrialRecord]:
        return StudyStore.open(self.study / "study.db").records()

    def best(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.study / "best.json").read_text(encoding="utf-8"))
        return document

    def wait_until(self, met: Callable[[], object]) -> None:
        """Wait for something that a started run does."""
        end_s = time.monotonic() + DEADLINE_S
        while not met():
            assert time.monotonic() < end_s, (self.folder / "tuner.log").read_text(encoding="utf-8")
            time.sleep(_POLL_S)


@dataclass(frozen=True, slots=True)
class Made:
    """A study that exists, and what was said while it was made."""

    command: TunerCommand
    said: str


def make_study(command: TunerCommand, launches: int) -> Made:
    """Go on with a study in the default space; drafts do not help, the slow card alone is too small."""
    command.fake = FakeEngine(command.folder).always(draft_acceptance=0)
    command.fake.when({"device": "CUDA1"}, oom={"stage": "kv", "device": 0, "mib": 512})
    return Made(command, command.tune("--launches", str(launches), space="dual-gpu").stdout)


def read(command: TunerCommand, *words: str) -> str:
    """What a command says that reads studies; it has to end well and complain of nothing."""
    ended = command.run(*words, "--results", str(command.results))
    assert (ended.code, ended.stderr) == (0, ""), ended.stderr
    return ended.stdout


def kinds(records: list[TrialRecord]) -> list[Kind | None]:
    """How trials ended; None for one that runs."""
    return [None if record.outcome is None else record.outcome.kind for record in records]


def lives(event: dict[str, Any]) -> bool:
    """Whether the server of a start event still runs."""
    try:
        return psutil.Process(event["pid"]).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def assert_refused(ended: Ended, *parts: str) -> None:
    """One line that says what, where and what to do; no traceback."""
    assert ended.code == 2, ended
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: ")
    for part in parts:
        assert part in line
