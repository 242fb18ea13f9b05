"""Whether a command fits, in sentences."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from tests.support.models import shaped
from tests.support.shape_gguf import Shape
from tuner.core.assignment.splits import Splits
from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.checkup.fits import Room, fit_checks, split_check
from tuner.core.memory.need import DeviceNeed, Prediction
from tuner.core.memory.query import MemoryQuery

NEED = DeviceNeed(
    weights=10_000.0, kv=1000.0, recurrent=500.0, compute=500.0, draft=200.0, runtime=800.0, sigma=100.0
)
LABELS = {"CUDA0": "CUDA0 (RTX 5080)"}
SPLITS = Splits(shaped(Shape()))
CARDS = ("CUDA0", "CUDA1")


def one(room_mib: float, *, fit_decides: bool = False) -> Check:
    prediction = Prediction(MappingProxyType({"CUDA0": NEED}), (), 0.0, "tuner")
    (check,) = fit_checks(prediction, {"CUDA0": Room(room_mib)}, LABELS, fit_decides=fit_decides)
    assert (check.topic, check.subject) == (Topic.FIT, "CUDA0 (RTX 5080)")
    return check


def split(
    written: tuple[int, ...], *, mode: str = "layer", gpu_layers: int = 999, shown: str | None = None
) -> Check | None:
    query = MemoryQuery(CARDS[: len(written)], mode, written, gpu_layers, 8192)
    text = ",".join(map(str, written)) if shown is None else shown
    return split_check(query, SPLITS, written, written=text)


# --- devices


def test_device_with_room_is_ok() -> None:
    check = one(15_900)
    assert (check.level, check.remedy) == (Level.OK, "")
    assert check.text == "13,000 MiB asked for, 15,900 free: 2.8 GiB to spare"


def test_device_on_the_edge_is_a_warning_with_its_chance() -> None:
    check = one(13_100)
    assert check.level is Level.WARNING
    assert check.text == "13,000 MiB asked for, 13,100 free: it may be too much (a chance of 16%)"
    assert check.remedy == "ask less of CUDA0, or free memory there"


@pytest.mark.parametrize(
    ("room", "step"),
    [
        (9_000, "it dies while the weights are loaded"),
        (10_500, "it dies at the KV cache, after the weights are loaded"),
        (11_400, "it dies at the recurrent state, after the weights are loaded"),
        (
            11_900,
            "it dies at the compute buffers, after the weights are loaded, or goes on without its pipeline",
        ),
        (12_100, "it dies when the drafts are set up"),
        (12_800, "it dies at the first requests"),
    ],
)
def test_device_that_is_exceeded_is_a_problem_at_a_step(room: float, step: str) -> None:
    check = one(room)
    assert check.level is Level.PROBLEM
    assert check.text.endswith(f"too much; {step}")
    assert check.remedy == "ask less of CUDA0"


def test_excess_is_said_as_an_amount() -> None:
    assert one(12_500).text.startswith("13,000 MiB asked for, 12,500 free: 500 MiB too much")
    assert "3.9 GiB too much" in one(9_000).text


def test_what_loads_and_leaves_too_little_is_a_problem_too() -> None:
    prediction = Prediction(MappingProxyType({"CUDA0": NEED}), (), 0.0, "tuner")
    (check,) = fit_checks(prediction, {"CUDA0": Room(13_100, 326)}, LABELS, fit_decides=False)
    assert check.level is Level.PROBLEM
    assert check.text == (
        "13,000 MiB asked for, 13,100 free, of which 326 are to stay free: 226 MiB too much; "
        "it loads, and the next growth ends it"
    )


def test_fit_of_the_engine_makes_it_a_warning() -> None:
    check = one(9_000, fit_decides=True)
    assert check.level is Level.WARNING
    assert check.text.endswith("--fit is on, and will cut the context or leave layers on the CPU")


def test_device_whose_room_is_unknown_has_no_check() -> None:
    prediction = Prediction(MappingProxyType({"CUDA0": NEED}), (), 0.0, "tuner")
    assert fit_checks(prediction, {"CUDA1": Room(1.0)}, LABELS, fit_decides=False) == []


# --- the split


def test_layer_ratio_is_said_in_units() -> None:
    check = split((26, 40))
    assert check is not None
    assert (check.topic, check.subject, check.level) == (Topic.FIT, "split", Level.OK)
    assert check.text == "-ts 26,40 is 26 : 40 of 66 units (layers, and the output as the last)"


def test_tensor_ratio_is_said_in_heads() -> None:
    check = split((1, 1), mode="tensor")
    assert check is not None
    assert check.level is Level.OK
    assert check.text == "-ts 1,1 is 2 : 2 of 4 KV heads in each layer"


def test_tensor_ratio_that_is_another_one_is_a_surprise() -> None:
    check = split((45, 55), mode="tensor")
    assert check is not None
    assert check.level is Level.WARNING
    assert check.text == (
        "-ts 45,55 is 1.5 : 2.5 of 4 KV heads in each layer: 38%, 62% where 45%, 55% was asked for"
    )
    assert check.remedy == (
        "there is only 3.5 : 0.5 (-ts 4,1), 3 : 1 (-ts 3,1), 2.5 : 1.5 (-ts 3,2), 2 : 2 (-ts 1,1), "
        "1.5 : 2.5 (-ts 2,3), 1 : 3 (-ts 1,3), 0.5 : 3.5 (-ts 1,4)"
    )


@pytest.mark.parametrize("ratio", ["4,1", "3,1", "3,2", "1,1", "2,3", "1,3", "1,4"])
def test_ratio_that_is_proposed_gives_what_is_said_of_it(ratio: str) -> None:
    first, second = (int(part) for part in ratio.split(","))
    surprise, proposed = split((45, 55), mode="tensor"), split((first, second), mode="tensor")
    assert surprise is not None
    assert proposed is not None
    heads = proposed.text.partition(" is ")[2].partition(" of ")[0]
    assert f"{heads} (-ts {ratio})" in surprise.remedy


def test_layers_on_the_host_are_no_part_of_the_ratio() -> None:
    check = split((7, 3), gpu_layers=2)
    assert check is not None
    assert check.text.startswith("-ts 7,3 is 2 : 0 of 2 units")
    assert (check.level, check.remedy) == (Level.WARNING, "take a ratio of whole units")


def test_engines_own_split_surprises_nobody() -> None:
    check = split((15_900, 24_100), mode="tensor", shown="")
    assert check is not None
    assert check.level is Level.OK
    assert check.text.startswith("the engine's own split is ")


def test_no_ratio_no_check() -> None:
    assert split((1,), mode="none") is None
    assert split((1, 1), mode="row") is None
    assert split((1, 1), gpu_layers=0) is None
