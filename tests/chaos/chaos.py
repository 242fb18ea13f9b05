"""The whole of it: faults, endings, a full disk and kills, two at a time, each in a folder of its own."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tests.chaos.boundaries import BOUNDARIES
from tests.chaos.endings import ENDINGS, run_ending
from tests.chaos.fault_runs import FaultRun, plan_faults, run_faults
from tests.chaos.full_disk import Filled, run_full_disk
from tests.chaos.kills import Rows, plan_kills, run_kills
from tests.chaos.tables import fault_lines, kill_lines, merged

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.chaos.endings import Ending

T = TypeVar("T")

#: Studies that go on at once.
AT_ONCE = 2
#: Candidates of one study that fail.
FAULTS_A_STUDY = 25


@dataclass(frozen=True, slots=True)
class Plan:
    """How much chaos."""

    seed: int
    launches: int
    kills: int
    kills_a_study: int = 25
    """So many are to be lived through by one study."""
    every_fault: bool = True
    """However many launches that makes; at least `launches` in any case."""
    endings: Sequence[Ending] = ENDINGS
    fillings: Sequence[str] = tuple(boundary.name for boundary in BOUNDARIES)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it."""

    faults: list[FaultRun]
    endings: list[str]
    disk: Filled
    kills: Rows

    @property
    def violations(self) -> list[str]:
        """Everything that must not be; empty is good."""
        found = [one for run in self.faults for one in run.wrong]
        for one in (one for run in self.faults for one in run.launches):
            if not one.is_right:
                found.append(f"{one.fault.name}: recorded as {one.got}, {one.expected} is right")
            if not one.is_in_time:
                found.append(f"{one.fault.name}: {one.took_s:.1f} s, {one.fault.bound_s:.1f} s are allowed")
        found += [*self.endings, *self.disk.wrong]
        found += [
            f"killed {name}: {one}" for name, row in self.kills.items() for one in row.findings.sentences
        ]
        return found

    def lines(self) -> Iterator[str]:
        """The tables."""
        yield from fault_lines(self.faults)
        yield ""
        yield f"full disk ({self.disk.how}): {self.disk.fillings} times full, {self.disk.lost_trials} trials cut off"
        yield ""
        yield from kill_lines(self.kills)


def wreak(folder: Path, plan: Plan) -> Result:
    """Do all of it."""
    dice = random.Random(plan.seed)  # noqa: S311 - a seed repeats it
    faults = plan_faults(plan.launches, dice, every=plan.every_fault)
    kills = plan_kills(plan.kills, dice)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # the longest first
        disk = pool.submit(run_full_disk, folder / "disk", plan.fillings)
        kill_runs = [
            pool.submit(run_kills, folder / f"kills-{index}", part, dies_with_us=bool(index % 2))
            for index, part in enumerate(_parts(kills, plan.kills_a_study))
        ]
        fault_runs = [
            pool.submit(run_faults, folder / f"faults-{index}", part)
            for index, part in enumerate(_parts(faults, FAULTS_A_STUDY))
        ]
        endings = [
            pool.submit(run_ending, folder / f"ending-{index}", ending)
            for index, ending in enumerate(plan.endings)
        ]
        try:
            return Result(
                faults=[run.result() for run in fault_runs],
                endings=[one for ending in endings for one in ending.result()],
                disk=disk.result(),
                kills=merged(run.result() for run in kill_runs),
            )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what has not begun need not
            raise


def _parts(items: list[T], size: int) -> list[list[T]]:
    return [items[at : at + size] for at in range(0, len(items), size)]
