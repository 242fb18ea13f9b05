"""Draft depth against speed and acceptance."""

from __future__ import annotations

from tests.report.test_best import FACTS
from tests.support.known_proofs import searched
from tests.support.played_night import played_night
from tuner.report.view.draft_depth import depth_table, draft_depth
from tuner.report.view.inputs import ReportInputs
from tuner.report.view.measured import measured_candidates


def test_each_mode_has_its_fastest_at_each_depth() -> None:
    night = played_night()
    section = draft_depth(night)
    assert section is not None
    curves = {curve.mode: curve.points for curve in section.curves}
    assert [point.depth for point in curves["layer"]] == [0, 2, 4, 6]
    assert [point.depth for point in curves["tensor"]] == [0, 2, 3, 4, 6]
    measured = measured_candidates(night.records, night.confirmation)
    three = [one.score_tok_s for one in measured if one.mode == "tensor" and one.candidate.draft_depth == 3]
    assert curves["tensor"][2].tok_s == max(three)
    assert len(three) > 1


def test_acceptance_falls_with_depth_and_there_is_none_without_drafts() -> None:
    section = draft_depth(played_night())
    assert section is not None
    tensor = next(curve.points for curve in section.curves if curve.mode == "tensor")
    assert tensor[0].acceptance is None
    accepted = [point.acceptance for point in tensor[1:] if point.acceptance is not None]
    assert accepted == sorted(accepted, reverse=True)
    assert len(accepted) == 4
    assert [row[1] for row in depth_table(section).rows if row[0] == "tensor"][:2] == ["no drafts", "2"]
    assert "tensor: fastest with 3 tokens, " in section.alt


def test_a_study_without_drafts_has_no_such_section() -> None:
    assert draft_depth(ReportInputs(tuple(searched()), FACTS)) is None
