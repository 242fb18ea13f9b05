"""`--on-improvement` and `--on-finish`: commands of the user's that a run tells what it has found."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.errors import TunerError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

#: Between two launches: a command that takes its time costs the study's.
IMPROVEMENT_S = 60.0
FINISH_S = 600.0


@dataclass(slots=True)
class Finish:
    """How a run ends, told by the run."""

    started: bool = False
    """Whether it came so far that somebody waits for it."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Notifier:
    """Runs the user's commands; what goes wrong with one is said and costs no night."""

    on_improvement: str | None
    on_finish: str | None
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        """Refuse commands that are none.

        Raises:
            UsageError: One is empty.
        """
        for name, command in (("--on-improvement", self.on_improvement), ("--on-finish", self.on_finish)):
            if command is not None and not command.strip():
                raise UsageError(f"{name}: is empty; give a command, such as {name} 'cat > result.json'")

    def improvements(
        self, known: Mapping[str, Any] | None, study: Path
    ) -> Callable[[Mapping[str, Any]], None]:
        """What is told each new state of best.json, and runs the command when it names another configuration.

        Args:
            known: best.json before the run goes on; None where there was none.
            study: The study's folder.
        """
        last = [_configuration(known)]

        def improved(document: Mapping[str, Any]) -> None:
            configuration = _configuration(document)
            if configuration is None or configuration == last[0]:
                return
            last[0] = configuration
            if self.on_improvement is not None:
                self._tell("--on-improvement", self.on_improvement, document, IMPROVEMENT_S, {"STUDY": study})

        return improved

    @contextlib.contextmanager
    def finishing(self, result: Path) -> Iterator[Finish]:
        """Run the command when what is inside has ended, however it ends, if it had started.

        Args:
            result: The JSON that is told: of a study, of a ladder or of a race.
        """
        finish = Finish()
        try:
            yield finish
        except TunerError as error:
            finish.why = str(error)
            raise
        finally:
            if finish.started and self.on_finish is not None:
                self._tell(
                    "--on-finish",
                    self.on_finish,
                    _read(result),
                    FINISH_S,
                    {"STUDY": result.parent, "WHY": finish.why},
                )

    def _tell(
        self, name: str, command: str, document: object, limit_s: float, more: Mapping[str, str | Path]
    ) -> None:
        event = name.removeprefix("--on-")
        variables = {f"SPLIT_RATIO_{key}": str(value) for key, value in {"EVENT": event, **more}.items()}
        text = json.dumps(document, ensure_ascii=False) + "\n"
        problem = _run(command, text, {**os.environ, **variables}, limit_s)
        if problem is not None:
            self.say(f"{name} {command!r} {problem}")


def _configuration(document: Mapping[str, Any] | None) -> str | None:
    """What best.json names; None for a reference, which is no improvement on itself."""
    if document is None or document["winner"]["reference"] is not None:
        return None
    return json.dumps(document["winner"]["parameters"], sort_keys=True)


def _read(path: Path) -> object:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # nothing was measured


def _run(command: str, text: str, environment: Mapping[str, str], limit_s: float) -> str | None:
    """A command by the shell, with a text on its standard input; what went wrong, or None."""
    try:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            env=environment,
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the tuner
        )
    except OSError as error:
        return f"cannot be started: {error.strerror or error}"
    try:
        process.communicate(text.encode(), timeout=limit_s)
    except subprocess.TimeoutExpired:
        return f"did not end within {limit_s:.0f} s and was ended"
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return None if process.returncode == 0 else f"ended with {process.returncode}"
