"""What a run needs from the outside, as Protocols: an engine, a rig and a terminal are somebody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tuner.core.interrupt import Interrupts
    from tuner.core.launch import LaunchPlan, LaunchResult, LaunchSpec
    from tuner.core.measurement import Sample
    from tuner.core.monitoring import RigReport
    from tuner.core.trial import TrialRecord
    from tuner.core.work import Work
    from tuner.core.workload import Workload


class Launcher(Protocol):
    """Starts servers and measures them."""

    def portable_argv(self, spec: LaunchSpec) -> list[str]:
        """The command as a user would run it."""

    def plan(self, spec: LaunchSpec) -> LaunchPlan:
        """Everything that a launch needs, decided before it is journalled."""

    def run(
        self,
        spec: LaunchSpec,
        plan: LaunchPlan,
        workload: Workload,
        work: Work,
        *,
        log_path: Path,
        on_spawn: Callable[[int, float], None],
        interrupts: Interrupts,
        limit_s: float | None = None,
        slowest_load_s: float | None = None,
    ) -> LaunchResult:
        """Launch, let the work be done, stop; after `limit_s` seconds stop wherever it is.

        Raises:
            EngineError: The binary cannot be started at all.
        """


class RigMonitor(Protocol):
    """Watches the devices."""

    def ready(self, sleep: Callable[[float], object]) -> list[str]:
        """Wait until the devices are as before the first launch; sentences on what is not so all the same.

        Args:
            sleep: Waits some seconds; may raise to end the wait.
        """

    def begin(self) -> None:
        """A launch begins."""

    def end(self, *, since_s: float, until_s: float, own_pid: int | None, raw: Path) -> RigReport:
        """A launch has ended; it was measured between those seconds after `begin`."""


class Progress(Protocol):
    """Is told what happens; shows it or not."""

    def note(self, text: str) -> None:
        """Something that a reader of the run should know."""

    def trial_begins(self, number: int, spec: LaunchSpec, why: str) -> None:
        """A launch is about to be made."""

    def sample(self, sample: Sample) -> None:
        """A request was answered."""

    def trial_ended(self, record: TrialRecord, records: Sequence[TrialRecord]) -> None:
        """A launch was recorded; `records` holds it and all before."""
