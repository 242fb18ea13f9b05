"""Four workers on one study, as processes, while all goes wrong: a kill, a sleep, a restart of the database."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.machines.part import Order
from tests.machines.proxy import Proxy
from tests.machines.shop import Shop
from tests.support.postgres import Postgres
from tuner.core.outcome import Kind
from tuner.core.trial import Purpose, searched
from tuner.runs.budget import launches_made
from tuner.search.confirmation.result import winner_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(420)

LAUNCHES, LEASE_S = 200, 3.0
KILLED, SLEEPER = 1, 2


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.mark.parametrize("way", ["database", "proxy"])
def test_two_hundred_launches_of_four_workers_are_complete_whatever_happens(
    way: str, tmp_path: Path, postgres: Postgres
) -> None:
    """One worker is killed in a launch and started again later, one sleeps for longer than its lease, and the
    database is restarted; what the storage has measured is what the workers' disks hold."""
    with ExitStack() as stack:
        url = postgres.url
        if way == "proxy":
            url = stack.enter_context(Proxy(postgres.url)).url
        order = Order(
            url, str(tmp_path), LAUNCHES, launch_s=0.15, lease_s=LEASE_S, model=False, name=f"by {way}"
        )
        shop = stack.enter_context(Shop(order, workers=4))
        shop.wait_until(lambda: all(shop.launches_of(number) >= 4 for number in range(4)))
        shop.wait_until(lambda: shop.in_a_launch(KILLED))
        shop.kill(KILLED)
        shop.wait_until(lambda: shop.in_a_launch(SLEEPER))
        shop.suspend(SLEEPER)
        slept_from_s = time.monotonic()
        shop.wait_until(lambda: len(shop.lost()) >= 2)
        assert time.monotonic() - slept_from_s >= LEASE_S / 2
        shop.wake(SLEEPER)
        shop.start(KILLED)
        postgres.stop()
        postgres.start()
        shop.wait()

        records = shop.store().every_record()
        assert shop.measured_in_storage() == shop.measured_on_disks()
        lost = shop.lost()
        assert len(lost) >= 2
        late = [one for one in shop.store().stored() if one.late_for is not None]
        assert {one.worker.host for one in late} == {f"host-{SLEEPER}"}

        own = shop.store().records()
        assert LAUNCHES <= launches_made(searched(own)) <= LAUNCHES + len(late)
        tried = [one for one in searched(own) if one.candidate is not None]
        again = Counter(one.key for one in tried if one.outcome is not None and one.outcome.kind is Kind.NONE)
        excused = {one.key for one in own if one.number in {stored.number for stored in lost}}
        assert {key for key, times in again.items() if times > 1} <= excused
        assert max(again.values()) <= 2

        confirmation = shop.store().confirmation()
        assert confirmation is not None
        assert confirmation.ended
        assert winner_of(confirmation, own) is not None
        proof = [one for one in records if one.errand.purpose is Purpose.CONFIRM]
        assert len({one.worker for one in proof if one.errand.round == confirmation.round}) == 1
        assert all("over: " in shop.log(number) for number in range(4))


def test_workers_that_start_at_the_same_moment_make_the_tables_once(tmp_path: Path) -> None:
    with Postgres() as empty, Shop(Order(empty.url, str(tmp_path), 8, 0.05), workers=4) as shop:
        shop.wait()
        assert launches_made(searched(shop.store().records())) == 8
