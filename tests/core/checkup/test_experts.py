"""Which device keeps whose experts, in sentences."""

from __future__ import annotations

from types import MappingProxyType

from tuner.core.checkup.check import Level
from tuner.core.checkup.experts import experts_check
from tuner.core.memory.host_fit import HostFit
from tuner.core.memory.need import Prediction

OWNERS = {"CUDA0": frozenset(range(26)), "CUDA1": frozenset(range(26, 48))}
FIRST = frozenset(range(27))


def better(count: int) -> HostFit:
    nothing = Prediction(MappingProxyType({}), (), 0.0, "tuner")
    return HostFit((1, 1), tuple(range(count)), MappingProxyType({}), nothing)


def test_command_that_leaves_experts_on_their_devices_is_not_spoken_of() -> None:
    assert experts_check(OWNERS, frozenset(), better(0), fits=True) is None


def test_command_that_cannot_be_bettered_is_ok() -> None:
    for other in (None, better(27)):
        check = experts_check(OWNERS, FIRST, other, fits=True)
        assert check is not None
        assert (check.level, check.remedy) == (Level.OK, "")
        assert (
            check.text == "those of 27 layers lie in RAM: CUDA0 keeps 0 of its 26, CUDA1 keeps 21 of its 22"
        )


def test_more_in_ram_than_need_be_is_a_warning() -> None:
    check = experts_check(OWNERS, FIRST, better(1), fits=True)
    assert check is not None
    assert check.level is Level.WARNING
    assert check.text.endswith("21 of its 22; 1 layer in RAM would do")
    assert check.remedy == "take the line that works"


def test_what_does_not_fit_is_told_why() -> None:
    check = experts_check(OWNERS, FIRST, better(30), fits=False)
    assert check is not None
    assert check.level is Level.WARNING
    assert "--n-cpu-moe counts from the first layer" in check.text
    assert "would do" not in check.text


def test_device_without_a_layer_is_not_named() -> None:
    check = experts_check({"CUDA0": frozenset({0, 1}), "CUDA1": frozenset()}, frozenset({0}), None, fits=True)
    assert check is not None
    assert check.text == "those of 1 layer lie in RAM: CUDA0 keeps 1 of its 2"
