"""The fake's own process: its clock, and every way in which it ends."""

from __future__ import annotations

import os
import resource
import signal
import time
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tests.support.fake_llama.events import Events
    from tests.support.fake_llama.log import Log
    from tests.support.fake_llama.rules import Behaviour

#: A fake that everybody has forgotten ends by itself.
LIFETIME_S = 600

_LOAD_ASSERT = "/src/llama.cpp/src/llama-model.cpp:477: GGML_ASSERT(tensor_axis_0 != nullptr) failed"
_WARMUP_ASSERT = (
    "/src/llama.cpp/ggml/src/ggml-backend-meta.cpp:1134: "
    "GGML_ASSERT(ret.axis != GGML_BACKEND_SPLIT_AXIS_UNKNOWN) failed"
)
_REQUEST_ASSERT = (
    "/src/llama.cpp/ggml/src/ggml-backend-meta.cpp:1884: GGML_ASSERT(split_state.n_segments == 1) failed"
)
_ASSERTS = {"load": _LOAD_ASSERT, "warmup": _WARMUP_ASSERT, "request": _REQUEST_ASSERT}
_ASSERTS["completion"] = _REQUEST_ASSERT


class Clock:
    """Turns modelled time into real time."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def sleep(self, modelled_s: float) -> None:
        if (real_s := modelled_s * self.scale) > 0:
            time.sleep(real_s)


class Process:
    """Ends the process from any thread, and writes down that it did."""

    def __init__(self, behaviour: Behaviour, log: Log, events: Events) -> None:
        self._behaviour = behaviour
        self._log = log
        self._events = events

    def exit(self, code: int) -> NoReturn:
        self._events.add("stop", exit=code)
        os._exit(code)

    def kill(self, number: int) -> NoReturn:
        """Dies by a signal, as a real crash does; without a core file."""
        self._events.add("stop", signal=number)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            # The system's call: Python's own only works in the main thread.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
        time.sleep(1)
        os._exit(128 + number)

    def abort(self) -> NoReturn:
        self.kill(signal.SIGABRT)

    def die_if_told(self, phase: str, request: int = 1) -> None:
        """Carries out `exit`, `signal` and `die_in` where they are due."""
        told = self._behaviour
        if not told.dies:
            return
        due, due_request = (told.die_in.phase, told.die_in.request) if told.die_in else ("load", 1)
        if (phase, request) != (due, due_request):
            return
        for line in told.log:
            self._log.error(line)
        if told.exit is not None:
            self.exit(told.exit)
        number = signal.SIGABRT if told.signal is None else told.signal
        if number == signal.SIGABRT and not told.log:
            self._log.raw(_ASSERTS[phase])
        self.kill(number)
