"""What is seen of the rig, and what a study's launches have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.trials import a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.monitoring import RigReport, slow_links, study_clocks_mhz
from tuner.core.outcome import Kind
from tuner.core.telemetry import GpuSummary

if TYPE_CHECKING:
    from tuner.core.launch import LaunchResult
    from tuner.core.trial import TrialRecord


def clocked(result: LaunchResult, **clocks_mhz: float | None) -> TrialRecord:
    """A trial in which the cards had these clocks under load."""
    telemetry = {
        device: GpuSummary(samples=9, loaded_samples=9, span_s=2.0, sm_clock_mhz=clock_mhz)
        for device, clock_mhz in clocks_mhz.items()
    }
    return a_record(0, Candidate.of({"ubatch-size": 512}), replace(result, telemetry=telemetry))


def test_without_a_driver_nothing_was_seen() -> None:
    report = RigReport()
    assert (report.summaries, report.others_before_mib, report.others_now_mib) == ({}, {}, {})
    assert report.lost is None


def test_a_study_without_a_measured_trial_has_no_clocks() -> None:
    assert study_clocks_mhz([]) == {}
    assert study_clocks_mhz([a_record(0, None, None), a_record(1, None, measured(50.0))]) == {}


def test_clocks_are_the_median_of_each_card() -> None:
    records = [
        clocked(measured(50.0), CUDA0=2800.0, CUDA1=1700.0),
        clocked(measured(50.0), CUDA0=1000.0, CUDA1=1710.0),
        clocked(measured(50.0), CUDA0=2790.0),
    ]
    assert study_clocks_mhz(records) == {"CUDA0": 2790.0, "CUDA1": 1705.0}


def test_a_card_that_does_not_say_is_missing() -> None:
    assert study_clocks_mhz([clocked(measured(50.0), CUDA0=2800.0, CUDA1=None)]) == {"CUDA0": 2800.0}


def test_trials_that_do_not_count_have_no_say() -> None:
    records = [
        clocked(measured(50.0), CUDA0=2800.0),
        clocked(measured(50.0, Kind.DEGRADED), CUDA0=2600.0),
        *(clocked(ended(kind), CUDA0=210.0) for kind in (Kind.DISTURBED, Kind.OUT_OF_MEMORY, Kind.HUNG)),
    ]
    assert study_clocks_mhz(records) == {"CUDA0": 2700.0}


def linked(**links: tuple[int, int] | None) -> TrialRecord:
    """A trial in which the cards' links ran at this generation and width under load."""
    telemetry = {
        device: GpuSummary(
            samples=9,
            loaded_samples=9,
            span_s=2.0,
            pcie_gen=None if link is None else link[0],
            pcie_width=None if link is None else link[1],
        )
        for device, link in links.items()
    }
    return a_record(0, Candidate.of({"ubatch-size": 512}), replace(measured(50.0), telemetry=telemetry))


def test_a_card_on_a_slower_link_is_named_and_its_best_counts() -> None:
    records = [linked(CUDA0=(1, 16), CUDA1=(3, 16), CUDA2=(2, 1)), linked(CUDA0=(3, 16), CUDA1=(3, 16))]
    assert slow_links(records) == ["CUDA2 ran PCIe Gen 2 x1 under load, another card Gen 3 x16"]


def test_equal_links_and_unknown_ones_are_no_matter() -> None:
    assert slow_links([]) == []
    assert slow_links([linked(CUDA0=(4, 8), CUDA1=(3, 16))]) == []  # they carry the same
    assert slow_links([linked(CUDA0=None, CUDA1=None)]) == []
