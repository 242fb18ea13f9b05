"""Verdicts on memory, disk and sleep."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.models import model
from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.checkup.facts import HostFacts, ModelDisk
from tuner.core.checkup.hosts import host_checks

if TYPE_CHECKING:
    from tuner.core.model import ModelFile

MODEL = model(weights_mib=20_000)
HOST = HostFacts(
    memory_total_mib=64_000,
    memory_available_mib=60_000,
    results_folder="results",
    results_free_mib=80_000,
    is_wsl=False,
    can_suspend=True,
    awake_problem=None,
    model_disk=ModelDisk(read_mib_s=2_000, cached_share=0.0, file_system="ext4"),
)


def of(topic: Topic, host: HostFacts, of_model: ModelFile | None = MODEL, subject: str = "") -> Check:
    (found,) = (c for c in host_checks(host, of_model) if c.topic is topic and subject in c.subject)
    return found


def disk(
    host: HostFacts = HOST,
    *,
    read_mib_s: float | None = 2_000,
    cached_share: float | None = 0.0,
    file_system: str = "ext4",
) -> Check:
    seen = ModelDisk(read_mib_s, cached_share, file_system)
    return of(Topic.DISK, replace(host, model_disk=seen), subject="model")


def test_good_host_has_no_complaint() -> None:
    assert {check.level for check in host_checks(HOST, MODEL)} == {Level.OK}


@pytest.mark.parametrize(("available_mib", "level"), [(20_000, Level.OK), (19_999, Level.WARNING)])
def test_page_cache_is_to_hold_the_model(available_mib: int, level: Level) -> None:
    check = of(Topic.MEMORY, replace(HOST, memory_available_mib=available_mib))
    assert check.level is level
    assert "20,000 MiB" in check.text


def test_memory_without_a_model_is_a_figure() -> None:
    check = of(Topic.MEMORY, HOST, None)
    assert (check.level, check.text) == (Level.OK, "60,000 of 64,000 MiB available")


@pytest.mark.parametrize(
    ("free_mib", "level"),
    [(2048, Level.OK), (2047, Level.WARNING), (199, Level.PROBLEM), (None, Level.UNKNOWN)],
)
def test_space_for_results_is_needed(free_mib: int | None, level: Level) -> None:
    check = of(Topic.DISK, replace(HOST, results_free_mib=free_mib, model_disk=None))
    assert check.level is level


def test_disk_is_told_by_how_long_a_model_takes() -> None:
    check = disk()
    assert check.level is Level.OK
    assert check.text == "0% in the page cache; its disk reads 2,000 MiB/s: 10 s for all of it"


def test_cached_model_is_said_to_be() -> None:
    assert disk(cached_share=1.0).text.startswith("in the page cache; its disk reads")


def test_slow_disk_matters_at_every_launch_if_memory_cannot_hold_the_model() -> None:
    small = replace(HOST, memory_available_mib=10_000)
    check = disk(small, read_mib_s=150.0)
    assert check.level is Level.WARNING
    assert check.text.endswith("133 s for all of it, at every launch")
    assert disk(small, read_mib_s=3_000.0).level is Level.OK


def test_slow_disk_matters_once_if_memory_holds_the_model() -> None:
    check = disk(read_mib_s=150.0)
    assert check.level is Level.OK
    assert check.text.endswith("at the first launch only")


@pytest.mark.parametrize(
    ("cached_share", "level"), [(1.0, Level.OK), (0.5, Level.UNKNOWN), (None, Level.UNKNOWN)]
)
def test_disk_that_could_not_be_measured_matters_unless_the_model_is_cached(
    cached_share: float | None, level: Level
) -> None:
    check = disk(read_mib_s=None, cached_share=cached_share)
    assert check.level is level
    assert "could not be measured" in check.text


@pytest.mark.parametrize("file_system", ["9p", "drvfs"])
def test_windows_disk_is_slow(file_system: str) -> None:
    check = disk(file_system=file_system)
    assert check.level is Level.WARNING
    assert "home folder" in check.remedy


def test_wsl_is_said() -> None:
    texts = [check.text for check in host_checks(replace(HOST, is_wsl=True), None)]
    assert any(text.startswith("WSL2") for text in texts)


@pytest.mark.parametrize(
    ("can_suspend", "problem", "level"),
    [
        (False, None, Level.OK),
        (True, None, Level.OK),
        (None, None, Level.OK),
        (True, "there is no systemd-inhibit on this system", Level.WARNING),
        (None, "Access denied", Level.WARNING),
    ],
)
def test_machine_that_may_fall_asleep_is_a_warning(
    *, can_suspend: bool | None, problem: str | None, level: Level
) -> None:
    check = of(Topic.SLEEP, replace(HOST, can_suspend=can_suspend, awake_problem=problem))
    assert check.level is level
    assert (problem or "") in check.text
