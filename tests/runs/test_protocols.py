"""The real engine, rig and terminal are what a run needs; mypy checks the types, this the names at run time."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest

from tests.support import played_run
from tuner.cli.progress import LineProgress
from tuner.core import interrupt
from tuner.engine.launcher import Launcher
from tuner.rig.monitor import RigMonitor
from tuner.runs import protocols
from tuner.runs.interrupt import SignalInterrupts

if TYPE_CHECKING:
    # that these are accepted is the check
    def _launcher(real: Launcher, played: played_run.PlayedLauncher) -> tuple[protocols.Launcher, ...]:
        return real, played

    def _monitor(real: RigMonitor, played: played_run.PlayedMonitor) -> tuple[protocols.RigMonitor, ...]:
        return real, played

    def _progress(real: LineProgress, played: played_run.PlayedProgress) -> tuple[protocols.Progress, ...]:
        return real, played

    def _interrupts(real: SignalInterrupts) -> interrupt.Interrupts:
        return real


PAIRS: list[tuple[type, type]] = [
    (protocols.Launcher, Launcher),
    (protocols.Launcher, played_run.PlayedLauncher),
    (protocols.RigMonitor, RigMonitor),
    (protocols.RigMonitor, played_run.PlayedMonitor),
    (protocols.Progress, LineProgress),
    (protocols.Progress, played_run.PlayedProgress),
    (interrupt.Interrupts, SignalInterrupts),
]


def methods(protocol: type) -> list[str]:
    return [name for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_"]


def parameters(owner: type, name: str) -> list[tuple[str, str, bool]]:
    """Name, kind and whether it may be left out."""
    found = inspect.signature(inspect.getattr_static(owner, name)).parameters.values()
    return [(one.name, str(one.kind), one.default is not one.empty) for one in found]


@pytest.mark.parametrize(
    ("protocol", "real"), PAIRS, ids=[f"{real.__module__}.{real.__name__}" for _, real in PAIRS]
)
def test_each_method_takes_what_a_run_gives_it(protocol: type, real: type) -> None:
    assert methods(protocol)
    for name in methods(protocol):
        assert parameters(real, name) == parameters(protocol, name), name
