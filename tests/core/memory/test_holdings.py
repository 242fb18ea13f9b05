"""What each device holds, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.models import model, shaped
from tests.support.shape_gguf import Shape
from tuner.core.assignment.splits import Splits
from tuner.core.memory.holdings import holdings, kv_heads
from tuner.core.memory.predict import Predictor
from tuner.core.rig import Device

if TYPE_CHECKING:
    from tuner.core.options import Value

SPLITS = Splits(shaped(Shape()))
CARDS = (Device("CUDA0", "RTX 5080", 16_303, 15_900), Device("CUDA1", "RTX 3090", 24_576, 24_100))


def held(options: dict[str, Value], devices: tuple[Device, ...] = CARDS) -> dict[str, str]:
    predictor = Predictor(SPLITS, devices)
    query = predictor.query({"gpu-layers": 999, "ctx-size": 8192, **options})
    slicer = SPLITS.slicer(max(query.n_devices, 1))
    split = predictor.split_of(query)
    return holdings(SPLITS.model, query, predictor.predict_query(query), slicer, split)


def test_layers_and_the_output_are_named() -> None:
    assert held({"tensor-split": (26, 40)}) == {
        "CUDA0": "layers 0 to 25 (26)",
        "CUDA1": "layers 26 to 63 (38), output",
    }


def test_mtp_layers_are_named_where_they_draft() -> None:
    drafting: dict[str, Value] = {"spec-type": "draft-mtp", "spec-draft-n-max": 2}
    assert held({"tensor-split": (26, 40), **drafting})["CUDA1"] == "layers 26 to 63 (38), MTP, output"


def test_one_layer_and_nothing_are_said_so() -> None:
    assert held({"tensor-split": (1, 65)})["CUDA0"] == "layer 0"
    assert held({"tensor-split": (65, 1)})["CUDA1"] == "output"
    assert held({"tensor-split": (0, 1)})["CUDA0"] == "nothing"


def test_layers_on_the_host_are_the_hosts() -> None:
    found = held({"gpu-layers": 10, "tensor-split": (1, 1)})
    assert found == {
        "CUDA0": "layers 56 to 60 (5)",
        "CUDA1": "layers 61 to 63 (3), output",
        "host": "layers 0 to 55 (56)",
    }


def test_experts_that_left_their_layers_are_named_on_both_sides() -> None:
    moe = Splits(shaped(Shape("qwen3moe", n_layers=8, n_mtp=0, n_experts=4)))
    predictor = Predictor(moe, CARDS)
    words = []
    for count in (1, 4, 5):
        query = predictor.query({"ctx-size": 4096, "tensor-split": (4, 5), "n-cpu-moe": count})
        found = holdings(moe.model, query, predictor.predict_query(query), moe.slicer(2), (4, 5))
        words.append(tuple(found.values()))
    last = "layers 4 to 7 (4), output"
    assert words == [
        ("layers 0 to 3 (4), 1 of them without experts", last, "experts of 1 layer"),
        ("layers 0 to 3 (4), without experts", last, "experts of 4 layers"),
        (
            "layers 0 to 3 (4), without experts",
            "layers 4 to 7 (4), 1 of them without experts, output",
            "experts of 5 layers",
        ),
    ]


def test_one_device_holds_everything() -> None:
    assert held({"split-mode": "none", "main-gpu": 1}) == {"CUDA1": "layers 0 to 63 (64), output"}


def test_without_a_device_all_is_on_the_host() -> None:
    assert "CUDA0" not in held({"device": ("none",)})


def test_tensor_mode_says_heads_and_weights() -> None:
    assert held({"split-mode": "tensor", "tensor-split": (1, 1)}) == {
        "CUDA0": "50.0% of the weights, 2 of 4 KV heads",
        "CUDA1": "50.0% of the weights, 2 of 4 KV heads",
    }


@pytest.mark.parametrize("split", [(1, 1), (2, 3), (1, 9), (0, 1), (1, 2, 3)])
def test_kv_heads_add_up(split: tuple[int, ...]) -> None:
    heads = kv_heads(SPLITS.model, SPLITS.slicer(len(split)), split)
    assert sum(heads) == pytest.approx(4)
    assert [count > 0 for count in heads] == [count >= 1 / 16 for count in heads]


def test_model_without_attention_has_no_kv_heads() -> None:
    bare = Splits(model(heads=(0,) * 4))
    assert kv_heads(bare.model, bare.slicer(2), (1, 1)) == (0.0, 0.0)
