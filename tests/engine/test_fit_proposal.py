"""What llama-fit-params proposes, as options of a candidate."""

from __future__ import annotations

import pytest

from tests.support.models import shaped
from tests.support.shape_gguf import Shape
from tuner.core.assignment.splits import Splits
from tuner.engine.fit_proposal import read_proposal

SPLITS = Splits(shaped(Shape("qwen3moe", n_layers=12, n_embd=512, n_ff=512, n_mtp=0, n_experts=16)))
_EXPERTS = r"ffn_(up|down|gate_up|gate)_(ch|)exps"
#: Printed by build 11434 for such a model over two devices of 150 MiB each.
PRINTED = (
    r'-c 4096 -ngl 13 -ts 8,5 -ot "blk\.9\.ffn_(gate|up|gate_up|down).*=CPU,'
    rf'blk\.10\.{_EXPERTS}=CPU,blk\.11\.{_EXPERTS}=CPU,blk\.12\.{_EXPERTS}=CPU"'
)


def test_split_and_layers_in_ram_are_read() -> None:
    assert read_proposal(PRINTED + "\n", SPLITS) == {
        "split-mode": "layer",
        "tensor-split": (8, 5),
        "override-tensor": ("CPU:9-11",),
    }


def test_a_layer_of_which_a_part_lies_in_ram_counts_as_one() -> None:
    said = r'-c 4096 -ngl 13 -ts 8,5 -ot "blk\.3\.ffn_(gate|up).*=CPU"'
    found = read_proposal(said, SPLITS)
    assert found is not None
    assert found["override-tensor"] == ("CPU:3-3",)


def test_one_device_has_no_split() -> None:
    assert read_proposal("-c 4096 -ngl -1", SPLITS) == {}


@pytest.mark.parametrize(
    "said",
    [
        "",
        "failed to fit",
        "-c 4096 -ngl 0",
        "-c 4096 -ngl 5 -ts 2,3",
        "-ngl 13 -ts a,b",
        '-ngl 13 -ts 8,5 -ot "blk',
        r'-ngl 13 -ts 8,5 -ot "blk\.3\.ffn_up.*=CUDA1"',
    ],
)
def test_what_cannot_be_a_candidate_is_none(said: str) -> None:
    assert read_proposal(said, SPLITS) is None
