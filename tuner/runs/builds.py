"""Launches of what is now, and of what was before: each by the launcher of its own engine and model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.launch import PREVIOUS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tuner.core.interrupt import Interrupts
    from tuner.core.launch import LaunchPlan, LaunchResult, LaunchSpec
    from tuner.core.work import Work
    from tuner.core.workload import Workload
    from tuner.runs.protocols import Launcher


class EitherLauncher:
    """A launcher for both.

    Args:
        now: Launches everything but what was best before, as it was.
        before: Launches that.
    """

    def __init__(self, now: Launcher, before: Launcher) -> None:
        self._now = now
        self._before = before

    def portable_argv(self, spec: LaunchSpec) -> list[str]:
        """The command as a user would run it."""
        return self._of(spec).portable_argv(spec)

    def plan(self, spec: LaunchSpec) -> LaunchPlan:
        """Everything that a launch needs, decided before it is journalled."""
        return self._of(spec).plan(spec)

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
        """Launch, let the work be done, stop.

        Raises:
            EngineError: The binary cannot be started at all.
        """
        return self._of(spec).run(
            spec,
            plan,
            workload,
            work,
            log_path=log_path,
            on_spawn=on_spawn,
            interrupts=interrupts,
            limit_s=limit_s,
            slowest_load_s=slowest_load_s,
        )

    def _of(self, spec: LaunchSpec) -> Launcher:
        return self._before if spec.reference == PREVIOUS else self._now
