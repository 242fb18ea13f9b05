"""A whole retune on played rigs: one as it was, one as it is now, each launch counted."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.support.played_retune import PlayedRetune, Study
from tests.support.played_rigs import simulated
from tuner.core.candidate import Candidate
from tuner.core.space import Condition
from tuner.core.trial import Purpose
from tuner.report.best import runner_up_of
from tuner.runs.retune import Retuned
from tuner.search.canary.claim import Claim, measured_ratio
from tuner.search.canary.verdict import Verdict
from tuner.search.confirmation.result import result_of
from tuner.simulate.played_rig import Curse, PlayedRig

PAIR, LONG = "rtx5090-3090ti", "rtx5080-3090"
TENSOR_Q8: Condition = (("split-mode", ("tensor",)), ("cache-type-k", ("q8_0",)))


def rig(name: str) -> PlayedRig:
    return simulated(name).rig


def cursed(played: PlayedRig, slow: float, when: Condition) -> PlayedRig:
    return replace(played, quirks=replace(played.quirks, curses=(*played.quirks.curses, Curse(slow, when))))


def refusing(played: PlayedRig, when: Condition) -> PlayedRig:
    return replace(played, quirks=replace(played.quirks, unsupported=(*played.quirks.unsupported, when)))


@cache
def study(name: str, *, without: Condition | None = None) -> Study:
    played = rig(name)
    return Study.made(played if without is None else refusing(played, without))


def said(run: PlayedRetune) -> str:
    return "\n".join(run.progress.notes)


def winner(ended: Retuned) -> Candidate:
    assert ended.winner is not None
    return Candidate.from_json(json.loads(ended.winner))


def verdict(ended: Retuned) -> Verdict:
    assert ended.judged is not None
    return ended.judged.verdict


@pytest.mark.parametrize("seed", [1, 2])
def test_an_unchanged_build_takes_three_launches_a_side_and_rewrites_nothing(
    tmp_path: Path, seed: int
) -> None:
    run = PlayedRetune(tmp_path, study(PAIR), rig(PAIR), seed=seed)
    ended = run.go(12)
    assert verdict(ended) is Verdict.UNCHANGED
    assert ended.winner is None
    assert run.launcher.launched.count(run.study.best.key()) == 3
    assert run.launcher.launched.count("reference:previous") == 3
    assert len(run.launcher.launched) <= 12
    assert {record.errand.purpose for record in run.store.records()} == {Purpose.CANARY}


@pytest.mark.parametrize("seed", [1, 2])
def test_a_build_that_is_slower_in_tensor_mode_only_is_reported_with_the_right_cause(
    tmp_path: Path, seed: int
) -> None:
    assert study(PAIR).best.get("split-mode") == "tensor"
    slower = cursed(rig(PAIR), 1 / 0.7, (("split-mode", ("tensor",)),))
    run = PlayedRetune(tmp_path, study(PAIR), slower, seed=seed)
    ended = run.go(12)
    assert verdict(ended) is Verdict.SLOWER
    assert ended.suspected == {"split-mode tensor"}
    assert ended.judged is not None
    own = ended.judged.changes[run.study.best.key()]
    assert own.in_turns
    assert own.interval is not None
    assert own.interval.low < 0.7 < own.interval.high < 1
    assert len(run.launcher.launched) <= 12


def test_with_more_launches_the_best_of_the_slower_build_is_found_and_proved(tmp_path: Path) -> None:
    """What was not slowed down is known from before: it takes no search from nothing."""
    slower = cursed(rig(PAIR), 1 / 0.7, (("split-mode", ("tensor",)),))
    run = PlayedRetune(tmp_path, study(PAIR), slower)
    ended = run.go(24)
    found = winner(ended)
    assert found.get("split-mode") != "tensor"
    truth = run.launcher.now
    best_tok_s = truth.best(study(PAIR).task.bound)[1]
    assert (truth.true_rate(found) or 0) > 0.9 * best_tok_s
    assert "times 0.7" in said(run)
    assert "with split-mode tensor" in said(run)
    purposes = [record.errand.purpose for record in run.store.records()]
    assert purposes[-1] is Purpose.SOAK
    assert Purpose.CONFIRM in purposes
    assert len(run.launcher.launched) <= 24


@pytest.mark.parametrize("seed", [1, 2])
def test_what_has_become_possible_is_found_and_used(tmp_path: Path, seed: int) -> None:
    """The engine of then refused tensor mode with a q8_0 cache, without which this context does not fit."""
    before = study(LONG, without=TENSOR_Q8)
    assert before.best.get("split-mode") != "tensor"
    run = PlayedRetune(tmp_path, before, rig(LONG), seed=seed)
    ended = run.go(12)
    found = winner(ended)
    assert (found.get("split-mode"), found.get("cache-type-k")) == ("tensor", "q8_0")
    assert verdict(ended) is Verdict.UNCHANGED  # what was best before still makes what it made
    confirmation = run.store.confirmation()
    assert confirmation is not None
    result = result_of(confirmation, run.store.records())
    assert result is not None
    against = {one.arm: one.interval for one in result.references}
    assert against["reference:previous"] is not None
    assert against["reference:previous"].low > 1.1
    assert runner_up_of(found.key(), run.store.records(), confirmation) == before.best.key()
    assert run.store.records()[-1].errand.purpose is Purpose.SOAK
    assert len(run.launcher.launched) <= 12


def test_something_new_that_is_no_better_changes_nothing(tmp_path: Path) -> None:
    before = study(PAIR, without=TENSOR_Q8)
    ended = PlayedRetune(tmp_path, before, rig(PAIR)).go(12)
    assert verdict(ended) is Verdict.UNCHANGED
    assert ended.winner is None


def test_a_file_that_does_not_serve_any_more_is_renewed_although_nothing_is_better(tmp_path: Path) -> None:
    run = PlayedRetune(tmp_path, study(PAIR), rig(PAIR), renews=True)
    ended = run.go(12)
    assert verdict(ended) is Verdict.UNCHANGED
    assert winner(ended) in {run.study.best, run.study.runner_up}
    assert run.store.records()[-1].errand.purpose is Purpose.SOAK
    assert len(run.launcher.launched) <= 12


def test_a_build_on_which_the_best_does_not_run_is_broken_and_the_next_best_is_proved(tmp_path: Path) -> None:
    broken = refusing(rig(PAIR), (("split-mode", ("tensor",)),))
    run = PlayedRetune(tmp_path, study(PAIR), broken)
    ended = run.go(30)
    assert verdict(ended) is Verdict.BROKEN
    assert ended.judged is not None
    assert "unsupported" in ended.judged.why
    assert winner(ended).get("split-mode") != "tensor"
    assert len(run.launcher.launched) <= 30


def test_a_faster_build_is_said_to_be_faster(tmp_path: Path) -> None:
    before = Study.made(cursed(rig(PAIR), 1.4, (("split-mode", ("tensor", "layer", "none")),)))
    run = PlayedRetune(tmp_path, before, rig(PAIR))
    ended = run.go(12)
    assert verdict(ended) is Verdict.FASTER
    assert ended.judged is not None
    assert ended.judged.changes[before.best.key()].ratio == pytest.approx(1.4, rel=0.1)


def test_without_the_old_engine_its_records_stand_for_it(tmp_path: Path) -> None:
    slower = cursed(rig(PAIR), 1 / 0.7, (("split-mode", ("tensor",)),))
    run = PlayedRetune(tmp_path, study(PAIR), slower, keeps_old=False)
    ended = run.go(12)
    assert verdict(ended) is Verdict.SLOWER
    assert ended.judged is not None
    assert not ended.judged.changes[run.study.best.key()].in_turns
    assert "reference:previous" not in run.launcher.launched
    assert ended.suspected == {"split-mode tensor"}


@pytest.mark.parametrize("cut", [1, 4, 7, 10])
def test_a_retune_that_was_killed_goes_on_and_ends_as_it_would_have(tmp_path: Path, cut: int) -> None:
    """The dice of launches are another's after a kill, the decisions are not."""

    class KilledError(Exception):
        pass

    before = study(LONG, without=TENSOR_Q8)
    run = PlayedRetune(tmp_path, before, rig(LONG))
    real = run.launcher.run

    def dying(*given: object, **named: object) -> object:
        if len(run.launcher.launched) == cut:
            raise KilledError
        return real(*given, **named)  # type: ignore[arg-type]  # as it was called

    run.launcher.run = dying  # type: ignore[method-assign,assignment]  # it dies in a launch
    with pytest.raises(KilledError):
        run.go(12)
    again = PlayedRetune(tmp_path, before, rig(LONG), seed=2)
    ended = again.go(12)
    assert winner(ended).get("split-mode") == "tensor"
    made = [one for one in again.store.records() if one.outcome is not None and one.outcome.kind != "stopped"]
    assert len(made) <= 12
    launches = [(one.key, one.errand) for one in made if one.errand.purpose is Purpose.CANARY]
    assert len(set(launches)) == len(launches)


