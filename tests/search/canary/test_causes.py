"""Which options are behind a change: shared by what changed, in nothing that did not."""

import pytest

from tests.support.played_search import candidate
from tuner.core.candidate import Candidate
from tuner.core.options import BASE_OPTIONS
from tuner.search.canary.causes import Seen, differ, suspects, telling, traits

TENSOR_MTP = candidate("tensor", (2, 3), 4)
TENSOR = candidate("tensor", (1, 1))
LAYER_MTP = candidate("layer", (26, 40), 3)
LAYER = candidate("layer", (26, 40))
DEFAULT = Candidate.of(BASE_OPTIONS)


def seen(one: Candidate, ratio: float, sigma: float = 0.01) -> Seen:
    return Seen(one.options, ratio, sigma)


def test_traits_are_what_a_build_can_do_badly() -> None:
    assert traits(TENSOR_MTP.options) == {
        "split-mode tensor",
        "spec-type draft-mtp",
        "a q8_0 KV cache",
        "several devices",
    }
    assert traits(DEFAULT.options) == {"split-mode layer", "several devices"}
    assert traits(candidate("none", (), device=("CUDA0",)).options) == {"split-mode none", "a q8_0 KV cache"}


def test_a_ratio_a_depth_or_a_size_is_never_at_fault() -> None:
    other = candidate("tensor", (7, 13), 1).with_options({"ubatch-size": 128, "cache-ram": 0})
    assert traits(TENSOR_MTP.options) == traits(other.options)


def test_that_experts_lie_in_ram_is_a_trait_whatever_their_number() -> None:
    some, more = (LAYER.with_options({"n-cpu-moe": many}) for many in (3, 20))
    assert traits(some.options) == traits(more.options) == traits(LAYER.options) | {"n-cpu-moe"}
    assert traits(LAYER.with_options({"n-cpu-moe": 0}).options) == traits(LAYER.options)
    assert "override-tensor" in traits(LAYER.with_options({"override-tensor": ("CPU:0-4",)}).options)


def test_an_environment_variable_is_a_trait_where_it_is_not_the_usual_one() -> None:
    internal = TENSOR.with_options({"GGML_CUDA_ALLREDUCE": "internal"})
    assert traits(internal.options) - traits(TENSOR.options) == {"GGML_CUDA_ALLREDUCE internal"}


def test_what_did_not_change_clears_what_it_has() -> None:
    best = seen(TENSOR_MTP, 0.7)
    assert suspects(best, []) == traits(TENSOR_MTP.options)
    assert suspects(best, [seen(DEFAULT, 1.0)]) == {
        "split-mode tensor",
        "spec-type draft-mtp",
        "a q8_0 KV cache",
    }
    assert suspects(best, [seen(LAYER_MTP, 1.01)]) == {"split-mode tensor"}


def test_what_changed_alike_has_it_too() -> None:
    best = seen(TENSOR_MTP, 0.7)
    assert suspects(best, [seen(LAYER, 0.99), seen(TENSOR, 0.72)]) == {"split-mode tensor"}
    assert suspects(best, [seen(DEFAULT, 1.0), seen(LAYER_MTP, 0.71)]) == {
        "spec-type draft-mtp",
        "a q8_0 KV cache",
    }


def test_a_gain_has_a_cause_as_a_loss_has() -> None:
    assert suspects(seen(TENSOR_MTP, 1.3), [seen(LAYER_MTP, 1.0)]) == {"split-mode tensor"}


def test_the_launch_that_tells_most_has_half_of_what_is_suspected() -> None:
    suspected = {"split-mode tensor", "spec-type draft-mtp"}
    assert telling(suspected, [TENSOR_MTP, LAYER, LAYER_MTP, TENSOR], launched=()) == LAYER_MTP
    assert telling(suspected, [TENSOR_MTP, LAYER, LAYER_MTP, TENSOR], launched={LAYER_MTP.key()}) == TENSOR
    assert telling(suspected, [TENSOR_MTP, LAYER], launched=()) is None
    assert telling({"split-mode tensor"}, [LAYER_MTP], launched=()) is None


@pytest.mark.parametrize(
    ("one", "other", "sigma", "expected"),
    [(0.7, 1.0, 0.01, True), (0.96, 1.0, 0.001, False), (0.85, 1.0, 0.1, False), (1.2, 1.0, 0.02, True)],
)
def test_factors_differ_beyond_noise_and_beyond_what_matters(
    one: float, other: float, sigma: float, *, expected: bool
) -> None:
    assert differ(seen(TENSOR, one, sigma), seen(LAYER, other, sigma)) is expected
