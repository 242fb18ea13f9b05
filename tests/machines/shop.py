"""Some workers on one study, each a process of its own, and what may happen to them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tuner.study import SharedStore
from tuner.study.location import Location

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from tests.machines.part import Order
    from tuner.study.documents import Stored

ROOT = Path(__file__).parents[2]
DEADLINE_S = 240.0
_POLL_S = 0.1


@dataclass
class Shop:
    """The hosts of a shop, in a folder each.

    Args:
        order: What each worker is to do; its folder is where theirs are.
        workers: How many there are.
        deadline_s: How long they may take.
    """

    order: Order
    workers: int
    deadline_s: float = DEADLINE_S
    _processes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    _store: SharedStore | None = None

    def __enter__(self) -> Self:
        for number in range(self.workers):
            self.start(number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.kill()
                process.wait(DEADLINE_S)
        if self._store is not None:
            self._store.close()

    def folder(self, number: int) -> Path:
        """Of a host."""
        return Path(self.order.folder) / f"host-{number}"

    def log(self, number: int) -> str:
        """What its worker has said."""
        return self._log(number).read_text(encoding="utf-8")

    def start(self, number: int) -> None:
        """Start the worker of a host, or start it again."""
        with self._log(number).open("ab") as log:
            self._processes[number] = subprocess.Popen(
                replace(self.order, folder=str(self.folder(number))).argv(),
                cwd=ROOT,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self, number: int) -> None:
        """As a power cut does."""
        self._processes[number].kill()
        self._processes[number].wait(DEADLINE_S)

    def suspend(self, number: int) -> None:
        """As a lid does."""
        self._processes[number].send_signal(signal.SIGSTOP)

    def wake(self, number: int) -> None:
        """Let it go on."""
        self._processes[number].send_signal(signal.SIGCONT)

    def wait(self) -> None:
        """Until all workers have ended well."""
        for number, process in self._processes.items():
            assert process.wait(self.deadline_s) == 0, self.log(number)

    def wait_until(self, met: Callable[[], bool]) -> None:
        """For something that happens meanwhile."""
        end_s = time.monotonic() + DEADLINE_S
        while not met():
            said = "\n".join(self.log(number)[-2000:] for number in self._processes)
            assert time.monotonic() < end_s, said
            assert any(process.poll() is None for process in self._processes.values()), said
            time.sleep(_POLL_S)

    def launches_of(self, number: int) -> int:
        """How many launches a host has made."""
        return len(list((self.folder(number) / "trials").glob("*/result.json")))

    def in_a_launch(self, number: int) -> bool:
        """Whether a host has begun one that has no end on its disk."""
        folders = list((self.folder(number) / "trials").glob("*"))
        return any((one / "process.json").exists() and not (one / "result.json").exists() for one in folders)

    def measured_on_disks(self) -> dict[tuple[str, int], int]:
        """Samples of every launch that has an end on a disk, by worker and number of the trial."""
        found = {}
        for number in range(self.workers):
            worker = json.loads((self.folder(number) / "worker.json").read_text(encoding="utf-8"))["id"]
            for path in (self.folder(number) / "trials").glob("*/result.json"):
                document = json.loads(path.read_text(encoding="utf-8"))
                found[worker, int(path.parent.name)] = len(document["samples"])
        return found

    def store(self) -> SharedStore:
        """The study, as a reader sees it."""
        if self._store is None:
            self._store = SharedStore.open(Location.parse(self.order.url, "shop"), self.order.name)
        return self._store

    def measured_in_storage(self) -> dict[tuple[str, int], int]:
        """The same as the storage has it; a late result has the number that its trial had."""
        found: dict[tuple[str, int], int] = {}
        for one in self.store().stored():
            if not (one.is_launch and one.has_result):
                continue
            key = one.worker.id, one.number if one.late_for is None else one.late_for
            assert key not in found, f"{key} is there twice"
            found[key] = len(one.document["result"]["samples"])
        return found

    def lost(self) -> list[Stored]:
        """Trials that were given up."""
        return [one for one in self.store().stored() if one.is_lost]

    def _log(self, number: int) -> Path:
        return Path(self.order.folder) / f"host-{number}.log"
