"""What disturbs a trial, and what does not."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.readings import readings
from tests.support.strategies import PROPERTY
from tuner.core.disturbance import disturbance, others_mib, usual_others_mib
from tuner.core.outcome import Kind, Outcome, Phase
from tuner.core.rig import DeviceUser
from tuner.core.telemetry import GpuReading, GpuSummary, Throttle, summarise

if TYPE_CHECKING:
    from collections.abc import Mapping

amounts_mib = st.dictionaries(st.sampled_from(["CUDA0", "CUDA1"]), st.integers(0, 50_000))


def a_summary(
    clock_mhz: float | None = 1700,
    *,
    loaded: int = 100,
    hot_c: float | None = None,
    throttle: Mapping[str, float] = MappingProxyType({}),
) -> GpuSummary:
    return GpuSummary(
        samples=200,
        loaded_samples=loaded,
        span_s=40.0,
        sm_clock_mhz=clock_mhz,
        temperature_max_c=hot_c,
        throttle=throttle,
    )


def judge(
    summary: GpuSummary,
    usual_mhz: float | None = 1700,
    others_before_mib: int | None = None,
    others_now_mib: int | None = None,
) -> Outcome | None:
    return disturbance(
        {"CUDA0": summary},
        study_clock_mhz={} if usual_mhz is None else {"CUDA0": usual_mhz},
        others_before_mib={} if others_before_mib is None else {"CUDA0": others_before_mib},
        others_now_mib={} if others_now_mib is None else {"CUDA0": others_now_mib},
    )


def test_a_trial_like_the_others_is_not_disturbed() -> None:
    assert judge(a_summary()) is None
    assert disturbance({}, study_clock_mhz={}, others_before_mib={}, others_now_mib={}) is None


@pytest.mark.parametrize("reason", ["hw-slowdown", "hw-thermal", "hw-power-brake", "sw-thermal"])
def test_a_card_that_was_slowed_disturbs_and_says_why(reason: str) -> None:
    assert judge(a_summary(hot_c=93, throttle={reason: 0.34})) == Outcome(
        Kind.DISTURBED,
        phase=Phase.BENCHMARK,
        device="CUDA0",
        evidence=f"CUDA0 throttled ({reason}) in 34% of the readings, up to 93 °C",
    )


def test_the_reason_that_says_more_is_named() -> None:
    found = judge(a_summary(throttle={"hw-slowdown": 0.5, "hw-thermal": 0.5}))
    assert found is not None
    assert found.evidence == "CUDA0 throttled (hw-thermal) in 50% of the readings"


def test_a_moment_of_it_disturbs_nothing() -> None:
    assert judge(a_summary(throttle={"sw-thermal": 0.01})) is None


def test_a_card_at_its_power_limit_is_as_it_should_be() -> None:
    assert judge(a_summary(throttle={"sw-power-cap": 1.0})) is None
    assert judge(a_summary(clock_mhz=1200, throttle={"sw-power-cap": 0.9})) is None


@pytest.mark.parametrize(("clock_mhz", "disturbed"), [(1531, False), (1529, True), (2000, False)])
def test_a_clock_that_fell_by_more_than_a_tenth_disturbs(clock_mhz: float, *, disturbed: bool) -> None:
    found = judge(a_summary(clock_mhz))
    assert (found is not None) == disturbed
    if found is not None:
        assert found.evidence == "CUDA0 ran at 1,529 MHz under load, 1,700 MHz in earlier trials"


@pytest.mark.parametrize(
    ("summary", "usual_mhz"),
    [(a_summary(600), None), (a_summary(None), 1700), (a_summary(600, loaded=2), 1700)],
    ids=["first trial", "no clock", "hardly used"],
)
def test_a_clock_without_another_to_compare_says_nothing(
    summary: GpuSummary, usual_mhz: float | None
) -> None:
    assert judge(summary, usual_mhz) is None


@pytest.mark.parametrize(
    ("before_mib", "now_mib", "disturbed"),
    [
        (0, 256, False),
        (0, 257, True),
        (1000, 1256, False),
        (1000, 1257, True),
        (10_000, 11_900, False),  # more than 256 MiB, less than a fifth
        (10_000, 12_001, True),
        (3000, 200, False),
    ],
)
def test_others_that_use_more_than_at_the_start_disturb(
    before_mib: int, now_mib: int, *, disturbed: bool
) -> None:
    found = judge(a_summary(), others_before_mib=before_mib, others_now_mib=now_mib)
    assert (found is not None) == disturbed
    if found is not None:
        said = f"CUDA0 was used by others with {now_mib:,} MiB, {before_mib:,} MiB at the start of the study"
        assert found.evidence == said


def test_others_of_whom_nothing_was_known_at_the_start_disturb_nothing() -> None:
    assert judge(a_summary(), others_now_mib=9000) is None


def test_everything_found_is_said_and_the_first_device_named() -> None:
    found = disturbance(
        {"CUDA0": a_summary(1000), "CUDA1": a_summary(throttle={"sw-thermal": 0.2})},
        study_clock_mhz={"CUDA0": 1700},
        others_before_mib={"CUDA0": 10},
        others_now_mib={"CUDA0": 3000},
    )
    assert found is not None
    assert found.device == "CUDA1"
    assert found.evidence.split("; ") == [
        "CUDA1 throttled (sw-thermal) in 20% of the readings",
        "CUDA0 was used by others with 3,000 MiB, 10 MiB at the start of the study",
        "CUDA0 ran at 1,000 MHz under load, 1,700 MHz in earlier trials",
    ]


def test_others_are_counted_as_far_as_the_driver_says() -> None:
    users = (DeviceUser(1, "Xorg", 300), DeviceUser(2, "?", None), DeviceUser(3, "steam", 50))
    assert others_mib(users) == 350
    assert others_mib(()) == 0


def test_who_stays_becomes_a_condition_of_the_study() -> None:
    before = {"CUDA0": 300, "CUDA1": 0}
    stayed = [{"CUDA0": 3000}, {"CUDA0": 2900, "CUDA1": 20}, {"CUDA0": 3100}]
    assert usual_others_mib(before, stayed) == {"CUDA0": 2900, "CUDA1": 0}
    assert usual_others_mib(before, stayed[:2]) == before
    assert usual_others_mib(before, [*stayed, {"CUDA0": 300}]) == before


@PROPERTY
@given(amounts_mib, st.lists(amounts_mib, min_size=3, max_size=3))
def test_who_is_usual_disturbs_no_trial_for_good(
    before: dict[str, int], latest: list[dict[str, int]]
) -> None:
    usual = usual_others_mib(before, latest)
    assert usual.keys() == before.keys()
    assert all(usual[device] >= before[device] for device in before)
    stays = [{**latest[0]}] * 3
    settled = usual_others_mib(before, stays)
    found = disturbance({}, study_clock_mhz={}, others_before_mib=settled, others_now_mib=stays[0])
    assert found is None


@PROPERTY
@given(st.lists(readings), amounts_mib)
def test_a_study_compared_with_itself_is_disturbed_by_heat_alone(
    rows: list[GpuReading], others: dict[str, int]
) -> None:
    summaries = summarise(rows)
    clocks = {name: one.sm_clock_mhz for name, one in summaries.items() if one.sm_clock_mhz is not None}
    found = disturbance(summaries, study_clock_mhz=clocks, others_before_mib=others, others_now_mib=others)
    hot = any(set(one.throttle) - {Throttle.SW_POWER_CAP} for one in summaries.values())
    if found is not None:
        assert hot
        assert "throttled" in found.evidence
        assert found.kind is Kind.DISTURBED
