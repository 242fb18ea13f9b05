"""Several engines and files for one budget: who searches when, who is out, and what follows for what is left."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from tests.support.played_race import LAUNCH_S, PlayedRace, PlayedRacer
from tuner.core.trial import Purpose
from tuner.errors import RigError
from tuner.runs.comparing import YOURS, Comparing, side_by_side, still_compared

FAST = tuple(50.0 + n / 10 for n in range(60))
AS_FAST = tuple(49.9 + n / 10 for n in range(60))
SLOW = tuple(30.0 + n / 10 for n in range(60))
SMALL: dict[str, Any] = {"file": "Q4", "off_nats": 0.08}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedRaces:
    return PlayedRaces(monkeypatch)


class PlayedRaces:
    """Makes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, *racers: PlayedRacer) -> PlayedRace:
        return PlayedRace(racers, self._monkeypatch)


def turns(race: PlayedRace) -> list[tuple[str, int]]:
    """Whose launches were made in a row, and how many."""
    names = [name for name, purpose in race.made if purpose is Purpose.SEARCH]
    return [(name, len(list(rows))) for name, rows in groupby(names)]


def of(race: PlayedRace, purpose: Purpose) -> list[str]:
    return [name for name, one in race.made if one is purpose]


# --- the race


def test_all_search_in_equal_turns_in_their_order(played: PlayedRaces) -> None:
    race = played(PlayedRacer("a Q8", FAST), PlayedRacer("b Q8", AS_FAST), PlayedRacer("a Q4", FAST, **SMALL))
    race.go(30)
    assert turns(race)[:6] == [("a Q8", 5), ("b Q8", 5), ("a Q4", 5), ("a Q8", 4), ("b Q8", 4), ("a Q4", 4)]
    assert sum(race.searched().values()) == 30
    assert race.kept[-1].searched


def test_who_cannot_win_makes_way_and_is_not_proved(played: PlayedRaces) -> None:
    slow = PlayedRacer("b Q8", SLOW)
    race = played(PlayedRacer("a Q8", FAST), slow)
    race.go(24, blocks=4, soak=True)
    assert race.searched() == {"a Q8": 19, "b Q8": 5}
    assert [(one.name, one.by, one.launches) for one in race.kept[-1].out] == [("b Q8", "a Q8", 4)]
    (note,) = [note for note in race.notes if note.startswith("Out")]
    assert note.startswith("Out after 4 launches: b Q8, a Q8 is better: 30.3 tok/s against 50.3")
    assert slow.proofs == []
    assert of(race, Purpose.STRETCH) == ["a Q8"]


def test_a_slower_file_with_better_answers_stays(played: PlayedRaces) -> None:
    race = played(PlayedRacer("a Q8", SLOW), PlayedRacer("a Q4", FAST, **SMALL))
    race.go(18, blocks=2)
    assert race.searched() == {"a Q8": 9, "a Q4": 9}
    assert of(race, Purpose.STRETCH) == ["a Q4", "a Q8"]  # the fastest first
    assert not race.kept[-1].out


def test_few_launches_are_shared_so_that_each_has_its_first_turn(played: PlayedRaces) -> None:
    race = played(*(PlayedRacer(name, FAST) for name in "abcd"))
    race.go(8)
    assert race.searched() == dict.fromkeys("abcd", 2)


def test_who_has_nothing_left_to_find_leaves_its_turns_to_the_others(played: PlayedRaces) -> None:
    race = played(PlayedRacer("a", (50.0, 50.1)), PlayedRacer("b", AS_FAST))
    race.go(20)
    assert race.searched() == {"a": 3, "b": 17}


def test_a_race_without_limit_ends_when_nobody_has_anything_left(played: PlayedRaces) -> None:
    race = played(PlayedRacer("a", FAST[:7]), PlayedRacer("b", AS_FAST[:9]))
    race.go()
    assert race.searched() == {"a": 8, "b": 10}


def test_an_engine_that_cannot_load_a_file_is_out_and_the_others_go_on(played: PlayedRaces) -> None:
    race = played(PlayedRacer("old", FAST, breaks_at=0), PlayedRacer("new", FAST))
    result = race.go(12)
    (out,) = race.kept[-1].out
    assert (out.name, out.by) == ("old", None)
    assert "unknown architecture" in out.why
    assert race.searched()["new"] == 11
    assert Comparing(result, blocks=0, worthwhile=0.01).winner() == "new"


def test_a_rig_that_fails_ends_the_run(played: PlayedRaces, monkeypatch: pytest.MonkeyPatch) -> None:
    race = played(PlayedRacer("old", FAST), PlayedRacer("new", FAST))

    def fail(_turn: object) -> None:
        raise RigError("a card is gone")

    monkeypatch.setattr(race.racers[1], "search", fail)
    with pytest.raises(RigError, match="a card is gone"):
        race.go(12)


def test_where_nothing_runs_there_is_no_winner(played: PlayedRaces) -> None:
    lost = (0.0,) * 40
    racers = [PlayedRacer(name, lost, default_tok_s=0.0) for name in ("old", "new")]
    result = played(*racers).go(60)
    assert Comparing(result, blocks=0, worthwhile=0.01).winner() is None
    assert [one.why for one in result.state.out] == ["nothing of it runs"] * 2
    assert [len(racer.trials) for racer in racers] == [13, 13]


