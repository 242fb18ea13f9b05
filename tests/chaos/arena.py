"""One study on the fake engine in a folder of its own, and the runs over it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.chaos import leftovers
from tests.chaos.best_reader import BestReader
from tests.chaos.driver import ORPHANS_VARIABLE
from tests.chaos.warm_start import run_driver
from tests.support.gguf_files import model_metadata, write_gguf
from tests.support.tuner_command import Ended, TunerCommand
from tuner.errors import StudyError
from tuner.runs.trial_folder import TrialFolder
from tuner.study import StudyStore

if TYPE_CHECKING:
    from tests.chaos.orders import Order
    from tests.support.fake_engine import FakeEngine
    from tuner.core.trial import TrialRecord
    from tuner.search.confirmation.state import Confirmation

#: A run that has not ended by then hangs itself.
RUN_DEADLINE_S = 240.0
#: Two launches a side, and a second of work.
PROOF = ("--confirm", "2", "--quality", "1s", "--endure", "1s")


class Arena:
    """A study, its fake, and everything that a harness looks at.

    Args:
        folder: Made if need be; nobody else's.
        space: The search space: a name, or the path of a file.
        dies_with_us: Whether the kernel ends a server together with its tuner. Without it a killed tuner leaves
            an orphan, as on a system without `setpriv`.
        results: Where the study is kept, if not in `folder`.
        proved: Whether the winner is confirmed, its answers are looked at, and it is put to the test.
    """

    def __init__(
        self,
        folder: Path,
        *,
        space: str,
        dies_with_us: bool = True,
        results: Path | None = None,
        proved: bool = False,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.command = TunerCommand(folder)
        # with a layer that drafts, so that drafts can be asked for
        write_gguf(self.command.model, model_metadata(block_count=3, nextn_predict_layers=1))
        self._space = space
        self.proved = proved
        self._orphans_path = folder / "orphans.jsonl"
        self._environment = self.command.environment | {ORPHANS_VARIABLE: str(self._orphans_path)}
        if not dies_with_us:
            # only python3 is found there, and no setpriv
            self._environment["PATH"] = str(Path(sys.executable).parent)
        if results is not None:
            self.command.results = results
            self.command.study = results / self.command.study.name
        self.torn: list[str] = []
        """What readers of best.json have met that was no best.json."""

    @property
    def fake(self) -> FakeEngine:
        """What its servers are told to do."""
        return self.command.fake

    @property
    def events_path(self) -> Path:
        """Where its servers write down what they do."""
        return Path(self._environment["FAKE_EVENTS"])

    def run(self, launches: int, order: Order | None = None) -> Ended:
        """One run of `tuner tune`, as far as it gets, with a reader of best.json beside it."""
        options = ("--launches", str(launches), *(PROOF if self.proved else ()))
        words = self.command.words(*options, space=self._space)
        variables = {} if order is None else order.variables()
        with BestReader(self.command.study / "best.json") as reader:
            code, said = run_driver(
                words,
                self._environment | variables,
                log_path=self.command.folder / "tuner.log",
                deadline_s=RUN_DEADLINE_S,
            )
        self.torn += reader.torn
        return Ended(code, "", said)

    def records(self) -> list[TrialRecord]:
        """All trials; none where the study was never made."""
        try:
            return self.command.records()
        except StudyError:
            return []

    def confirmation(self) -> Confirmation | None:
        """Where the confirmation stands."""
        return StudyStore.open(self.command.study / "study.db").confirmation()

    def trial_folder(self, number: int) -> TrialFolder:
        """The folder of a trial."""
        return TrialFolder.of(self.command.study, number)

    def journalled(self) -> dict[tuple[str, ...], int]:
        """The arguments of each launch that was written down, and its trial."""
        found = {}
        for path in (self.command.study / "trials").glob("*/launch.json"):
            argv = json.loads(path.read_text(encoding="utf-8"))["argv"]
            found[tuple(argv[1:])] = int(path.parent.name)
        return found

    def starts(self) -> list[dict[str, Any]]:
        """What the servers say of their starts, without those that were only asked something."""
        return self.command.launches()

    def orphans(self) -> list[int]:
        """Servers of an earlier run that lived when a later one began to launch."""
        if not self._orphans_path.exists():
            return []
        lines = self._orphans_path.read_text(encoding="utf-8").splitlines()
        return [pid for line in lines for pid in json.loads(line)]

    def living(self) -> int:
        """Servers that run now."""
        return len(leftovers.servers(self.events_path))

    def leftovers(self) -> list[str]:
        """Processes and ports that outlive the study."""
        found = [f"process {pid} is left" for pid in leftovers.left_running(self.events_path)]
        found += [f"port {port} is left" for port in leftovers.left_open(self.starts(), self.events_path)]
        return found

    def close(self) -> None:
        """End whatever runs on, so that a harness that fails leaves nothing."""
        leftovers.end(self.events_path)