def test_the_same_retune_launches_nothing_more(tmp_path: Path) -> None:
    before = study(LONG, without=TENSOR_Q8)
    first = PlayedRetune(tmp_path, before, rig(LONG)).go(12)
    again = PlayedRetune(tmp_path, before, rig(LONG))
    ended = again.go(12)
    assert again.launcher.launched == []
    assert ended.winner == first.winner
    assert verdict(ended) is verdict(first)


@pytest.mark.parametrize(("raised", "holds"), [(1.0, True), (1.2, False), (1.5, False)])
def test_a_claim_holds_on_its_own_rig_and_not_when_it_was_raised(
    tmp_path: Path, raised: float, *, holds: bool
) -> None:
    run = PlayedRetune(tmp_path, study(PAIR), rig(PAIR), keeps_old=False)
    best, default, scores = run.study.best.key(), "reference:engine-default", run.study.scores
    ratio = (sum(scores[best]) / len(scores[best])) / (sum(scores[default]) / len(scores[default]))
    claim = Claim("engine-default", ratio * raised, half_log=0.02)
    ended = run.measure(claim)
    assert ended.canary is not None
    found = measured_ratio(ended.canary, run.store.records(), best=best, reference=default)
    assert found is not None
    assert claim.holds(found) is holds
    assert len(run.launcher.launched) in {6, 10}
    assert set(run.launcher.launched) == {best, default}
