"""Whether the machine slept, by clocks that the tests move."""

from __future__ import annotations

import time

import pytest

from tuner.runs.sleep_watch import SLEEP_NOTICED_S, SleepWatch


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """A machine that has been up for an hour and asleep for ten minutes of it."""
    now_s = {time.CLOCK_BOOTTIME: 3600.0, time.CLOCK_MONOTONIC: 3000.0}
    monkeypatch.setattr(time, "clock_gettime", lambda clock: now_s[clock])
    return now_s


def test_a_machine_that_was_awake_did_not_sleep(clocks: dict[int, float]) -> None:
    watch = SleepWatch()
    for clock in clocks:
        clocks[clock] += 8 * 3600
    assert watch.slept_s() is None


def test_a_sleep_is_as_long_as_one_clock_stood_still(clocks: dict[int, float]) -> None:
    watch = SleepWatch()
    clocks[time.CLOCK_BOOTTIME] += 90.0
    clocks[time.CLOCK_MONOTONIC] += 30.0
    assert watch.slept_s() == pytest.approx(60.0)


def test_two_clocks_read_one_after_the_other_are_no_sleep(clocks: dict[int, float]) -> None:
    watch = SleepWatch()
    clocks[time.CLOCK_BOOTTIME] += SLEEP_NOTICED_S / 2
    assert watch.slept_s() is None
    clocks[time.CLOCK_BOOTTIME] -= SLEEP_NOTICED_S
    assert watch.slept_s() is None


def test_a_sleep_before_it_was_made_does_not_count(clocks: dict[int, float]) -> None:
    clocks[time.CLOCK_BOOTTIME] += 3600.0
    assert SleepWatch().slept_s() is None


def test_a_clock_that_somebody_sets_is_no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = SleepWatch()
    monkeypatch.setattr(time, "time", lambda: 4e9)
    assert watch.slept_s() is None
