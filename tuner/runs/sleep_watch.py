"""Whether the machine slept during a trial."""

from __future__ import annotations

import time

#: Less is the resolution of two clocks read one after the other.
SLEEP_NOTICED_S = 1.0


class SleepWatch:
    """Notices that the machine was suspended: CLOCK_BOOTTIME goes on then, CLOCK_MONOTONIC does not.

    Neither is set by anybody, so a jump of the wall clock (NTP, a user) is no sleep.
    """

    def __init__(self) -> None:
        self._before_s = _asleep_s()

    def slept_s(self) -> float | None:
        """Seconds asleep since it was made; None where it was awake all the time."""
        slept = _asleep_s() - self._before_s
        return slept if slept >= SLEEP_NOTICED_S else None


def _asleep_s() -> float:
    """Seconds that the machine has slept since it booted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)
