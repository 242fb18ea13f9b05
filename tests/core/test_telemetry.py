"""What readings of a card add up to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.readings import readings
from tests.support.strategies import PROPERTY
from tuner.core.telemetry import GpuReading, GpuSummary, Throttle, joules_a_token, summarise

if TYPE_CHECKING:
    from random import Random


AT_WORK = GpuReading("CUDA0", 0.0, utilisation_pct=95, sm_clock_mhz=1700, pcie_gen=4, pcie_width=16)


def one(*rows: GpuReading) -> GpuSummary:
    (summary,) = summarise(rows).values()
    return summary


def test_memory_has_a_least_a_median_and_a_most() -> None:
    summary = one(
        *(replace(AT_WORK, time_s=second, used_mib=mib) for second, mib in enumerate((500, 20_000, 20_100)))
    )
    assert (summary.used_min_mib, summary.used_median_mib, summary.used_max_mib) == (500, 20_000, 20_100)
    assert (summary.samples, summary.span_s) == (3, 2)


def test_clocks_and_link_are_those_under_load() -> None:
    idle = replace(
        AT_WORK, time_s=0, utilisation_pct=10, sm_clock_mhz=210, mem_clock_mhz=405, pcie_gen=1, pcie_width=4
    )
    summary = one(
        idle, replace(idle, time_s=1), replace(idle, time_s=2), replace(AT_WORK, time_s=3, mem_clock_mhz=9501)
    )
    assert (summary.sm_clock_mhz, summary.mem_clock_mhz) == (1700, 9501)
    assert (summary.pcie_gen, summary.pcie_width) == (4, 16)
    assert (summary.samples, summary.loaded_samples) == (4, 1)


def test_a_card_at_rest_has_no_clock_under_load() -> None:
    summary = one(
        replace(AT_WORK, time_s=0, utilisation_pct=0), replace(AT_WORK, time_s=1, utilisation_pct=None)
    )
    assert (summary.sm_clock_mhz, summary.pcie_gen, summary.loaded_samples) == (None, None, 0)


def test_a_link_is_never_between_two_generations() -> None:
    assert one(replace(AT_WORK, time_s=0, pcie_gen=3), replace(AT_WORK, time_s=1, pcie_gen=4)).pcie_gen == 3


def test_only_reasons_that_say_something_are_reported_with_their_share() -> None:
    nothing = frozenset({Throttle.IDLE, Throttle.SYNC_BOOST, Throttle.DISPLAY_CLOCK})
    summary = one(
        replace(AT_WORK, time_s=0, throttle=nothing),
        replace(AT_WORK, time_s=1, throttle=frozenset({Throttle.SW_POWER_CAP, Throttle.APPLICATIONS_CLOCKS})),
        replace(AT_WORK, time_s=2, throttle=frozenset({Throttle.SW_POWER_CAP, Throttle.HW_THERMAL})),
        replace(AT_WORK, time_s=3, throttle=frozenset()),
        replace(AT_WORK, time_s=4, throttle=None),
    )
    assert summary.throttle == {"sw-power-cap": 0.5, "hw-thermal": 0.25}


def test_energy_is_what_the_cards_counter_says() -> None:
    summary = one(*(replace(AT_WORK, time_s=t, energy_j=1e6 + 300 * t, power_w=1.0) for t in range(11)))
    assert (summary.energy_j, summary.watts) == (3000, 300)


@pytest.mark.parametrize("counter", [(None, None, None), (5000.0, 10.0, 400.0)], ids=["none", "started anew"])
def test_energy_is_the_integral_of_power_without_a_counter(counter: tuple[float | None, ...]) -> None:
    powers = (100.0, 300.0, 300.0)
    times = (0.0, 1.0, 3.0)
    rows = [
        replace(AT_WORK, time_s=t, power_w=watts, energy_j=energy)
        for t, watts, energy in zip(times, powers, counter, strict=True)
    ]
    summary = one(*rows)
    assert summary.energy_j == pytest.approx(200 + 600)
    assert summary.watts == pytest.approx(800 / 3)
    assert summary.power_w == 300


def test_a_single_reading_has_no_energy() -> None:
    summary = one(replace(AT_WORK, time_s=0, power_w=300.0, energy_j=5.0))
    assert (summary.energy_j, summary.watts, summary.power_w) == (None, None, 300.0)


def test_no_readings_have_no_summary() -> None:
    assert summarise([]) == {}


def test_a_summary_of_a_card_that_says_nothing_is_empty() -> None:
    assert one(GpuReading("CUDA0", 0.0)) == GpuSummary(samples=1, loaded_samples=0, span_s=0.0)


def test_joules_a_token_are_those_of_all_cards() -> None:
    watt = GpuSummary(samples=2, loaded_samples=2, span_s=1.0, energy_j=150.0)
    assert joules_a_token({"CUDA0": watt, "CUDA1": replace(watt, energy_j=50.0)}, 100) == 2.0


@pytest.mark.parametrize("tokens", [0, 100])
def test_joules_a_token_need_tokens_and_the_energy_of_each_card(tokens: int) -> None:
    silent = GpuSummary(samples=2, loaded_samples=2, span_s=1.0)
    assert joules_a_token({"CUDA0": replace(silent, energy_j=150.0), "CUDA1": silent}, tokens) is None
    assert joules_a_token({}, tokens) is None


@PROPERTY
@given(readings)
def test_a_reading_comes_back_from_json(reading: GpuReading) -> None:
    assert GpuReading.from_json(json.loads(json.dumps(reading.to_json()))) == reading


@PROPERTY
@given(st.lists(readings))
def test_a_summary_comes_back_from_json(rows: list[GpuReading]) -> None:
    for summary in summarise(rows).values():
        assert GpuSummary.from_json(json.loads(json.dumps(summary.to_json()))) == summary


@PROPERTY
@given(st.lists(readings), st.randoms(use_true_random=False))
def test_the_order_of_readings_changes_nothing(rows: list[GpuReading], random: Random) -> None:
    rows = list({(row.device, row.time_s): row for row in rows}.values())
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert summarise(shuffled) == summarise(rows)


@PROPERTY
@given(st.lists(readings))
def test_summaries_lie_within_the_readings(rows: list[GpuReading]) -> None:
    summaries = summarise(rows)
    assert sum(summary.samples for summary in summaries.values()) == len(rows)
    for device, summary in summaries.items():
        own = [row for row in rows if row.device == device]
        loaded = [row for row in own if row.loaded]
        _check_within(summary, own, ("utilisation_pct", "power_w"))
        _check_within(
            summary,
            loaded,
            ("sm_clock_mhz", "mem_clock_mhz", "pcie_gen", "pcie_width", "pcie_tx_mib_s", "pcie_rx_mib_s"),
        )
        assert summary.loaded_samples == len(loaded)
        if summary.used_min_mib is not None:
            assert summary.used_median_mib is not None
            assert summary.used_max_mib is not None
            assert summary.used_min_mib <= summary.used_median_mib <= summary.used_max_mib
        assert all(0 < share <= 1 for share in summary.throttle.values())
        assert summary.energy_j is None or summary.energy_j >= 0


def _check_within(summary: GpuSummary, rows: list[GpuReading], names: tuple[str, ...]) -> None:
    for name in names:
        known = [value for row in rows if (value := getattr(row, name)) is not None]
        found = getattr(summary, name)
        assert (found is None) == (not known), name
        if known:
            assert min(known) <= found * (1 + 1e-9), name
            assert found <= max(known) * (1 + 1e-9), name


@PROPERTY
@given(st.lists(st.floats(0, 500), min_size=2, max_size=50), st.floats(0.05, 2))
def test_watts_lie_between_the_least_and_the_most_power(powers: list[float], period_s: float) -> None:
    summary = one(
        *(replace(AT_WORK, time_s=step * period_s, power_w=watts) for step, watts in enumerate(powers))
    )
    assert summary.watts is not None
    assert min(powers) - 1e-6 <= summary.watts <= max(powers) + 1e-6
