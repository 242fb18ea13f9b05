"""Failures after which a run has to end and say so; healed, the same command completes the study."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.arena import Arena
from tests.chaos.ledger import Ledger
from tests.support.fake_engine import FakeEngine
from tuner.core.outcome import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.tuner_command import Ended

LAUNCHES = 8
CANNOT_GO_ON = 2


@dataclass(frozen=True, slots=True)
class Ending:
    """A failure of every candidate, and how the run has to end at it."""

    name: str
    do: Mapping[str, object]
    kinds: tuple[Kind, ...]
    """Of the candidates' trials by then."""
    says: str
    """Part of the message."""


ENDINGS = (
    Ending("SIGILL", {"signal": signal.SIGILL}, (Kind.ENGINE_BROKEN,), "engine-broken"),
    Ending(
        "a card falls off the bus",
        {"log": ["CUDA error: GPU has fallen off the bus"], "die_in": "request:1"},
        (Kind.DEVICE_ERROR,),
        "a card is gone",
    ),
    Ending("every launch hangs", {"hang": "first-token"}, (Kind.HUNG,) * 3, "3 launches in a row"),
    Ending(
        "every launch fails on a card",
        {"log": ["CUDA error: unspecified launch failure"], "die_in": "request:1"},
        (Kind.DEVICE_ERROR,) * 3,
        "3 launches in a row",
    ),
)


def run_ending(folder: Path, ending: Ending) -> list[str]:
    """What was wrong with the run that had to end, and with the one that went on; nothing is good."""
    arena = Arena(folder, space="quick")
    ledger = Ledger(arena)
    try:
        arena.fake.when({"fit": "off"}, times=None, **ending.do)
        wrong = stopped_well(arena.run(LAUNCHES), ending.says)
        kinds = tuple(r.outcome.kind for r in arena.records()[1:] if r.outcome is not None)
        if kinds != ending.kinds:
            wrong.append(f"{[*kinds]} are recorded, {[*ending.kinds]} are right")
        wrong += ledger.check(complete=True, only_cuts=False).sentences
        FakeEngine(folder)  # without a rule: all is well again
        healed = arena.run(LAUNCHES)
        if healed.code != 0:
            wrong.append(f"healed, it ended with {healed.code}: {healed.stderr.strip()[-2000:]}")
        wrong += ledger.check(complete=True, only_cuts=False).sentences
    finally:
        arena.close()
    return [f"{ending.name}: {one}" for one in wrong]


def stopped_well(ended: Ended, says: str) -> list[str]:
    """What is wrong with the end of a run that could not go on: one line, code 2."""
    lines = ended.stderr.strip().splitlines()
    if ended.code == CANNOT_GO_ON and len(lines) == 1 and lines[0].startswith("error: ") and says in lines[0]:
        return []
    return [f"it ended with {ended.code}, saying {ended.stderr.strip()[-2000:]!r} without {says!r}"]
