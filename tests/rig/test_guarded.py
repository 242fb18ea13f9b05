"""Questions to a driver that may never answer."""

from __future__ import annotations

import time
from threading import Event

import pytest

from tuner.rig.guarded import Guarded


def test_an_answer_is_given_as_it_is() -> None:
    answers = iter([1, 2])
    ask = Guarded(lambda: next(answers), otherwise=0)
    assert (ask(), ask()) == (1, 2)
    assert not ask.hangs


def test_what_is_raised_is_raised_here() -> None:
    def ask() -> int:
        raise LookupError("no card")

    with pytest.raises(LookupError, match="no card"):
        Guarded(ask, otherwise=0)()


def test_a_question_that_hangs_is_asked_again_only_when_it_has_come_back() -> None:
    test_over = Event()
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        test_over.wait(30)
        return 7

    guarded = Guarded(ask, otherwise=0, deadline_s=0.05)
    try:
        began = time.monotonic()
        assert guarded() == 0
        assert [guarded() for _ in range(20)] == [0] * 20
        assert time.monotonic() - began < 0.5
        assert (guarded.hangs, len(asked)) == (True, 1)
    finally:
        test_over.set()
    end = time.monotonic() + 10
    while guarded.hangs:
        assert time.monotonic() < end
        time.sleep(0.001)
    assert guarded() == 7
