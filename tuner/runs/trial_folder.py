"""The folder of one trial: what was launched, as which process, what came of it; on disk at each step."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.launch import LaunchResult
from tuner.core.soak import Soaked
from tuner.core.telemetry import GpuReading
from tuner.errors import ResultsError
from tuner.study import Kept

if TYPE_CHECKING:
    from tuner.core.launch import LaunchPlan, LaunchSpec
    from tuner.core.memory.need import Prediction


_HALF_WRITTEN = ".new"
#: So much of a log's end is kept with the study.
LOG_TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True)
class LaunchedProcess:
    """What the journal knows of a server that was, or was about to be, started."""

    pid: int
    """0 where the tuner died before it could write it down."""
    started_at: float
    token: str


@dataclass(frozen=True, slots=True)
class TrialFolder:
    """`results/<study>/trials/<number>/`.

    `launch.json` is written before the launch, `process.json` right after it, `result.json` when it has
    ended.
    """

    path: Path

    @classmethod
    def of(cls, study_folder: Path, number: int) -> TrialFolder:
        """The folder of a trial; it need not exist."""
        return cls(study_folder / "trials" / str(number))

    @property
    def log_path(self) -> Path:
        """Where the server's output goes."""
        return self.path / "server.log"

    def log_tail(self) -> str:
        """The end of the server's output, in whole lines; empty where there is none."""
        try:
            with self.log_path.open("rb") as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(size - LOG_TAIL_BYTES, 0))
                tail = stream.read(LOG_TAIL_BYTES)
        except OSError:
            return ""
        if size > LOG_TAIL_BYTES:
            tail = tail.partition(b"\n")[2] or tail
        return tail.decode("utf-8", errors="replace").replace("\0", "")  # no database keeps a zero in a text

    def kept(self) -> Kept:
        """What readers on other hosts see of it."""
        return Kept(self.log_tail(), self.predicted_mib())

    def journal(self, spec: LaunchSpec, plan: LaunchPlan, prediction: Prediction | None = None) -> None:
        """Write down what is about to be launched, and what memory it is expected to need.

        Raises:
            ResultsError: It cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultsError(f"{self.path} cannot be made: {error.strerror or error}") from error
        write_json(
            self.path / "launch.json",
            {
                "label": spec.label,
                "candidate": None if spec.candidate is None else spec.candidate.to_json(),
                "reference": spec.reference,
                "argv": list(plan.argv),
                "environment": dict(plan.environment_changes),
                "token": plan.token,
                "memory_mib": None if prediction is None else prediction.to_json(),
            },
        )

    def record_process(self, pid: int, started_at: float) -> None:
        """Write down which process was started."""
        write_json(self.path / "process.json", {"pid": pid, "started_at": started_at})

    def record_result(self, result: LaunchResult, wall_s: float) -> None:
        """Write down what came of it, with every answer whose text it holds."""
        write_json(self.path / "result.json", {**result.to_json(), "wall_s": wall_s})

    def process(self) -> LaunchedProcess | None:
        """What was, or was about to be, started; None where nothing was."""
        launch = _read_json(self.path / "launch.json")
        if launch is None:
            return None
        process = _read_json(self.path / "process.json") or {}
        return LaunchedProcess(
            pid=int(process.get("pid", 0)),
            started_at=float(process.get("started_at", 0.0)),
            token=str(launch.get("token", "")),
        )

    def result(self) -> tuple[LaunchResult, float] | None:
        """What came of it and how long it took in seconds; None where it has no end on disk."""
        document = _read_json(self.path / "result.json")
        if document is None:
            return None
        try:
            return LaunchResult.from_json(document), float(document["wall_s"])
        except (KeyError, TypeError, ValueError):
            return None

    def predicted_mib(self) -> dict[str, dict[str, float]]:
        """What memory it was expected to need, by device and part; empty where nothing was predicted."""
        launch = _read_json(self.path / "launch.json") or {}
        prediction = launch.get("memory_mib") or {}
        devices: dict[str, dict[str, float]] = prediction.get("devices", {})
        return devices

    def readings(self) -> tuple[GpuReading, ...]:
        """What the driver said of each card from the start of the server on; empty where it said nothing."""
        found = []
        try:
            lines = (self.path / "telemetry.jsonl").read_text(encoding="utf-8").splitlines()
        except OSError:
            return ()
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):  # a line that a full disk has cut
                found.append(GpuReading.from_json(json.loads(line)))
        return tuple(found)

    def record_soaked(self, soaked: Soaked) -> None:
        """Write down what it has gone through so far; it may go on for hours."""
        write_json(self.path / "soak.json", soaked.to_json())

    def soaked(self) -> Soaked | None:
        """What it had gone through when it was last written down; None where nothing was."""
        document = _read_json(self.path / "soak.json")
        try:
            return None if document is None else Soaked.from_json(document)
        except TypeError:
            return None


def write_json(path: Path, document: Any) -> None:  # noqa: ANN401 - whatever JSON holds
    """Write a file so that at every moment it is the old one or the new one, whole.

    Raises:
        ResultsError: It cannot be written.
    """
    write_text(path, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """As `write_json`, for any text.

    Raises:
        ResultsError: It cannot be written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_HALF_WRITTEN)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ResultsError(f"{path} cannot be written: {error.strerror or error}") from error


def remove_half_written(study_folder: Path) -> None:
    """Remove what a killed tuner was writing; the caller holds the study."""
    for folder in (study_folder, *(study_folder / "trials").glob("*")):
        for path in folder.glob(f".*{_HALF_WRITTEN}"):
            path.unlink(missing_ok=True)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # never written, or cut by a power failure: the step did not happen
    return document if isinstance(document, dict) else None
