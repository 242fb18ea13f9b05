"""Speed against split: what is on the curves, what lies where, and where cards are full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.test_best import FACTS
from tests.support.known_proofs import PLAIN, searched
from tests.support.models import splits_of
from tests.support.played_night import played_night
from tuner.core.candidate import Candidate
from tuner.core.memory.need import DeviceNeed
from tuner.report.view.inputs import ReportInputs
from tuner.report.view.measured import share_pct
from tuner.report.view.split_speed import split_speed, split_table
from tuner.report.view.walls import walls_of_mode

LAYER = PLAIN.with_options({"device": ("CUDA0", "CUDA1"), "tensor-split": (10, 21)})


@pytest.mark.parametrize(
    ("options", "share"),
    [
        ({"device": ("CUDA0", "CUDA1"), "tensor-split": (1, 3)}, 25.0),
        ({"device": ("CUDA1", "CUDA0"), "tensor-split": (1, 3)}, 75.0),
        ({"split-mode": "none", "device": ("CUDA0",)}, 100.0),
        ({"split-mode": "none", "device": ("CUDA1",)}, 0.0),
        ({"device": ("CUDA1", "CUDA2"), "tensor-split": (1, 1)}, 0.0),
        ({"device": ("CUDA0", "CUDA1")}, None),
    ],
)
def test_a_share_is_what_the_first_card_holds_whatever_the_order(
    options: dict[str, object], share: float | None
) -> None:
    assert share_pct(Candidate.from_json({"split-mode": "layer", **options}), "CUDA0") == share


def test_each_mode_has_a_curve_of_its_fastest_from_left_to_right() -> None:
    section = split_speed(played_night())
    assert section is not None
    curves = {curve.mode: curve for curve in section.curves}
    assert list(curves) == ["layer", "tensor"]
    for curve in curves.values():
        shares = [point.share_pct for point in curve.best]
        assert shares == sorted(set(shares))
    at_40 = [
        p for p in (*curves["tensor"].best, *curves["tensor"].others) if p.share_pct == pytest.approx(40)
    ]
    (best,) = [point for point in curves["tensor"].best if point.share_pct == pytest.approx(40)]
    assert best.tok_s == max(point.tok_s for point in at_40)
    assert len(at_40) == 5
    assert len(split_table(section).rows) == sum(len(c.best) + len(c.others) for c in section.curves)


def test_every_point_says_what_lies_where() -> None:
    section = split_speed(played_night())
    assert section is not None
    layer = next(curve for curve in section.curves if curve.mode == "layer").best[-1]
    assert layer.holds.startswith("CUDA0: layers 0 to ")
    assert "CUDA1: " in layer.holds
    assert layer.holds.endswith("output")
    tensor = next(curve for curve in section.curves if curve.mode == "tensor").best[0]
    assert "KV heads" in tensor.holds


def test_without_the_models_header_the_parts_of_the_split_are_told_and_no_walls_drawn() -> None:
    section = split_speed(replace(played_night(), walls=None))
    assert section is not None
    layer = next(curve for curve in section.curves if curve.mode == "layer").best[0]
    assert layer.holds == "CUDA0: 24 of 66 parts; CUDA1: 42 of 66 parts"
    assert section.walls == ()
    assert section.sentences == (
        "Where each card is full is not drawn: the model's file cannot be read any more.",
    )


def test_walls_lie_beyond_everything_that_ran_and_not_far_from_what_did_not() -> None:
    night = played_night()
    section = split_speed(night)
    assert section is not None
    for one in section.walls:
        curve = next(curve for curve in section.curves if curve.mode == one.mode)
        shares = [point.share_pct for point in curve.best]
        (first,) = [wall for wall in one.walls if wall.device == "CUDA0"]
        (second,) = [wall for wall in one.walls if wall.device == "CUDA1"]
        assert first.full_above
        assert not second.full_above
        assert second.at_pct < min(shares)
        assert max(shares) < first.at_pct
    layer = next(one for one in section.walls if one.mode == "layer")
    assert max(wall.at_pct for wall in layer.walls) < 100 * 40 / 66  # that one was launched and did not fit
    assert any("CUDA0 is full above" in sentence for sentence in section.sentences)
    assert "full at" in section.alt


def needs(candidate: Candidate) -> dict[str, DeviceNeed]:
    """100 MiB a unit, and 50 that nobody names."""
    return {
        name: DeviceNeed(weights=100.0 * part, runtime=50.0)
        for name, part in zip(candidate.devices, candidate.split, strict=True)
    }


@pytest.mark.parametrize(
    ("room", "said", "first", "second"),
    [
        ({"CUDA0": 1250.0, "CUDA1": 2550.0}, {}, 12.5, 5.5),  # 12 and 25 units fit
        # the run knew of 150 MiB more in the first card's buffers: one unit less, and one more where the edge is met
        ({"CUDA0": 1250.0, "CUDA1": 2550.0}, {"CUDA0": 1150.0}, 10.5, 5.5),
        ({"CUDA0": 9000.0, "CUDA1": 2550.0}, {}, None, 5.5),
    ],
)
def test_a_wall_lies_between_the_last_split_that_fits_and_the_first_that_does_not(
    room: dict[str, float], said: dict[str, float], first: float | None, second: float | None
) -> None:
    found = walls_of_mode(LAYER, splits_of(31), "CUDA0", needs_of=needs, room_mib=room, buffers_mib=said)
    assert found is not None
    walls = {wall.device: wall.at_pct * 31 / 100 for wall in found.walls}
    assert walls.get("CUDA0") == (None if first is None else pytest.approx(first))
    assert walls.get("CUDA1") == (None if second is None else pytest.approx(second))
    assert not found.nothing_fits


def test_where_no_split_fits_it_is_said() -> None:
    found = walls_of_mode(
        LAYER,
        splits_of(31),
        "CUDA0",
        needs_of=needs,
        room_mib={"CUDA0": 500.0, "CUDA1": 600.0},
        buffers_mib={},
    )
    assert found is not None
    assert found.nothing_fits


def test_one_card_has_no_walls() -> None:
    alone = LAYER.with_options({"split-mode": "none", "device": ("CUDA0",)})
    assert walls_of_mode(alone, splits_of(31), "CUDA0", needs_of=needs, room_mib={}, buffers_mib={}) is None


def test_a_study_over_one_device_has_no_such_section() -> None:
    assert split_speed(ReportInputs(tuple(searched()), FACTS)) is None
