"""Keeping the machine awake while a run lasts, where the system has a way."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

#: An inhibitor that cannot be had says so at once; one that holds says nothing.
REFUSED_WITHIN_S = 0.5
END_S = 2.0


class SleepInhibitor:
    """Holds logind's inhibitor lock against sleep and idling, through `systemd-inhibit`.

    The lock is held by a child that waits for the end of its input: it goes when we go, however that happens.

    Args:
        program: The `systemd-inhibit` to use; default: the one on the PATH.
        can_suspend: False where the machine has no sleep state: then there is nothing to hold.

    Attributes:
        problem: Why the machine may fall asleep all the same; None where it cannot.
    """

    def __init__(self, program: str | None = None, *, can_suspend: bool | None = None) -> None:
        self.problem: str | None = None
        self._program = program or shutil.which("systemd-inhibit")
        self._can_suspend = can_suspend
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._can_suspend is False:
            return self
        if self._program is None:
            self.problem = "there is no systemd-inhibit on this system"
            return self
        argv = [self._program, "--what=sleep:idle:handle-lid-switch", "--who=tuner", "--mode=block"]
        try:
            self._child = subprocess.Popen(
                [*argv, "--why=llama-server is being tuned", "cat"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            self.problem = f"systemd-inhibit cannot be started: {error.strerror or error}"
            return self
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(REFUSED_WITHIN_S)
            said = self._child.stderr.read().decode(errors="replace").strip() if self._child.stderr else ""
            self.problem = (
                said.splitlines()[-1] if said else f"systemd-inhibit ended with {self._child.returncode}"
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        child = self._child
        if child is None:
            return
        if child.stdin is not None:
            with contextlib.suppress(OSError):
                child.stdin.close()
        try:
            child.wait(END_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait(END_S)
        if child.stderr is not None:
            child.stderr.close()
