"""Kills the tuner again and again, each time at a named place, and starts it again until its study is complete."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.chaos.arena import Arena
from tests.chaos.boundaries import EVERYWHERE, Boundary
from tests.chaos.ledger import CUTS_FORGIVEN, Findings, Ledger
from tests.chaos.orders import Act, Order

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence
    from pathlib import Path

#: Launches of a search, by the kills that its study is to live through: so few that many of them are left for
#: what follows.
LAUNCHES_A_KILL = 0.5
_SPARE_LAUNCHES = 4
FIRST_START = "first start"


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a run is to die."""

    boundary: Boundary
    nth: int


@dataclass(slots=True)
class Row:
    """What came of the kills at one boundary."""

    kills: int = 0
    restarts: int = 0
    left_running: int = 0
    """Servers that outlived their tuner, for the next run to end."""
    findings: Findings = field(default_factory=Findings)

    def add(self, more: Row) -> None:
        """Count another row in."""
        self.kills += more.kills
        self.restarts += more.restarts
        self.left_running += more.left_running
        self.findings.add(more.findings)


Rows = dict[str, Row]


def plan_kills(count: int, dice: random.Random) -> list[Kill]:
    """So many kills, spread evenly over the boundaries, in no order."""
    boundaries = [EVERYWHERE[index % len(EVERYWHERE)] for index in range(count)]
    dice.shuffle(boundaries)
    return [Kill(boundary, dice.randint(1, 2 * boundary.passes_a_trial)) for boundary in boundaries]


def run_kills(folder: Path, kills: Sequence[Kill], *, dies_with_us: bool) -> Rows:
    """One or more studies, until all kills have happened and each study is complete."""
    rows: Rows = {}
    left = list(kills)
    studies = 0
    while left:
        arena = Arena(folder / str(studies), space="quick", dies_with_us=dies_with_us, proved=True)
        # not everything that is cut or done is a measurement
        arena.fake.when({"ubatch-size": 1024}, oom={"stage": "compute", "device": 1, "mib": 512})
        try:
            _one_study(arena, left, rows)
        finally:
            arena.close()
        studies += 1
    return rows


def _one_study(arena: Arena, left: list[Kill], rows: Rows) -> None:
    """Take kills off the list until the study is complete; the last run is left in peace."""
    launches = int(LAUNCHES_A_KILL * len(left)) + _SPARE_LAUNCHES
    ledger = Ledger(arena)
    before = rows.setdefault(FIRST_START, Row())
    while True:
        kill = left[0] if left and not ledger.must_end_in_peace() else None
        ended = arena.run(launches, None if kill is None else _order(kill, ledger))
        killed = kill is not None and ended.code == -signal.SIGKILL
        before.restarts += 1
        before.findings.add(ledger.check(complete=ended.code == 0))
        if ended.code == 0:
            return
        if kill is None or not killed:
            said = ended.stderr.strip()[-2000:]
            before.findings.wrong.append(f"a run that was not killed ended with {ended.code}: {said}")
            return
        left.pop(0)
        row = rows.setdefault(kill.boundary.name, Row())
        row.kills += 1
        row.left_running += arena.living()
        if (leaves := ledger.left()) not in kill.boundary.leaves:
            row.findings.wrong.append(f"killed {kill.boundary.name}, which left {leaves}")
        before = row


def _order(kill: Kill, ledger: Ledger) -> Order:
    """As planned, but a candidate that was cut as often as is forgiven is let through first."""
    spared = kill.boundary.passes_a_trial if ledger.cuts_of_the_next() >= CUTS_FORGIVEN else 0
    return Order(Act.KILL, kill.boundary.name, kill.nth + spared)
