"""Runs `tuner` with short deadlines, and does to itself at a boundary what its order says.

What happens is done from outside, by patching names of the tuner: production code has no hooks for it. Before
its first launch it writes down which servers of earlier runs still live, since none may.
"""

import json
import os
import resource
import signal
import sys
import tempfile
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

from tests.chaos.boundaries import BY_NAME, at
from tests.chaos.deadlines import shorten
from tests.chaos.leftovers import servers
from tests.chaos.orders import Act, Order
from tuner.cli.app import main

#: Gets one line for each run that came to a launch: the process ids of the servers that lived then.
ORPHANS_VARIABLE = "CHAOS_ORPHANS"
#: The file that takes all that is left of a disk.
FILLER = "filler"
_CHUNK = bytes(64 * 1024)


def run_as(words: list[str], environment: dict[str, str], log_path: Path, complaints: Connection) -> None:
    """Be a process of that command: in that environment, with standard error going to a pipe."""
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # as the environment says, not as it said
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.dup2(log, 1)
    os.dup2(complaints.fileno(), 2)
    os.close(log)
    complaints.close()
    sys.argv = ["tuner", *words]
    run()


def run() -> None:
    """Run the command in `sys.argv`; its exit is the driver's."""
    order = Order.of(os.environ)
    with ExitStack() as stack:
        shorten(stack)
        stack.enter_context(at(BY_NAME["before journal"], 1, _note_orphans))
        if order is not None:
            stack.enter_context(at(BY_NAME[order.boundary], order.nth, lambda: _do(order)))
        main()


def _note_orphans() -> None:
    found = [process.pid for process in servers(Path(os.environ["FAKE_EVENTS"]))]
    with Path(os.environ[ORPHANS_VARIABLE]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(found) + "\n")


def _do(order: Order) -> None:
    match order.act:
        case Act.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        case Act.FILL:
            _fill(Path(order.folder))
        case Act.LIMIT:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # a file as well
            # the hard limit stays: Python ignores the signal, and a write beyond the limit is an error
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))


def _fill(folder: Path) -> None:
    """Leave not a byte."""
    with (folder / FILLER).open("ab", buffering=0) as file:
        for chunk in (_CHUNK, _CHUNK[:512], _CHUNK[:1]):
            try:
                while True:
                    file.write(chunk)
            except OSError:
                continue
