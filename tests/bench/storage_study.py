"""How fast one worker and four find what is best on a played pair, with launches that take their time."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.machines.part import Order
from tests.machines.shop import Shop
from tests.support.postgres import Postgres
from tuner.core.trial import searched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.trial import TrialRecord

LAUNCHES, LAUNCH_S, MOST = 200, 2.0, 0.4


@dataclass(frozen=True, slots=True)
class Found:
    """What some workers have found, and when, in seconds after the first launch began."""

    seconds: float
    """Until the search was over."""
    scores: tuple[tuple[float, float], ...]
    """When each candidate was measured, and what it made."""

    @property
    def best(self) -> float:
        """The fastest, tok/s."""
        return max(score for _, score in self.scores)

    def reached_s(self, score: float) -> float | None:
        """When something as fast was measured first; None for never."""
        return next((at_s for at_s, one in self.scores if one >= score), None)


def play() -> int:
    """Measure, print, and fail where four workers are not fast enough."""
    alone, four = _found(1), _found(4)
    print(f"{LAUNCHES} launches of {LAUNCH_S:g} s each on a played pair, until the search was over:")
    for workers, found in ((1, alone), (4, four)):
        print(f"  {workers} worker(s): {found.seconds:.0f} s, best {found.best:.2f} tok/s")
    there_s, own_s = four.reached_s(alone.best), alone.reached_s(alone.best)
    if there_s is None or own_s is None:
        print(f"  four workers did not reach {alone.best:.2f} tok/s")
        return 1
    print(
        f"  what the one found ({alone.best:.2f} tok/s): after {own_s:.0f} s alone, after "
        f"{there_s:.0f} s by four; that is {there_s / alone.seconds:.0%} of the one's whole time and "
        f"{there_s / own_s:.0%} of its way there; all {LAUNCHES} launches took {four.seconds / alone.seconds:.0%} "
        f"(limit {MOST:.0%})"
    )
    return 0 if max(there_s, four.seconds) <= MOST * alone.seconds else 1


def _found(workers: int) -> Found:
    with tempfile.TemporaryDirectory() as name, Postgres() as server:
        order = Order(server.url, name, LAUNCHES, LAUNCH_S, lease_s=30.0, blocks=0)
        began_s = time.time()
        with Shop(order, workers, deadline_s=3600.0) as shop:
            shop.wait()
            return _of(shop.store().records(), shop.store().clock(), began_s)


def _of(
    records: Sequence[TrialRecord], clock: dict[int, tuple[float, float | None]], began_s: float
) -> Found:
    ended = {number: end for number, (_, end) in clock.items() if end is not None}
    first_s = min((begin for begin, _ in clock.values()), default=began_s)
    rows = sorted(
        (ended[one.number] - first_s, one.score)
        for one in searched(records)
        if one.candidate is not None and one.score is not None and one.number in ended
    )
    return Found(max(ended.values()) - first_s, tuple(rows))


if __name__ == "__main__":
    raise SystemExit(play())
