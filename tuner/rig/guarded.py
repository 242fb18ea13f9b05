"""Calls into a driver that may never come back."""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Answer = TypeVar("_Answer")


class Guarded(Generic[_Answer]):
    """A question that is answered within a deadline, with what stands in for the answer if need be.

    While a call has not come back no other is made, so at most one thread is ever left behind; it is a
    daemon, so it does not keep the program from ending.

    Args:
        ask: The question; what it raises is raised here.
        otherwise: Stands in for the answer.
        deadline_s: How long an answer may take.
    """

    def __init__(self, ask: Callable[[], _Answer], *, otherwise: _Answer, deadline_s: float = 2.0) -> None:
        self._ask = ask
        self._otherwise = otherwise
        self._deadline_s = deadline_s
        self._latest: Future[_Answer] | None = None

    @property
    def hangs(self) -> bool:
        """Whether the latest call has not come back."""
        return self._latest is not None and not self._latest.done()

    def __call__(self) -> _Answer:
        """Ask."""
        if self.hangs:
            return self._otherwise
        answer: Future[_Answer] = Future()
        self._latest = answer
        Thread(target=_fulfil, args=(answer, self._ask), name="driver call", daemon=True).start()
        try:
            return answer.result(self._deadline_s)
        except TimeoutError:
            return self._otherwise


def _fulfil(answer: Future[_Answer], ask: Callable[[], _Answer]) -> None:
    try:
        answer.set_result(ask())
    except BaseException as error:  # noqa: BLE001 - it is raised again where the answer is waited for
        answer.set_exception(error)
