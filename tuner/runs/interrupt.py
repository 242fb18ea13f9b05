"""Signals as requests to stop: the first ends the run cleanly, the second ends it at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Self

from tuner.core.interrupt import Interrupted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S = 0.05


class SignalInterrupts:
    """While it is entered, SIGINT, SIGTERM and SIGHUP are requests to stop.

    Attributes:
        received: The first signal that came; None before.
    """

    def __init__(self, on_request: Callable[[], None]) -> None:
        self.received: signal.Signals | None = None
        self._on_request = on_request
        self._ending: threading.Event | None = None
        self._kill: Callable[[], object] | None = None
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

    def check(self) -> None:
        """Go on only if nobody asked to stop.

        Raises:
            Interrupted: Somebody did.
        """
        if self.requested:
            raise Interrupted

    def sleep(self, seconds: float) -> None:
        """Wait so long, if nobody asks to stop meanwhile.

        Raises:
            Interrupted: Somebody did.
        """
        end = time.monotonic() + seconds
        self.check()
        while (left_s := end - time.monotonic()) > 0:
            time.sleep(min(left_s, _POLL_S))
            self.check()

    @contextlib.contextmanager
    def serving(self, *, stop: Callable[[], object], kill: Callable[[], object]) -> Iterator[None]:
        """A server runs as long as this is entered: `stop` ends it on a first request, `kill` on a second."""
        ending, left = threading.Event(), threading.Event()

        def end() -> None:
            ending.wait()
            if not left.is_set():
                stop()

        thread = threading.Thread(target=end, name="stop", daemon=True)
        thread.start()
        self._kill, self._ending = kill, ending
        if self.requested:  # before, or right now: twice does no harm
            ending.set()
        try:
            yield
        finally:
            # first, so that the handler never waits for a lock of the event that this thread holds
            self._ending = self._kill = None
            left.set()
            ending.set()
            thread.join()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.requested:
            if self._kill is not None:
                self._kill()
            os._exit(128 + number)
        self.received = signal.Signals(number)
        self._on_request()
        if self._ending is not None:
            self._ending.set()
