"""Runs whose disk becomes full at every boundary, each followed by one that has room again.

The disk is a small tmpfs that nobody else sees, mounted in a mount namespace of the harness's own. Where that is
not permitted, no file may grow any more, which fails at the same places with another error.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos.arena import Arena
from tests.chaos.boundaries import BOUNDARIES, BY_NAME
from tests.chaos.driver import FILLER
from tests.chaos.endings import stopped_well
from tests.chaos.ledger import Ledger
from tests.chaos.orders import Act, Order
from tests.support.tuner_command import ROOT
from tuner.core.outcome import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What a run needs before it starts a trial (see tuner/runs/room.py), and little more.
DISK_MIB = 48
LAUNCHES_A_FILLING = 3
DEADLINE_S = 400.0
_NAMESPACES = (["unshare", "--mount"], ["unshare", "--map-root-user", "--mount"])


@dataclass(slots=True)
class Filled:
    """What came of the runs on a full disk."""

    how: str
    fillings: int = 0
    lost_trials: int = 0
    wrong: list[str] = field(default_factory=list)


def run_full_disk(folder: Path, boundaries: Sequence[str]) -> Filled:
    """Fill the disk at each of these boundaries; in a process of its own, which has the disk to itself."""
    folder.mkdir(parents=True)
    disk = folder / "disk"
    disk.mkdir()
    argv = [sys.executable, "-m", "tests.chaos.full_disk", str(folder), *boundaries]
    mount = f"mount -t tmpfs -o size={DISK_MIB}m chaos {disk}"
    for namespace in _NAMESPACES:
        if subprocess.run([*namespace, "sh", "-c", mount], check=False, capture_output=True).returncode == 0:
            argv = [*namespace, "sh", "-c", f'{mount} && exec "$@"', "sh", *argv]
            break
    ended = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    if ended.returncode != 0:
        return Filled(
            "full disk", wrong=[f"the harness itself ended with {ended.returncode}: {ended.stderr[-2000:]}"]
        )
    return Filled(**json.loads(ended.stdout))


def _run(folder: Path, boundaries: Sequence[str]) -> Filled:
    disk = folder / "disk"
    mounted = disk.is_mount()
    filled = Filled(f"tmpfs of {DISK_MIB} MiB" if mounted else "limit on the size of files")
    arena = Arena(folder / "study", space="quick", results=disk)
    ledger = Ledger(arena)
    act = Act.FILL if mounted else Act.LIMIT
    launches = 0
    try:
        for name in boundaries:
            launches += LAUNCHES_A_FILLING
            # in the second trial: there is something to lose by then
            ended = arena.run(launches, Order(act, name, BY_NAME[name].passes_a_trial + 1, str(disk)))
            filled.fillings += 1
            wrong = stopped_well(ended, str(arena.command.study))
            wrong += ledger.check(complete=False).sentences
            ledger.left()
            (disk / FILLER).unlink(missing_ok=True)
            ended = arena.run(launches)
            if ended.code != 0:
                wrong.append(f"with room again it ended with {ended.code}: {ended.stderr.strip()[-2000:]}")
            wrong += ledger.check(complete=True).sentences
            filled.wrong += [f"full {name}: {one}" for one in wrong]
        kinds = [record.outcome.kind for record in arena.records() if record.outcome is not None]
        filled.lost_trials = kinds.count(Kind.STOPPED)
        if filled.lost_trials > filled.fillings:
            filled.wrong.append(f"{filled.lost_trials} trials were lost to {filled.fillings} full disks")
    finally:
        arena.close()
    return filled


if __name__ == "__main__":
    print(json.dumps(asdict(_run(Path(sys.argv[1]), sys.argv[2:] or [one.name for one in BOUNDARIES]))))
