"""Whether the devices are ready, and the words for when they are not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.readiness import NotBack, TooHot, missing_mib, too_hot_c
from tuner.core.rig import DeviceUser

amounts = st.dictionaries(st.sampled_from(["CUDA0", "CUDA1", "CUDA2"]), st.integers(0, 100_000))


def test_a_message_names_the_holders_the_largest_first() -> None:
    users = (DeviceUser(7, "Xorg", 300), DeviceUser(9, "?", None), DeviceUser(4242, "python3", 9000))
    assert NotBack("CUDA1", 9100, users, 30.2).message == (
        "CUDA1 has 9,100 MiB less free than before the first launch, after 30 s of waiting. "
        "In use by: python3 (process 4242, 9,000 MiB), Xorg (process 7, 300 MiB), ? (process 9, memory unknown). "
        "End what should not be there: the tuner ends nothing that it did not start"
    )


def test_a_message_without_a_holder_says_that_too() -> None:
    message = NotBack("CUDA1", 9100, (), 30.2).message
    assert "the driver names no process that has it" in message
    assert "nvidia-smi" in message


def test_a_hot_card_is_named_with_its_limit() -> None:
    message = TooHot("CUDA0", 71, 45, 600.0).message
    assert message.startswith("CUDA0 is at 71 °C after 600 s of waiting for 45 °C")


@PROPERTY
@given(amounts, amounts, st.integers(0, 1000))
def test_what_is_missing_is_more_than_the_tolerance(
    baseline: dict[str, int], free: dict[str, int], tolerance: int
) -> None:
    missing = missing_mib(baseline, free, tolerance)
    assert all(mib > tolerance and baseline[device] - free[device] == mib for device, mib in missing.items())
    for device in baseline.keys() & free.keys() - missing.keys():
        assert free[device] >= baseline[device] - tolerance
    assert missing_mib(baseline, baseline, tolerance) == {}


@PROPERTY
@given(amounts, st.integers(0, 100_000))
def test_what_is_too_hot_is_above_the_limit(temperatures: dict[str, int], limit: int) -> None:
    hot = too_hot_c(temperatures, limit)
    assert hot == {device: value for device, value in temperatures.items() if value > limit}