def test_where_only_the_engines_own_choice_runs_it_wins(played: PlayedRaces) -> None:
    race = played(PlayedRacer("old", (0.0,) * 5), PlayedRacer("new", (0.0,) * 5, default_tok_s=40.0))
    result = race.go(20, blocks=2)
    assert Comparing(result, blocks=2, worthwhile=0.01).winner() == "new"
    assert of(race, Purpose.STRETCH) == []


# --- time


def test_the_search_leaves_time_for_what_follows(played: PlayedRaces) -> None:
    race = played(PlayedRacer("a", FAST), PlayedRacer("b", AS_FAST))
    race.go(seconds=600.0, blocks=2, soak=True)
    searching_s = LAUNCH_S * sum(race.searched().values())
    assert 250 <= searching_s <= 400
    assert race.clock.now_s <= 600 + LAUNCH_S
    assert of(race, Purpose.COMPARE)


def test_without_proof_the_search_has_all_of_it(played: PlayedRaces) -> None:
    race = played(PlayedRacer("a", FAST), PlayedRacer("b", AS_FAST))
    race.go(seconds=400.0)
    assert LAUNCH_S * sum(race.searched().values()) == 400


def test_what_a_proof_may_use_is_settled_once(played: PlayedRaces) -> None:
    race = played(PlayedRacer("a", FAST), PlayedRacer("b", AS_FAST))
    race.go(seconds=600.0, blocks=2, soak=True)
    before = race.kept[-1].proof_s
    assert set(before) == {"a", "b"}
    race.go(seconds=600.0, blocks=2, soak=True)
    assert race.kept[-1].proof_s == before


# --- the largest context


def test_each_winner_is_launched_with_the_largest_context_that_is_expected_to_fit(
    played: PlayedRaces,
) -> None:
    race = played(PlayedRacer("a", FAST), PlayedRacer("b", AS_FAST))
    race.go(12)
    assert [racer.contexts() for racer in race.racers] == [[32_768], [32_768]]


def test_one_that_is_too_large_after_all_is_followed_by_less_three_times_at_most(played: PlayedRaces) -> None:
    some, none = PlayedRacer("a", FAST, wall=30_000), PlayedRacer("b", AS_FAST, wall=20_000)
    race = played(some, none)
    race.go(12)
    assert some.contexts() == [32_768, 30_720, 28_672]
    assert none.contexts() == [32_768, 30_720, 28_672]


# --- side by side


def test_winners_are_launched_forth_and_back(played: PlayedRaces) -> None:
    race = played(PlayedRacer("a", FAST), PlayedRacer("b", AS_FAST, off_nats=0.0))
    result = race.go(12, blocks=4)
    assert of(race, Purpose.COMPARE) == ["a", "b", "b", "a", "a", "b", "b", "a"]
    interval = side_by_side(result).versus("b", "a")
    assert interval is not None
    assert interval.ratio == pytest.approx(49.9 / 50.0, rel=0.01)
    assert any(note.startswith("Side by side: a, b, in turns") for note in race.notes)


def test_the_fastest_beside_the_others_wins_whatever_its_own_study_said(played: PlayedRaces) -> None:
    """It was measured while the cards were hot."""
    hot = PlayedRacer("b", AS_FAST, beside=lambda block: 1.2 + block / 1000)
    race = played(PlayedRacer("a", FAST), hot)
    result = race.go(12, blocks=4)
    assert Comparing(result, blocks=4, worthwhile=0.01).winner() == "b"


def test_of_two_as_fast_the_better_answers_win(played: PlayedRaces) -> None:
    noise = (1.0, 1.04, 0.97, 1.02)
    better = PlayedRacer("a Q8", FAST, beside=lambda block: noise[block])
    worse = PlayedRacer("a Q4", FAST, **SMALL, beside=lambda block: noise[-1 - block] * 1.001)
    result = played(worse, better).go(12, blocks=4)
    assert set(side_by_side(result).tied()) == {"a Q8", "a Q4"}
    assert Comparing(result, blocks=4, worthwhile=0.01).winner() == "a Q8"


def test_a_clearly_faster_file_wins_though_its_answers_are_worse(played: PlayedRaces) -> None:
    result = played(PlayedRacer("a Q8", SLOW), PlayedRacer("a Q4", FAST, **SMALL)).go(18, blocks=4)
    assert side_by_side(result).tied() == ("a Q4",)
    assert Comparing(result, blocks=4, worthwhile=0.01).winner() == "a Q4"


def test_the_users_command_is_compared_too(played: PlayedRaces) -> None:
    race = played(PlayedRacer("a", FAST, has_users=True), PlayedRacer("b", AS_FAST))
    result = race.go(12, blocks=2)
    beside = side_by_side(result)
    interval = beside.versus("b", YOURS)
    assert interval is not None
    assert interval.ratio == pytest.approx(50.2 / 20, rel=0.02)


