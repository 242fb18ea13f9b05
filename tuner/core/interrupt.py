"""Being asked to stop in the middle of a wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


class Interrupted(BaseException):
    """The run was asked to stop; no error, hence no `Exception`.

    Raised by our own code, in places where nothing is held, and never by a signal's handler: out of the middle
    of a library it would leave that library's locks taken, and the next step would wait for them for ever.
    """


class Interrupts(Protocol):
    """Requests to stop, as a launch sees them."""

    @property
    def requested(self) -> bool:
        """Whether the run was asked to stop."""

    def check(self) -> None:
        """Go on only if nobody asked to stop.

        Raises:
            Interrupted: Somebody did.
        """

    def sleep(self, seconds: float) -> None:
        """Wait so long, if nobody asks to stop meanwhile.

        Raises:
            Interrupted: Somebody did.
        """

    def serving(
        self, *, stop: Callable[[], object], kill: Callable[[], object]
    ) -> AbstractContextManager[None]:
        """A server runs as long as this is entered.

        Args:
            stop: Ends it, in a thread of its own, when the run is asked to stop or was before: whoever waits
                for an answer learns of it by the broken connection.
            kill: Ends it at once, for a second request.
        """
