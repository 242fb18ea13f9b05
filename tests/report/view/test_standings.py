"""The winner beside its references, class by class, and beside what owners published."""

from __future__ import annotations

from dataclasses import replace
from math import log
from statistics import fmean

import pytest

from tests.report.test_best import FACTS
from tests.support.known_proofs import REF, A, played, state
from tests.support.played_night import played_night
from tests.support.trials import a_launch, a_sample, ended
from tuner.core.launch import LaunchResult
from tuner.core.outcome import Kind, Outcome
from tuner.core.trial import Errand
from tuner.report.view.inputs import ReportInputs
from tuner.report.view.standings import (
    class_standings,
    depth_standings,
    published_standings,
    standing_cells,
    standings,
)


def test_the_winner_comes_first_and_each_reference_has_its_interval() -> None:
    confirmation, records = state(played(arms=(A,)), ended=True)
    winner, reference = standings(ReportInputs(tuple(records), FACTS, confirmation))
    assert (winner.role, winner.interval, winner.ratio) == ("winner", None, "-")
    assert reference.interval is not None
    assert reference.interval.low < 2 < reference.interval.high
    assert reference.ratio.endswith(")")
    assert standing_cells(reference)[0].startswith("20.")


def test_without_a_confirmation_one_launch_of_each_is_compared() -> None:
    records = [
        a_launch(number, key, LaunchResult(Outcome(), samples=(a_sample(predicted_ms=ms),)), Errand())
        for number, (key, ms) in enumerate([(REF, 2000.0), (A, 1000.0)])
    ]
    _, reference = standings(ReportInputs(tuple(records), FACTS))
    assert (reference.interval, reference.ratio) == (None, "2.00x, one launch of each")


def test_a_reference_that_died_has_its_failure_and_no_figures() -> None:
    records = [a_launch(0, REF, ended(Kind.CRASHED), Errand())]
    (reference,) = standings(ReportInputs(tuple(records), FACTS))
    assert (reference.failure, standing_cells(reference)) == ("crashed", ("-",) * 4)


def test_each_class_has_the_interval_of_its_own_launches() -> None:
    night = played_night()
    rows = {row.name: row for row in class_standings(night)}
    assert set(rows) == {"code", "prose", "chat"}
    (overall,) = [row.interval for row in standings(night) if row.interval is not None]
    ratios = [row.interval.ratio for row in rows.values() if row.interval is not None]
    assert len(ratios) == len(rows)
    assert all(row.interval is not None and row.interval.alpha == overall.alpha for row in rows.values())
    # code accepts more drafts than prose, and the whole lies between
    assert rows["code"].winner_acceptance > rows["prose"].winner_acceptance  # type: ignore[operator]
    assert rows["prose"].interval.high < rows["code"].interval.low  # type: ignore[union-attr]
    assert log(overall.ratio) == pytest.approx(fmean(map(log, ratios)), abs=0.05)


def test_depths_are_told_only_where_there_are_several() -> None:
    assert depth_standings(played_night()) == []
    records = [
        a_launch(
            number,
            key,
            LaunchResult(
                Outcome(), samples=tuple(a_sample(depth_tokens=n, predicted_ms=ms) for n in (0, 8192))
            ),
            Errand(),
        )
        for number, (key, ms) in enumerate([(REF, 2000.0), (A, 1000.0)])
    ]
    found = depth_standings(ReportInputs(tuple(records), FACTS))
    assert [row.name for row in found] == ["0 tokens", "8,192 tokens"]


def test_what_owners_of_the_cards_published_stands_beside_it() -> None:
    night = played_night()
    shared, fork = published_standings(night)
    assert (shared.claim, shared.here_tok_s) == ("80 tok/s and more", None)
    assert "tensor-split 2,3" in shared.options
    assert fork.here_tok_s is None
    unknown = replace(night, facts={**night.facts, "devices": [{"description": "a card"}]})
    assert published_standings(unknown) == []


def test_published_options_that_were_launched_have_what_they_made_here() -> None:
    night = played_night()
    mtp = next(r for r in night.records if r.candidate and r.candidate.get("spec-draft-n-max") == 2)
    assert mtp.candidate is not None
    same = mtp.candidate.with_options({"tensor-split": (1, 1), "spec-draft-n-max": 2, "split-mode": "tensor"})
    records = (*night.records, replace(mtp, number=900, candidate=same))
    _, fork = published_standings(replace(night, records=records))
    assert fork.here_tok_s == pytest.approx(mtp.score)
