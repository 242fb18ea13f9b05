"""What a worker says while its storage is away."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.support.launch_bench import NeverInterrupted
from tuner.cli import sharing
from tuner.core.interrupt import Interrupted

if TYPE_CHECKING:
    import pytest


class Waits(NeverInterrupted):
    """Waits end at once."""

    def sleep(self, seconds: float) -> None:
        pass


class Stops(NeverInterrupted):
    """Somebody asks to stop during the wait."""

    def sleep(self, seconds: float) -> None:  # noqa: ARG002 - as the real one
        raise Interrupted


def test_an_outage_is_said_once_and_the_next_one_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now_s[0])
    patience = sharing._Patience(Waits())
    for at_s in (0.0, 12.0, 40.0):  # tried again as each attempt fails
        now_s[0] = at_s
        assert patience("db cannot be used: refused", 2.0)
    assert capsys.readouterr().out.count("Waiting for it") == 1
    now_s[0] = 4000.0
    assert patience("db cannot be used: refused", 2.0)
    assert patience("db cannot be used: starting up", 2.0)
    assert capsys.readouterr().out.count("Waiting for it") == 2


def test_nobody_waits_who_was_asked_to_stop() -> None:
    assert not sharing._Patience(Stops())("db cannot be used: refused", 2.0)
