"""Who is given up: whoever's sign stays the same for longer than the lease, by our own clock alone."""

from __future__ import annotations

from functools import partial
from operator import ne

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.study.leases import Watch

LEASE_S = 10.0
steps = st.lists(st.floats(0.0, 30.0), min_size=1, max_size=30)
#: What a sign says: times of clocks that are wrong and jump, counters that begin anew.
signs = st.none() | st.integers() | st.floats() | st.datetimes() | st.tuples(st.integers(), st.integers())


@pytest.mark.parametrize(
    ("seen", "expired"),
    [
        ([(0.0, "x")], False),
        ([(0.0, "x"), (10.0, "x")], False),  # for as long as the lease, and not longer
        ([(0.0, "x"), (10.1, "x")], True),
        ([(0.0, None), (10.1, None)], True),  # who never showed one
        ([(0.0, "x"), (9.0, "y"), (18.0, "y")], False),
        ([(0.0, "x"), (9.0, "y"), (19.1, "y")], True),
        ([(0.0, "x"), (9.0, "y"), (18.0, "x"), (27.0, "y")], False),
        ([(0.0, None), (9.0, "x"), (18.0, "x")], False),
        ([(100.0, 5), (109.0, 4), (118.0, 3)], False),  # another's clock may go backwards
    ],
)
def test_a_sign_may_stay_the_same_for_a_lease(seen: list[tuple[float, object]], *, expired: bool) -> None:
    watch = Watch(LEASE_S)
    found = [watch.expired({1: sign}, now_s) for now_s, sign in seen]
    assert found == [[]] * (len(seen) - 1) + [[1] if expired else []]


@PROPERTY
@given(steps, st.data())
def test_nobody_whose_sign_changes_within_the_lease_is_ever_expired(
    waits_s: list[float], data: st.DataObject
) -> None:
    """However often it is looked, and whatever the signs say: that they change is all that counts."""
    watch, now_s, changed_s, sign = Watch(LEASE_S), 0.0, 0.0, data.draw(signs)
    for wait_s in waits_s:
        now_s += wait_s
        if now_s - changed_s > LEASE_S:
            before = sign
            sign = data.draw(signs.filter(partial(ne, before)))
            changed_s = now_s
        assert watch.expired({7: sign, 8: "always the same"}, now_s) in ([], [8])


@PROPERTY
@given(steps, st.floats(-1e9, 1e9))
def test_where_our_clock_begins_does_not_matter(waits_s: list[float], offset_s: float) -> None:
    """Steps of a quarter of a second, so that sums are exact."""
    here, there, now_s = Watch(LEASE_S), Watch(LEASE_S), 0.0
    offset_s = float(round(offset_s))
    for wait_s in waits_s:
        now_s += round(wait_s * 4) / 4
        assert here.expired({1: "x"}, now_s) == there.expired({1: "x"}, now_s + offset_s)


@PROPERTY
@given(steps, st.integers(0, 29))
def test_after_the_storage_was_away_everybody_has_a_whole_lease(waits_s: list[float], at: int) -> None:
    watch, now_s, since_s = Watch(LEASE_S), 0.0, None
    for number, wait_s in enumerate(waits_s):
        now_s += wait_s
        if number == at:
            watch.forget()
            since_s = None
        since_s = now_s if since_s is None else since_s
        assert watch.expired({1: "x"}, now_s) == ([1] if now_s - since_s > LEASE_S else [])


def test_who_is_no_longer_watched_is_forgotten() -> None:
    """A trial that another worker has given up meanwhile, and one that begins anew."""
    watch = Watch(LEASE_S)
    assert watch.expired({1: "x", 2: "x"}, 0.0) == []
    assert watch.expired({2: "y"}, 9.0) == []
    assert watch.expired({1: "x", 2: "y"}, 19.0) == []
    assert watch.expired({1: "x", 2: "y"}, 19.1) == [2]
