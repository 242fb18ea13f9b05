"""Signs of life: as long as there is something to show them for, and on after a failure."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.shared_study import until
from tuner.study.signs import Pulse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.study.documents import Stored

EVERY_S = 0.005


@dataclass
class PlayedSigns:
    """Keeps what is shown; fails when it is told to."""

    shown: list[int] = field(default_factory=list)
    fails: bool = False

    def show(self, trial_id: int) -> None:
        if self.fails:
            raise ConnectionError
        self.shown.append(trial_id)

    def of(self, trials: Sequence[Stored]) -> Mapping[int, object]:
        raise NotImplementedError

    def quiet_s(self, trials: Sequence[Stored]) -> Mapping[int, float | None]:
        raise NotImplementedError


def test_signs_are_shown_for_what_is_held_alone() -> None:
    signs = PlayedSigns()
    pulse = Pulse(signs, EVERY_S, lambda: None)
    pulse.hold(1)
    pulse.hold(2)
    assert (pulse.holds(1), pulse.holds(2)) == (True, True)
    until(lambda: signs.shown.count(2) >= 2)
    pulse.let_go(2)
    assert (pulse.holds(1), pulse.holds(2)) == (True, False)
    until(lambda: signs.shown[-4:] == [1, 1, 1, 1])
    pulse.let_go(1)
    pulse.stop()
    shown = list(signs.shown)
    threading.Event().wait(10 * EVERY_S)
    assert signs.shown == shown


def test_a_sign_that_cannot_be_shown_is_told_and_the_next_is_shown_all_the_same() -> None:
    signs, failed = PlayedSigns(fails=True), threading.Event()
    pulse = Pulse(signs, EVERY_S, failed.set)
    pulse.hold(1)
    assert failed.wait(10.0)
    assert signs.shown == []
    signs.fails = False
    until(lambda: signs.shown)
    pulse.stop()


def test_nothing_is_shown_before_there_is_something_to_show() -> None:
    before = threading.active_count()
    pulse = Pulse(PlayedSigns(), EVERY_S, lambda: None)
    assert threading.active_count() == before
    pulse.stop()
