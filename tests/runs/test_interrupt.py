"""Signals as requests to stop, sent to a real process."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tuner.core.interrupt import Interrupted
from tuner.runs.interrupt import SignalInterrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
DEADLINE_S = 30.0
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]

#: Every program says line by line how far it is; a wait for a signal ends by itself if none comes.
PRELUDE = """
import os, signal, sys, time
from tuner.core.interrupt import Interrupted
from tuner.runs.interrupt import SignalInterrupts

def say(text):
    os.write(1, f"{text}\\n".encode())  # a handler must not enter a buffer that is being written to

def wait(done):
    deadline = time.monotonic() + 20
    while not done():
        if time.monotonic() > deadline:
            say("nothing came")
            sys.exit(3)
        time.sleep(0.002)

interrupts = SignalInterrupts(lambda: say(f"asked by {interrupts.received.name}"))
"""


class Program:
    """A program under signals; its lines are read one by one."""

    def __init__(self, text: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(text)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def rest(self) -> list[str]:
        """The lines that are left once it has ended."""
        output, _ = self.process.communicate(timeout=DEADLINE_S)
        return output.splitlines()


@pytest.fixture
def start() -> Iterator[Callable[[str], Program]]:
    programs: list[Program] = []

    def start_one(text: str) -> Program:
        programs.append(Program(text))
        return programs[-1]

    yield start_one
    for program in programs:
        program.process.kill()
        program.process.communicate(timeout=DEADLINE_S)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_a_sleep(start: Callable[[str], Program], number: signal.Signals) -> None:
    program = start("""
        with interrupts:
            try:
                say("waiting")
                interrupts.sleep(20)
                say("nothing came")
            except Interrupted:
                say(f"interrupted, requested: {interrupts.requested}")
    """)
    assert program.line() == "waiting"
    program.send(number)
    assert program.rest() == [f"asked by {number.name}", "interrupted, requested: True"]
    assert program.process.returncode == 0


def test_a_signal_waits_for_the_next_place_that_allows_it(start: Callable[[str], Program]) -> None:
    program = start("""
        with interrupts:
            say("working")
            wait(lambda: interrupts.requested)
            say("finished the work")
            try:
                interrupts.check()
                say("not reached")
            except Interrupted:
                say("interrupted")
    """)
    assert program.line() == "working"
    program.send(signal.SIGTERM)
    assert program.rest() == ["asked by SIGTERM", "finished the work", "interrupted"]
    assert program.process.returncode == 0


def test_a_signal_ends_the_server_while_its_answer_is_waited_for(start: Callable[[str], Program]) -> None:
    program = start("""
        import socket
        ours, servers = socket.socketpair()
        ours.settimeout(20)
        with interrupts, interrupts.serving(stop=servers.close, kill=lambda: say("not called")):
            say("waiting")
            say(f"the answer is {ours.recv(1)}")
    """)
    assert program.line() == "waiting"
    program.send(signal.SIGTERM)
    assert program.rest() == ["asked by SIGTERM", "the answer is b''"]
    assert program.process.returncode == 0


def test_a_signal_never_breaks_into_what_holds_a_lock(start: Callable[[str], Program]) -> None:
    """As httpcore does around each request: a lock that is taken in Python, and taken again when it closes."""
    program = start("""
        class Lock:
            def __init__(self):
                self.taken = False
            def __enter__(self):
                assert not self.taken
                self.taken = True
                os.kill(os.getpid(), signal.SIGTERM)  # after it is taken, before whoever took it knows
            def __exit__(self, *_):
                self.taken = False

        lock = Lock()
        with interrupts, interrupts.serving(stop=lambda: None, kill=lambda: None):
            try:
                with lock:
                    pass
                interrupts.check()
            except Interrupted:
                say(f"interrupted, the lock is taken: {lock.taken}")
    """)
    assert program.rest() == ["asked by SIGTERM", "interrupted, the lock is taken: False"]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_ends_everything_at_once(
    start: Callable[[str], Program], number: signal.Signals
) -> None:
    program = start("""
        with interrupts, interrupts.serving(stop=lambda: None, kill=lambda: say("killed the server")):
            say("working")
            wait(lambda: interrupts.requested)
            say("still working")
            wait(lambda: False)
            say("not reached")
    """)
    assert program.line() == "working"
    program.send(signal.SIGINT)
    assert [program.line(), program.line()] == ["asked by SIGINT", "still working"]
    program.send(number)
    assert program.rest() == ["killed the server"]
    assert program.process.returncode == 128 + number


def test_a_second_signal_without_a_server_ends_at_once_too(start: Callable[[str], Program]) -> None:
    program = start("""
        with interrupts:
            with interrupts.serving(stop=lambda: say("not called"), kill=lambda: say("not called")):
                pass
            say("working")
            wait(lambda: interrupts.requested)
            say("still working")
            wait(lambda: False)
    """)
    assert program.line() == "working"
    program.send(signal.SIGTERM)
    assert [program.line(), program.line()] == ["asked by SIGTERM", "still working"]
    program.send(signal.SIGTERM)
    assert program.rest() == []
    assert program.process.returncode == 128 + signal.SIGTERM


def test_a_hangup_that_is_ignored_stays_ignored(start: Callable[[str], Program]) -> None:
    program = start("""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup leaves it
        with interrupts:
            say("working")
            wait(lambda: interrupts.requested)
    """)
    assert program.line() == "working"
    program.send(signal.SIGHUP)
    program.send(signal.SIGTERM)
    assert program.rest() == ["asked by SIGTERM"]


def test_afterwards_signals_are_what_they_were(start: Callable[[str], Program]) -> None:
    program = start("""
        with interrupts:
            pass
        say("out")
        wait(lambda: False)
    """)
    assert program.line() == "out"
    program.send(signal.SIGTERM)
    assert program.rest() == []
    assert program.process.returncode == -signal.SIGTERM


# --- without a process: states between two steps


def test_nothing_is_requested_before_a_signal() -> None:
    interrupts = SignalInterrupts(lambda: None)
    assert not interrupts.requested
    interrupts.check()
    stopped: list[str] = []
    with interrupts.serving(stop=lambda: stopped.append("stop"), kill=lambda: stopped.append("kill")):
        pass
    assert stopped == []


def test_handlers_are_put_back_when_a_run_fails() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(ZeroDivisionError), SignalInterrupts(lambda: None):
        _ = 1 / 0
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_a_request_that_came_before_the_server_ends_it() -> None:
    interrupts = SignalInterrupts(lambda: None)
    interrupts.received = signal.SIGTERM
    stopped = threading.Event()
    with interrupts.serving(stop=stopped.set, kill=lambda: None):
        assert stopped.wait(DEADLINE_S)


def test_the_server_is_left_only_once_its_end_has_come_to_an_end() -> None:
    ended: list[bool] = []
    began = threading.Event()

    def stop() -> None:
        began.set()
        time.sleep(0.05)
        ended.append(True)

    interrupts = SignalInterrupts(lambda: None)
    interrupts.received = signal.SIGTERM
    with interrupts.serving(stop=stop, kill=lambda: None):
        assert began.wait(DEADLINE_S)
    assert ended == [True]


def test_interrupted_is_no_error_that_somebody_catches_by_accident() -> None:
    assert not issubclass(Interrupted, Exception)