def test_the_users_command_is_compared_although_its_engine_is_out(played: PlayedRaces) -> None:
    race = played(PlayedRacer("old", SLOW, has_users=True), PlayedRacer("a", FAST), PlayedRacer("b", AS_FAST))
    result = race.go(20, blocks=2)
    assert race.kept[-1].gone == {"old"}
    assert of(race, Purpose.COMPARE).count("old") == 2
    assert side_by_side(result).versus("a", YOURS) is not None


@pytest.mark.parametrize(("blocks", "names"), [(0, "ab"), (4, "a")])
def test_there_is_no_comparison_without_confirmation_or_with_one_alone(
    played: PlayedRaces, blocks: int, names: str
) -> None:
    race = played(*(PlayedRacer(name, FAST) for name in names))
    result = race.go(12, blocks=blocks)
    assert of(race, Purpose.COMPARE) == []
    assert Comparing(result, blocks=blocks, worthwhile=0.01).winner() == "a"


def test_time_that_runs_out_ends_it_with_what_is_known(played: PlayedRaces) -> None:
    race = played(PlayedRacer("a", FAST[:4]), PlayedRacer("b", AS_FAST[:4]))
    race.go(seconds=230.0, blocks=8, soak=True)
    comparison = race.kept[-1].comparison
    assert comparison is None or comparison.ended
    assert race.clock.now_s <= 230 + LAUNCH_S


# --- endurance


def test_the_winner_of_all_alone_endures(played: PlayedRaces) -> None:
    race = played(PlayedRacer("a", FAST), PlayedRacer("b", AS_FAST))
    race.go(12, blocks=2, soak=True, endure_s=60.0)
    assert len(of(race, Purpose.ENDURE)) == 1
    assert [endure_s for racer in race.racers for _, endure_s in racer.proofs].count(60.0) == 1


def test_who_does_not_endure_makes_way_for_the_next(played: PlayedRaces) -> None:
    """Of the same study where that is the fastest still, and its ratios to the others are gone with it."""
    fails = PlayedRacer("a", FAST, does_not_endure=1)
    race = played(fails, PlayedRacer("b", AS_FAST))
    result = race.go(12, blocks=2, soak=True, endure_s=60.0)
    first, second = (one for one in fails.trials if one.errand.purpose is Purpose.ENDURE)
    assert first.key != second.key == fails.winner()
    assert "What won with a did not endure; the next best takes its place." in race.notes
    assert Comparing(result, blocks=2, worthwhile=0.01).winner() == "a"
    assert still_compared(result) == {"b"}


def test_where_the_next_best_is_slower_than_the_others_one_of_these_wins(played: PlayedRaces) -> None:
    fails = PlayedRacer("a", (51.0, 40.0, 40.1, 40.2, 40.3), does_not_endure=1)
    race = played(fails, PlayedRacer("b", AS_FAST))
    result = race.go(12, blocks=2, soak=True, endure_s=60.0)
    assert of(race, Purpose.ENDURE) == ["a", "b"]
    assert Comparing(result, blocks=2, worthwhile=0.01).winner() == "b"


# --- kills and more of a budget


def field() -> tuple[PlayedRacer, ...]:
    return (
        PlayedRacer("a Q8", SLOW),
        PlayedRacer("b Q8", tuple(speed * 0.7 for speed in SLOW)),
        PlayedRacer("a Q4", FAST, **SMALL, wall=30_000),
    )


@pytest.mark.parametrize("after", range(0, 44, 3))
def test_a_race_that_is_stopped_anywhere_goes_on_as_if_it_had_not_been(
    played: PlayedRaces, after: int
) -> None:
    options: dict[str, Any] = {"blocks": 2, "soak": True, "endure_s": 30.0}
    whole = played(*field())
    whole.go(25, **options)
    stopped = played(*field())
    stopped.interrupts.after = after
    stopped.go(25, **options)
    assert stopped.interrupted == (after < len(whole.made))
    assert len(stopped.made) == min(after, len(whole.made))
    stopped.interrupts.after = None
    stopped.go(25, **options)
    assert stopped.made == whole.made
    assert stopped.kept[-1] == whole.kept[-1]


def test_more_launches_go_on_with_the_search_and_compare_anew(played: PlayedRaces) -> None:
    race = played(PlayedRacer("a", FAST), PlayedRacer("b", AS_FAST))
    race.go(12, blocks=2)
    race.go(20, blocks=2)
    assert sum(race.searched().values()) == 20
    assert race.kept[-1].rounds == 2
    rounds = [one.errand.round for one in race.racers[0].trials if one.errand.purpose is Purpose.COMPARE]
    assert rounds == [1, 1, 2, 2]


def test_another_engine_that_joins_later_has_its_turns(played: PlayedRaces) -> None:
    first = PlayedRacer("a", FAST)
    race = played(first, PlayedRacer("b", AS_FAST))
    race.go(12)
    joined = PlayedRace((*race.racers, PlayedRacer("c", FAST)), race.monkeypatch, kept=race.kept)
    joined.go(24)
    assert joined.searched()["c"] >= 5
