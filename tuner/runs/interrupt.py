"""Signals as requests to stop: the first ends the run cleanly, the second ends it at once."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Self

from tuner.core.interrupt import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalInterrupts:
    """While it is entered, SIGINT, SIGTERM and SIGHUP are requests to stop.

    Attributes:
        received: The first signal that came; None before.
    """

    def __init__(self, on_request: Callable[[], None]) -> None:
        self.received: signal.Signals | None = None
        self._on_request = on_request
        self._allowed = False
        self._last_resort: Callable[[], None] | None = None
        self._before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        # one that is ignored stays so: `nohup` means to outlive the terminal
        heeded = [sign for sign in _SIGNALS if signal.getsignal(sign) is not signal.SIG_IGN]
        self._before = {sign: signal.signal(sign, self._handle) for sign in heeded}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sign, handler in self._before.items():
            signal.signal(sign, handler)

    @property
    def requested(self) -> bool:
        """Whether the run was asked to stop."""
        return self.received is not None

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Inside, a request raises `Interrupted`, also one that came before."""
        self._allowed = True  # first, so that a request that comes right now raises as well
        try:
            if self.requested:
                raise Interrupted
            yield
        finally:
            self._allowed = False

    def last_resort(self, action: Callable[[], None] | None) -> None:
        """What a second request does before the program ends at once."""
        self._last_resort = action

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.requested:
            if self._last_resort is not None:
                self._last_resort()
            os._exit(128 + number)
        self.received = signal.Signals(number)
        self._on_request()
        if self._allowed:
            self._allowed = False
            raise Interrupted
