"""What a launch needs, and how sure it is to fit."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.memory.need import DeviceNeed, Excess, Prediction, chance_to_fit, tightest
from tuner.core.outcome import Stage

NEED = DeviceNeed(
    weights=1000.0,
    kv=200.0,
    recurrent=50.0,
    compute=100.0,
    draft=30.0,
    projector=20.0,
    runtime=600.0,
    sigma=100.0,
)
_parts = st.floats(0, 1e5)
needs = st.builds(
    DeviceNeed,
    weights=_parts,
    kv=_parts,
    recurrent=_parts,
    compute=_parts,
    draft=_parts,
    projector=_parts,
    runtime=_parts,
    sigma=st.just(0.0) | st.floats(1.0, 500.0),
)


def prediction(**devices: DeviceNeed) -> Prediction:
    return Prediction(MappingProxyType(devices), (), 12.34, "tuner")


def test_buffers_are_all_but_what_no_line_names() -> None:
    assert (NEED.buffers, NEED.total) == (1400, 2000)


@PROPERTY
@given(needs)
def test_stages_add_up_to_everything(need: DeviceNeed) -> None:
    assert sum(size for _, size in need.stages) == pytest.approx(need.total)


@pytest.mark.parametrize(
    ("room", "stage"),
    [
        (999, Stage.WEIGHTS),
        (1000, Stage.KV),
        (1249, Stage.RECURRENT),
        (1349, Stage.COMPUTE),
        (1399, Stage.DRAFT),
        (1999, Stage.RUNTIME),
        (2000, None),
    ],
)
def test_launch_breaks_at_the_step_that_has_no_room(room: float, stage: Stage | None) -> None:
    assert NEED.breaks_at(room) is stage


def test_half_of_all_launches_fit_into_what_is_expected() -> None:
    assert NEED.chance_to_fit(2000) == 0.5
    assert NEED.chance_to_fit(2100) == pytest.approx(0.841, abs=0.001)
    assert NEED.chance_to_fit(1800) == pytest.approx(0.023, abs=0.001)


def test_what_is_sure_fits_or_does_not() -> None:
    sure = replace(NEED, sigma=0.0)
    assert (sure.chance_to_fit(2000), sure.chance_to_fit(1999.9)) == (1.0, 0.0)


@PROPERTY
@given(needs, st.floats(0, 1e6), st.floats(0, 1e5))
def test_more_room_is_never_less_likely_to_do(need: DeviceNeed, room: float, more: float) -> None:
    assert 0 <= need.chance_to_fit(room) <= need.chance_to_fit(room + more) <= 1


# --- over all devices


def test_tightest_device_is_the_least_likely_to_fit() -> None:
    worst = tightest(prediction(CUDA0=NEED, CUDA1=NEED), {"CUDA0": 2100.0, "CUDA1": 1900.0})
    assert worst == Excess("CUDA1", NEED, 1900.0, NEED.chance_to_fit(1900))
    assert worst is not None
    assert worst.over_mib == 100
    assert worst.stage is Stage.RUNTIME


def test_device_that_is_exceeded_most_is_named_where_none_has_a_chance() -> None:
    sure = replace(NEED, sigma=0.0)
    worst = tightest(prediction(CUDA0=sure, CUDA1=sure), {"CUDA0": 1000.0, "CUDA1": 500.0})
    assert worst is not None
    assert worst.device == "CUDA1"


def test_device_that_fits_has_no_step_where_it_ends() -> None:
    worst = tightest(prediction(CUDA0=NEED), {"CUDA0": 3000.0})
    assert worst is not None
    assert (worst.over_mib, worst.stage) == (-1000, None)


def test_unknown_rooms_are_left_out() -> None:
    assert tightest(prediction(CUDA0=NEED), {}) is None
    assert tightest(prediction(), {"CUDA0": 1.0}) is None
    assert chance_to_fit(prediction(CUDA0=NEED), {"CUDA1": 1.0}) == 1


def test_all_devices_have_to_fit() -> None:
    both = prediction(CUDA0=NEED, CUDA1=NEED)
    assert chance_to_fit(both, {"CUDA0": 2000.0, "CUDA1": 2000.0}) == 0.25


def test_json_has_each_part_and_the_total() -> None:
    document = prediction(CUDA0=replace(NEED, kv=200.04)).to_json()
    assert (document["source"], document["host"]) == ("tuner", 12.3)
    assert document["devices"]["CUDA0"] == {
        "weights": 1000.0,
        "kv": 200.0,
        "recurrent": 50.0,
        "compute": 100.0,
        "draft": 30.0,
        "projector": 20.0,
        "runtime": 600.0,
        "sigma": 100.0,
        "total": 2000.0,
    }
