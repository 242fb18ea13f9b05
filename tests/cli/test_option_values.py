"""Options that are written in short forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.cli.option_values import by_device, device_name, duration_s, tokens
from tuner.errors import RigError, UsageError

NAMES = ("CUDA0", "CUDA1", "RPC0")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("8h", 28800),
        ("90m", 5400),
        ("90min", 5400),
        ("1h30m", 5400),
        ("1h 30 min", 5400),
        ("45s", 45),
        ("1.5h", 5400),
        ("1d", 86400),
        (" 2m ", 120),
    ],
)
def test_duration_is_in_seconds(text: str, seconds: float) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "8", "eight hours", "8x", "h", "1h30", "-1h", "1h-5m", "0s", "0h0m", "1,5h"]
)
def test_duration_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--budget"):
        duration_s(text)


@given(hours=st.integers(0, 99), minutes=st.integers(0, 59), seconds=st.integers(1, 59))
def test_duration_in_parts_is_their_sum(hours: int, minutes: int, seconds: int) -> None:
    assert duration_s(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


@pytest.mark.parametrize(
    ("text", "count"), [("16384", 16384), ("16k", 16384), ("16K", 16384), ("1.5k", 1536), (" 8k ", 8192)]
)
def test_tokens_are_counted_in_binary_thousands(text: str, count: int) -> None:
    assert tokens(text) == count


@pytest.mark.parametrize("text", ["", "k", "many", "16m", "-16k", "0", "0k", "16 k", "1e4"])
def test_tokens_that_are_no_number_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--context"):
        tokens(text)


def test_devices_go_by_name_or_by_place() -> None:
    assert by_device("--reserve", "0=2048, CUDA1=256,2=0", NAMES) == {"CUDA0": 2048, "CUDA1": 256, "RPC0": 0}
    assert device_name("--devices", "1", NAMES) == "CUDA1"


@pytest.mark.parametrize("text", ["", "0", "0=", "0=x", "0=-1", "0=1.5", "0=²", "0=1,", "0:1"])
def test_list_by_device_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--reserve: .* is not understood; write DEVICE=MIB"):
        by_device("--reserve", text, NAMES)


@pytest.mark.parametrize("text", ["3=1", "CUDA7=1", "-1=1", "²=1", "=1"])
def test_device_that_does_not_exist_is_named_with_those_that_do(text: str) -> None:
    with pytest.raises(RigError, match=r"--reserve: there is no device .* sees CUDA0, CUDA1, RPC0"):
        by_device("--reserve", text, NAMES)


def test_no_devices_at_all_is_said_so() -> None:
    with pytest.raises(RigError, match="sees none"):
        device_name("--devices", "CUDA0", ())
