from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.played_rigs import small
from tuner.simulate.drafts import cycle_of
from tuner.simulate.prompt import prompt_s
from tuner.simulate.setup import setup_of

if TYPE_CHECKING:
    from tuner.core.options import Value
    from tuner.simulate.launcher import SimulatedRig

LAYER: dict[str, Value] = {"split-mode": "layer", "tensor-split": (5, 5)}
TENSOR: dict[str, Value] = {"split-mode": "tensor", "tensor-split": (2, 1)}
EVEN: dict[str, Value] = {"split_mode": "layer", "tensor_split": (5, 5)}
UNEVEN: dict[str, Value] = {"split_mode": "layer", "tensor_split": (8, 2)}
MIB = 2**20


def rate(rig: SimulatedRig, **more: Value) -> float:
    found = rig.true_rate({**TENSOR, **{name.replace("_", "-"): value for name, value in more.items()}})
    assert found is not None
    return found


def test_layer_mode_adds_what_the_cards_take() -> None:
    cost = small().step_cost(setup_of(small().rig, LAYER))
    bytes_s = 5000 * MIB / 1e12 + 3500 * MIB / 0.5e12
    assert cost.transfer_s == pytest.approx(bytes_s, rel=0.01)  # and a little cache
    assert cost.fixed_s == pytest.approx(100e-6 + 0.5e-3)


def test_tensor_mode_waits_for_the_slowest_and_reduces_twice_a_layer() -> None:
    cost = small().step_cost(setup_of(small().rig, TENSOR))
    assert cost.transfer_s >= 8500 * MIB * 2 / 3 / 1e12
    assert cost.transfer_s == pytest.approx(8500 * MIB * 2 / 3 / 1e12, rel=0.1)  # whole heads cost a little
    assert cost.fixed_s == pytest.approx(2 * 8 * 40e-6 + 0.5e-3)


def test_each_verified_token_adds_to_the_transfer_alone() -> None:
    cost = small().step_cost(setup_of(small().rig, LAYER))
    assert cost.step_s(4, small().rig.model) == pytest.approx(cost.transfer_s * 1.3 + cost.fixed_s)


@pytest.mark.parametrize(
    ("variables", "factor"),
    [
        ({"GGML_CUDA_ALLREDUCE": "internal"}, 1.5),
        ({"GGML_CUDA_P2P": "1"}, 0.5),
        ({"GGML_CUDA_P2P": "0"}, 1.0),
    ],
)
def test_reductions_go_by_how_they_are_made(variables: dict[str, Value], factor: float) -> None:
    rig = small()
    cost = rig.step_cost(setup_of(rig.rig, {**TENSOR, **variables}))
    assert cost.fixed_s == pytest.approx(2 * 8 * 40e-6 * factor + 0.5e-3)


def test_layers_on_the_host_go_by_its_bandwidth() -> None:
    rig = small()
    whole = rig.true_rate(LAYER)
    half = rig.true_rate({**LAYER, "gpu-layers": 4})
    assert whole is not None
    assert half is not None
    assert half < 1 / (6000 * MIB / 5e10)
    assert half < whole / 3


def test_a_quantised_cache_is_a_touch_slower() -> None:
    plain, quantised = rate(small()), rate(small(), cache_type_k="q8_0", cache_type_v="q8_0")
    assert 0.97 * plain < quantised < plain


def test_options_that_move_nothing_move_nothing() -> None:
    assert rate(small(), batch_size=512) == rate(small(), threads=3) == rate(small(), kv_unified=True)


def test_ngrams_alone_find_nothing_in_fresh_text() -> None:
    plain, ngrams = rate(small()), rate(small(), spec_type="ngram-mod")
    assert 0.97 * plain < ngrams < plain


def test_a_deeper_context_is_read_with_each_step() -> None:
    near, far = small(), small(workload={"prompt_tokens": 8000})
    assert rate(far) < rate(near)


def test_a_draft_is_accepted_by_position() -> None:
    cycle = cycle_of((0.8, 0.6, 0.4), 2, 0.0)
    assert (cycle.accepted, cycle.drafted, cycle.passes) == pytest.approx((1.4, 2.0, 2.0))


def test_positions_beyond_the_list_go_on_as_the_last_did() -> None:
    assert cycle_of((0.8, 0.4), 3, 0.0).accepted == pytest.approx(0.8 + 0.4 + 0.2)


def test_a_threshold_drafts_less_and_loses_a_little() -> None:
    free, careful = cycle_of((0.7, 0.4, 0.2), 3, 0.0), cycle_of((0.7, 0.4, 0.2), 3, 0.75)
    assert careful.drafted < careful.passes < free.passes
    assert 0.6 * free.accepted < careful.accepted < free.accepted


def test_drafts_pay_by_class() -> None:
    code, prose = small(workload={"classes": ["code"]}), small(workload={"classes": ["prose"]})
    drafting: dict[str, Value] = {"spec_type": "draft-mtp", "spec_draft_n_max": 3}
    assert rate(code) == rate(prose)
    assert rate(code, **drafting) > rate(prose, **drafting)


def test_tokens_of_all_classes_are_added_up_over_time() -> None:
    drafting: dict[str, Value] = {"spec_type": "draft-mtp", "spec_draft_n_max": 3}
    code, prose, both = (
        rate(small(workload={"classes": classes}), **drafting)
        for classes in (["code"], ["prose"], ["code", "prose"])
    )
    assert both == pytest.approx(2 / (1 / code + 1 / prose))


def test_graph_splits_can_cost_more_than_the_faster_card_gains() -> None:
    plain, costly = small(), small(quirks={"splits_cost": 4000})
    assert rate(plain, **UNEVEN) > rate(plain, **EVEN)
    assert rate(costly, **UNEVEN) < rate(costly, **EVEN)


def test_a_curse_hits_its_combination_alone() -> None:
    when = {"split-mode": "tensor", "ubatch-size": 1024}
    plain, cursed = small(), small(quirks={"cursed": {"slow": 2.5, "when": when}})
    assert rate(cursed, ubatch_size=1024) == pytest.approx(rate(plain, ubatch_size=1024) / 2.5)
    assert rate(cursed, ubatch_size=512) == rate(plain, ubatch_size=512)


def test_a_larger_ubatch_helps_tensor_mode_further_than_layer_mode() -> None:
    rig = small()

    def prompt(options: dict[str, Value], ubatch: int) -> float:
        return 4096 / prompt_s(
            rig.rig, rig.parts, setup_of(rig.rig, {**options, "ubatch-size": ubatch}), 4096
        )

    assert prompt(TENSOR, 128) < prompt(TENSOR, 512) < prompt(TENSOR, 1024)
    assert prompt(LAYER, 128) < prompt(LAYER, 512)
    assert prompt(LAYER, 2048) < prompt(LAYER, 512)
