"""A run that loses its terminal ends cleanly, or goes on where it was told to."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.tuner_command import TunerCommand, lives
from tuner.core.outcome import Kind


@contextmanager
def in_a_terminal(command: TunerCommand, *prefix: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A run as the leader of a session on a terminal of its own; gives it and the terminal's other end."""
    ours, theirs = os.openpty()
    argv = [*prefix, sys.executable, "-m", "tuner", *command.words()]
    process = subprocess.Popen(
        argv,
        cwd=command.folder,  # nohup writes there
        env=command.environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one thread, before it starts
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait(10)


def test_closing_the_terminal_stops_the_server_and_keeps_what_was_measured(command: TunerCommand) -> None:
    command.fake.always(hang="load")
    with in_a_terminal(command) as (process, terminal):
        (command.folder / "tuner.log").touch()
        command.wait_until(command.launches)
        os.close(terminal)
        assert process.wait(20) == 128 + signal.SIGHUP
    assert [record.outcome.kind for record in command.records() if record.outcome] == [Kind.STOPPED]
    assert not any(lives(event) for event in command.launches())


def test_nohup_outlives_the_terminal(command: TunerCommand) -> None:
    command.fake.always(tok_s=1000.0)
    with in_a_terminal(command, "nohup") as (process, terminal):
        (command.folder / "tuner.log").touch()
        command.wait_until(lambda: len(command.launches()) > 1)
        os.close(terminal)
        before = len(command.launches())
        command.wait_until(lambda: len(command.launches()) > before + 2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
