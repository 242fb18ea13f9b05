"""What went on around a launch, and what its outcome is in that light."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.trials import ended, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import ENGINE_DEFAULT, LaunchResult, LaunchSpec
from tuner.core.monitoring import RigReport
from tuner.core.outcome import POLICIES, Kind, Outcome, Phase, Stage
from tuner.core.rig import Device
from tuner.core.surroundings import Surroundings, judged
from tuner.core.telemetry import GpuSummary

DEVICES = (Device("CUDA0", "RTX 5080", 16303, 15900), Device("CUDA1", "RTX 3090", 24576, 24100))
CANDIDATE = LaunchSpec(Candidate.of({"ubatch-size": 512}))
REFERENCE = LaunchSpec(None, ENGINE_DEFAULT)
HOT = GpuSummary(samples=100, loaded_samples=90, span_s=20.0, throttle={"sw-thermal": 0.5})
SLOW = GpuSummary(samples=100, loaded_samples=90, span_s=20.0, sm_clock_mhz=1500.0)
QUIET, DISTURBED = RigReport(), RigReport({"CUDA1": HOT})
FULL = replace(measured(50.0), free_mib={"CUDA0": 100, "CUDA1": 9000})
LOST = RigReport(lost="CUDA1: GPU requires reset")


def judge(
    result: LaunchResult,
    report: RigReport = QUIET,
    *,
    slept_s: float | None = None,
    spec: LaunchSpec = CANDIDATE,
    disturbed_before: int = 0,
) -> Outcome:
    return judged(
        result,
        Surroundings(report, slept_s=slept_s, clocks_mhz={"CUDA0": 2800.0, "CUDA1": 1700.0}),
        spec,
        devices=DEVICES,
        reserve_mib={"CUDA0": 326, "CUDA1": 492},
        disturbed_before=disturbed_before,
    )


@pytest.mark.parametrize("kind", list(Kind))
def test_where_nothing_was_seen_the_launch_speaks_for_itself(kind: Kind) -> None:
    result = ended(kind)
    assert judge(result) is result.outcome


# --- a card that is gone


@pytest.mark.parametrize("kind", list(Kind))
def test_a_lost_card_explains_everything(kind: Kind) -> None:
    result = replace(measured(50.0), outcome=Outcome(kind, phase=Phase.WARMUP))
    found = judge(result, LOST, slept_s=600.0)
    assert (found.kind, found.phase) == (Kind.DEVICE_ERROR, Phase.WARMUP)
    assert found.evidence == "GPU is lost: CUDA1: GPU requires reset"


# --- a machine that slept


@pytest.mark.parametrize("kind", [Kind.NONE, Kind.DEGRADED, Kind.HUNG, Kind.TIMED_OUT])
def test_a_sleep_explains_a_time_and_a_hang(kind: Kind) -> None:
    found = judge(ended(kind), DISTURBED, slept_s=3600.4, disturbed_before=5)
    assert (found.kind, found.evidence) == (Kind.DISTURBED, "the machine slept for 3600 s meanwhile")


@pytest.mark.parametrize("kind", [Kind.OUT_OF_MEMORY, Kind.CRASHED, Kind.STOPPED, Kind.BAD_FLAG])
def test_a_sleep_explains_no_other_failure(kind: Kind) -> None:
    result = ended(kind)
    assert judge(result, DISTURBED, slept_s=3600.0) is result.outcome


# --- disturbances


@pytest.mark.parametrize(
    ("report", "evidence"),
    [
        (DISTURBED, "CUDA1 throttled (sw-thermal) in 50% of the readings"),
        (RigReport({"CUDA1": SLOW}), "CUDA1 ran at 1,500 MHz under load, 1,700 MHz in earlier trials"),
        (
            RigReport(others_before_mib={"CUDA0": 10}, others_now_mib={"CUDA0": 5000}),
            "CUDA0 was used by others with 5,000 MiB, 10 MiB at the start of the study",
        ),
    ],
)
def test_a_measured_launch_that_was_disturbed_does_not_count(report: RigReport, evidence: str) -> None:
    for result in (measured(50.0), measured(50.0, Kind.DEGRADED), FULL):
        found = judge(result, report)
        assert (found.kind, found.evidence) == (Kind.DISTURBED, evidence)


def test_what_was_not_measured_cannot_be_disturbed() -> None:
    result = ended(Kind.OUT_OF_MEMORY)
    assert judge(result, DISTURBED) is result.outcome


def test_the_third_time_a_disturbed_launch_stands_and_says_so() -> None:
    retries = POLICIES[Kind.DISTURBED].retries
    kinds = [judge(measured(50.0), DISTURBED, disturbed_before=n).kind for n in range(retries + 2)]
    assert kinds == [Kind.DISTURBED, Kind.DISTURBED, Kind.NONE, Kind.NONE]
    stands = judge(measured(50.0), DISTURBED, disturbed_before=2)
    assert stands.policy.may_win
    assert stands.evidence == (
        "measured though disturbed each time: CUDA1 throttled (sw-thermal) in 50% of the readings"
    )


def test_a_degraded_launch_that_stands_stays_degraded() -> None:
    found = judge(measured(50.0, Kind.DEGRADED), DISTURBED, disturbed_before=2)
    assert found.kind is Kind.DEGRADED
    assert "CUDA1 throttled" in found.evidence


# --- the reserve


def test_a_candidate_that_leaves_too_little_free_ran_out_of_memory() -> None:
    found = judge(FULL)
    assert (found.kind, found.stage, found.device) == (Kind.OUT_OF_MEMORY, Stage.RUNTIME, "CUDA0")


def test_a_reference_may_fill_a_card() -> None:
    assert judge(FULL, spec=REFERENCE) is FULL.outcome


def test_a_candidate_that_leaves_too_little_free_does_so_disturbed_or_not() -> None:
    assert judge(FULL, DISTURBED, disturbed_before=2).kind is Kind.OUT_OF_MEMORY
