"""Being asked to stop in the middle of a wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


class Interrupted(BaseException):
    """Raised out of a wait when the run was asked to stop; no error, hence no `Exception`."""


class Interrupts(Protocol):
    """Requests to stop, as a launch sees them."""

    @property
    def requested(self) -> bool:
        """Whether the run was asked to stop."""

    def allowed(self) -> AbstractContextManager[None]:
        """Inside, a request raises `Interrupted`; outside, it waits for the next place that allows it."""

    def last_resort(self, action: Callable[[], None] | None) -> None:
        """What a second request does at once, before the program ends; None for nothing."""
