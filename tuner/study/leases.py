"""Who is not heard of any more: by signs of life that do not change, and the own clock alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class Watch:
    """Watches signs of life of what others do.

    What a sign says does not matter, only that it changes: the clocks of two machines need not agree.

    Args:
        lease_s: For how long one may stay the same.
    """

    lease_s: float
    _seen: dict[int, tuple[object, float]] = field(default_factory=dict)

    def expired(self, signs: Mapping[int, object], now_s: float) -> list[int]:
        """Whose sign has been the same for longer than the lease.

        Args:
            signs: The sign of each that is watched, as it is now; None where there was none yet.
            now_s: The time by a clock that only goes forward.
        """
        known, self._seen = self._seen, {}
        found = []
        for one, sign in signs.items():
            before = known.get(one)
            since_s = before[1] if before is not None and before[0] == sign else now_s
            self._seen[one] = (sign, since_s)
            if now_s - since_s > self.lease_s:
                found.append(one)
        return found

    def forget(self) -> None:
        """Begin anew: nobody could show a sign while the storage was away."""
        self._seen.clear()
