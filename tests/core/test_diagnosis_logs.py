"""Every kept log is read right, and stays so when a witness is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.known_logs import DEATHS, FOLDER, KNOWN, Known
from tests.support.strategies import DEVICE_NAMES, PROPERTY
from tuner.core.advice import advice
from tuner.core.diagnosis import Death, degraded, diagnose, examine
from tuner.core.diagnosis.texts import SOFT_RETRY
from tuner.core.outcome import Kind, Phase

LAST_LINES = 20


def test_each_log_is_in_the_table() -> None:
    assert {f"{known.name}.log" for known in KNOWN} == {
        str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.log")
    }


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_what_happened_is_found(known: Known) -> None:
    found = examine(known.death())
    assert (found.kind, found.stage, found.device) == (known.kind, known.stage, known.device), found
    assert found.requested_mib == (None if known.mib is None else pytest.approx(known.mib, abs=0.01))
    assert found.inferred == known.inferred
    assert found.evidence


@pytest.mark.parametrize("known", DEATHS, ids=str)
def test_a_death_is_the_same_for_a_run_and_for_a_user(known: Known) -> None:
    assert diagnose(known.death()) == examine(known.death())


@pytest.mark.parametrize("known", [known for known in KNOWN if not known.died], ids=str)
def test_a_server_that_somebody_stopped_is_never_a_measurement_of_a_run(known: Known) -> None:
    if known.exit_code == 0:
        assert diagnose(known.death()).kind is Kind.STOPPED


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_advice_is_given_where_something_went_wrong(known: Known) -> None:
    said = advice(examine(known.death()), known.log)
    assert bool(said) == (known.kind not in {Kind.NONE, Kind.STOPPED})
    assert all(line and "\n" not in line for line in said)


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_evidence_can_be_found_in_the_log_and_has_no_time(known: Known) -> None:
    evidence = examine(known.death()).evidence
    line = evidence.partition(" (")[0].partition(", with")[0]
    assert line in known.log
    assert not evidence[0].isdigit()


# --- a witness less


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_without_the_exit_code_the_kind_stays(known: Known) -> None:
    found = examine(replace(known.death(), exit_code=None))
    assert found.kind is known.kind or (known.kind is Kind.NONE and found.kind is Kind.STOPPED)


@pytest.mark.parametrize("known", DEATHS, ids=str)
@pytest.mark.parametrize("exit_code", [1, 3, 70])
def test_a_wrappers_exit_code_changes_nothing(known: Known, exit_code: int) -> None:
    assert examine(replace(known.death(), exit_code=exit_code)).kind is known.kind


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_without_knowing_the_memory_the_kind_stays(known: Known) -> None:
    found = examine(replace(known.death(), free_mib={}))
    assert found.kind is known.kind
    assert found.inferred == (known.inferred or bool(known.free_mib))


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_room_left_on_every_device_changes_no_reason_that_was_read(known: Known) -> None:
    if not known.free_mib:
        roomy = dict.fromkeys(DEVICE_NAMES, 20000)
        assert examine(replace(known.death(), free_mib=roomy)).kind is known.kind


@pytest.mark.parametrize("known", DEATHS, ids=str)
def test_without_its_end_a_log_of_a_death_misleads_nobody(known: Known) -> None:
    """Where a smaller buffer was tried, the end can be lost just before that is said."""
    kinds = {known.kind, Kind.CRASHED} | ({Kind.OUT_OF_MEMORY} if SOFT_RETRY in known.log else set())
    lines = known.log.splitlines(keepends=True)
    for kept in range(len(lines)):
        found = examine(known.death("".join(lines[:kept])))
        assert found.kind in kinds, (kept, found)


@pytest.mark.parametrize("known", [known for known in KNOWN if not known.died], ids=str)
def test_without_its_end_the_log_of_a_stopped_server_shows_no_failure(known: Known) -> None:
    kinds = {known.kind, Kind.NONE, Kind.STOPPED} | (
        {Kind.OUT_OF_MEMORY} if SOFT_RETRY in known.log else set()
    )
    lines = known.log.splitlines(keepends=True)
    for kept in range(len(lines)):
        found = examine(replace(known.death("".join(lines[:kept])), exit_code=0))
        assert found.kind in kinds, (kept, found)


@PROPERTY
@given(st.data())
def test_the_order_of_the_last_lines_does_not_matter(data: st.DataObject) -> None:
    known = data.draw(st.sampled_from(KNOWN))
    lines = known.log.splitlines()
    shuffled = data.draw(st.permutations(lines[-LAST_LINES:]))
    log = "\n".join([*lines[:-LAST_LINES], *shuffled]) + "\n"
    assert examine(known.death(log)).kind is known.kind


@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_the_last_lines_turned_round_say_the_same(known: Known) -> None:
    lines = known.log.splitlines()
    log = "\n".join([*lines[:-LAST_LINES], *reversed(lines[-LAST_LINES:])]) + "\n"
    assert examine(known.death(log)).kind is known.kind


# --- anything


_WORDS = st.sampled_from(
    sorted(
        {line for known in KNOWN for line in known.log.splitlines()[-6:]} | {"", "x", "listening on http://"}
    )
)


@PROPERTY
@given(
    log=st.text() | st.lists(_WORDS | st.text(), max_size=30).map("\n".join),
    exit_code=st.none() | st.integers(-64, 255),
    phase=st.sampled_from(Phase),
    free_mib=st.dictionaries(st.sampled_from(DEVICE_NAMES), st.integers(0, 2000)),
    free_fraction=st.dictionaries(st.sampled_from(DEVICE_NAMES), st.floats(0, 1)),
    killed_by_kernel=st.none() | st.booleans(),
)
def test_nothing_that_is_written_in_a_log_is_too_much(
    *,
    log: str,
    exit_code: int | None,
    phase: Phase,
    free_mib: dict[str, int],
    free_fraction: dict[str, float],
    killed_by_kernel: bool | None,
) -> None:
    death = Death(
        log,
        exit_code,
        phase,
        free_mib=free_mib,
        free_fraction=free_fraction,
        killed_by_kernel=killed_by_kernel,
    )
    for found in (examine(death), diagnose(death)):
        assert "\n" not in found.evidence
        advice(found, log)
    assert diagnose(death).kind is not Kind.NONE
    degraded(log)
