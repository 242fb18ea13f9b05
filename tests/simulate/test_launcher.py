from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from statistics import fmean, stdev
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from tests.bench.strategies import RandomSampler
from tests.bench.task import task_of
from tests.support.played_rigs import document, simulated, small
from tuner.core.assignment.splits import Splits
from tuner.core.launch import LaunchResult
from tuner.core.measurement import rates, rates_by_class
from tuner.core.outcome import MEASURED, Kind
from tuner.core.space import Choice, Devices, IntRange, SearchSpace, Split
from tuner.search.coordinates import BoundSpace, complete, draw
from tuner.simulate.launcher import SimulatedRig
from tuner.simulate.rig_file import parse_rig

if TYPE_CHECKING:
    from tuner.core.candidate import Candidate
    from tuner.core.options import Value

LAYER: dict[str, Value] = {"split-mode": "layer", "tensor-split": (5, 5)}
TENSOR: dict[str, Value] = {"split-mode": "tensor", "tensor-split": (2, 1)}
MTP: dict[str, Value] = {"spec-type": "draft-mtp", "spec-draft-n-max": 3}


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - no secret


def score(result: LaunchResult) -> float:
    found = rates(result.samples).generation_tok_s
    assert found is not None
    return found


def test_without_noise_a_launch_measures_the_true_rate() -> None:
    rig = small()
    result = rig.launch({**LAYER, **MTP}, seeded(1))
    assert result.outcome == MEASURED
    assert score(result) == pytest.approx(rig.true_rate({**LAYER, **MTP}))


def test_a_launch_asks_each_class_as_often_as_the_workload_says() -> None:
    result = small(workload={"requests": 3}).launch(LAYER, seeded(1))
    assert [sample.prompt_class for sample in result.samples] == ["code"] * 3 + ["prose"] * 3
    assert len({sample.prompt_id for sample in result.samples}) == 6


def test_acceptance_is_told_by_class() -> None:
    by_class = rates_by_class(small().launch({**LAYER, **MTP}, seeded(1)).samples)
    assert by_class["code"].acceptance == pytest.approx((0.9 + 0.8 + 0.7) / 3, abs=0.02)
    assert by_class["prose"].acceptance == pytest.approx((0.8 + 0.6 + 0.4) / 3, abs=0.02)
    assert small().launch(LAYER, seeded(1)).samples[0].draft_n is None


def test_one_seed_gives_one_launch() -> None:
    rig = simulated("2x-rtx3090")
    first, second = (rig.launch(LAYER, seeded(7)) for _ in range(2))
    assert first == second
    assert rig.launch(LAYER, seeded(8)) != first


def test_noise_of_requests_grows_with_the_draft_depth_and_that_of_a_launch_is_shared() -> None:
    rig = small(noise={"base": 0.01, "per_draft": 0.02, "launch": 0.0}, workload={"requests": 200})
    plain, drafting = (
        [sample.generation_tok_s or 0.0 for sample in rig.launch(options, seeded(3)).samples[:200]]
        for options in (LAYER, {**LAYER, **MTP})
    )
    assert stdev(plain) / fmean(plain) == pytest.approx(0.01, rel=0.25)
    assert stdev(drafting) / fmean(drafting) == pytest.approx(0.07, rel=0.25)
    shared = small(noise={"base": 0.0, "per_draft": 0.0, "launch": 0.05})
    result = shared.launch(LAYER, seeded(3))
    assert len({round(sample.predicted_ms, 6) for sample in result.samples}) == 1
    assert score(result) != pytest.approx(shared.true_rate(LAYER), rel=1e-4)


def test_what_does_not_fit_ends_out_of_memory_before_a_full_load() -> None:
    rig = small(model={"layers_mib": 40_000})
    result = rig.launch(LAYER, seeded(1))
    assert result.outcome.kind is Kind.OUT_OF_MEMORY
    assert result.samples == ()
    assert 0 < result.load_s < 4.0
    assert rig.true_rate(LAYER) is None


def test_buffers_and_free_memory_add_up() -> None:
    rig = small()
    result = rig.launch({"split-mode": "none", "device": ("CUDA0",)}, seeded(1))
    assert result.free_mib["CUDA0"] == pytest.approx(15_000 - result.buffers_mib["CUDA0"] - 520, abs=1)
    assert result.free_mib["CUDA1"] == 15_000


def test_a_result_survives_being_stored() -> None:
    result = small().launch({**LAYER, **MTP}, seeded(1))
    assert LaunchResult.from_json(result.to_json()) == result


def test_nonsense_is_measured_and_worth_nothing() -> None:
    rig = small(quirks={"garbage": {"tensor": True}})
    result = rig.launch(TENSOR, seeded(1))
    assert result.outcome.kind is Kind.DEGRADED
    assert not result.outcome.policy.may_win
    assert {sample.text for sample in result.samples} == {"/" * 64}
    assert rig.true_rate(TENSOR) is None
    assert rig.true_rate(LAYER) is not None


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({**TENSOR, "cache-type-k": "q8_0"}, Kind.UNSUPPORTED),
        ({**TENSOR, "flash-attn": "off"}, Kind.UNSUPPORTED),
        ({**LAYER, "split-mode": "row"}, Kind.UNSUPPORTED),
        ({**LAYER, "spec-type": "draft-simple"}, Kind.DRAFT_UNAVAILABLE),
    ],
)
def test_what_the_server_refuses_is_no_measurement(options: dict[str, Value], kind: Kind) -> None:
    rig = small(quirks={"unsupported": [{"split-mode": "tensor", "cache-type-k": ["q8_0", "q4_0"]}]})
    assert rig.launch(options, seeded(1)).outcome.kind is kind
    assert rig.true_rate(options) is None


def test_drafts_without_mtp_layers_are_not_to_be_had() -> None:
    rig = small(model={"mtp_layers": 0})
    assert rig.launch({**LAYER, **MTP}, seeded(1)).outcome.kind is Kind.DRAFT_UNAVAILABLE


def test_only_the_first_launch_waits_for_the_disk() -> None:
    rig = small(quirks={"page_cache": {"first_load_slow": 5.0, "first_rate": 0.8}})
    first, second = (rig.launch(LAYER, seeded(1)) for _ in range(2))
    assert first.load_s == pytest.approx(5 * second.load_s)
    assert score(first) == pytest.approx(0.8 * score(second))


def test_a_device_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="small: no device 'CUDA7'; it has CUDA0, CUDA1"):
        small().true_rate({"device": ("CUDA7",)})


def test_the_engines_default_uses_memory_as_it_is_free_and_the_host_for_the_rest() -> None:
    assert small().engine_default()["gpu-layers"] == 10
    tight = small(model={"layers_mib": 40_000})
    default = tight.engine_default()
    assert 0 < int(str(default["gpu-layers"])) < 10
    assert tight.launch(None, seeded(1)).outcome == MEASURED


def test_factors_touch_reductions_overhead_and_noise_alone() -> None:
    rig = small(noise={"base": 0.01}).rig
    scaled = rig.scaled(2)
    assert scaled.link.reduce_us == 80
    assert scaled.model.overhead_ms == 1.0
    assert scaled.noise.base == 0.02
    assert (scaled.devices, scaled.link.hop_us, scaled.model.draft_ms) == (rig.devices, 100, 2.0)


def every_candidate(bound: BoundSpace) -> list[Candidate]:
    """All points of a small space, one by one."""
    names: dict[str, tuple[Value, ...]] = {}
    for parameter in bound.space.parameters:
        if isinstance(parameter, Choice):
            names[parameter.name] = parameter.choices
        elif isinstance(parameter, IntRange):
            names[parameter.name] = tuple(range(parameter.low, parameter.high + 1))
    placements: list[dict[str, Value]] = [{"split-mode": "none", "device": (one,)} for one in bound.devices]
    for devices in (bound.devices, bound.devices[::-1]):
        for mode, parts in (("layer", bound.splits.n_units), ("tensor", 8)):
            placements += [
                {"split-mode": mode, "device": devices, "tensor-split": (part, parts - part)}
                for part in range(1, parts)
            ]
    names.pop("split-mode")
    rest = [dict(zip(names, values, strict=True)) for values in product(*names.values())]
    return [complete(bound, {**more, **place}) for more in rest for place in placements]


@pytest.mark.parametrize("free_mib", [15_000, 9000, 5600])
def test_the_best_is_that_of_trying_everything(free_mib: int) -> None:
    rig = small(
        quirks={
            "cursed": {"slow": 1.3, "when": {"ubatch-size": 128, "split-mode": "tensor"}},
            "splits_cost": 150,
        },
    )
    rig = with_free(rig, free_mib)
    space = SearchSpace(
        "s",
        "",
        MappingProxyType({"ctx-size": 16_384}),
        (
            Choice("split-mode", ("layer", "tensor", "none"), "layer"),
            Devices("device", subsets=True, orders=True),
            Split("tensor-split", None, 8),
            Choice("ubatch-size", (128, 512), 512),
            Choice("cache-type-k", ("f16", "q8_0"), "f16"),
            Choice("cache-type-v", ("f16", "q8_0"), "f16"),
            Choice("spec-type", ("none", "ngram-mod", "draft-mtp"), "none"),
            IntRange("spec-draft-n-max", 1, 4, 1, 3, (("spec-type", ("draft-mtp",)),)),
            Choice("GGML_CUDA_ALLREDUCE", ("nccl", "internal"), "nccl", (("split-mode", ("tensor",)),)),
        ),
    )
    bound = BoundSpace(space, rig.rig.names, Splits(rig.model), {})
    candidate, tok_s = rig.best(bound)
    assert tok_s == pytest.approx(max(rig.true_rate(one) or 0.0 for one in set(every_candidate(bound))))
    assert rig.true_rate(candidate) == tok_s


@pytest.mark.parametrize("name", ["rtx5080-3090-cursed", "rtx4090-3060-display", "rtx5080-3090"])
def test_no_random_draw_beats_the_best_of_the_default_space(name: str) -> None:
    rig = simulated(name)
    task = task_of(rig)
    candidate, tok_s = rig.best(task.bound)
    sampler = RandomSampler(seeded(5))
    drawn = [rig.true_rate(draw(task.bound, sampler.ask().suggest)) or 0.0 for _ in range(2000)]
    assert max(drawn) <= tok_s
    assert rig.true_rate(candidate) == tok_s


def test_over_four_cards_the_best_is_beaten_by_no_draw() -> None:
    plain = document()
    bandwidths = (1e12, 0.7e12, 0.3e12, 0.5e12)
    plain["device"] = [
        {"name": f"CUDA{place}", "mem_mib": 16_000, "free_mib": 4500, "bw": bw, "flops": 3e13}
        for place, bw in enumerate(bandwidths)
    ]
    rig = SimulatedRig(parse_rig("four", plain))
    modes = Choice("split-mode", ("layer", "tensor"), "layer")
    devices = Devices("device", subsets=True, orders=False)
    space = SearchSpace("s", "", parameters=(modes, devices, Split("tensor-split", None, 16)))
    bound = BoundSpace(space, rig.rig.names, Splits(rig.model), {})
    candidate, tok_s = rig.best(bound)
    assert rig.true_rate(candidate) == tok_s
    sampler = RandomSampler(seeded(5))
    drawn = [rig.true_rate(draw(bound, sampler.ask().suggest)) or 0.0 for _ in range(2000)]
    assert 0 < max(drawn) <= tok_s


def test_a_space_in_which_nothing_runs_is_named() -> None:
    rig = small(model={"layers_mib": 400_000})
    with pytest.raises(ValueError, match="small: nothing in the space dual-gpu can run"):
        rig.best(task_of(rig).bound)


def with_free(rig: SimulatedRig, free_mib: int) -> SimulatedRig:
    """The same rig with so much memory free on its second card."""
    first, second = rig.rig.devices
    return SimulatedRig(replace(rig.rig, devices=(first, replace(second, free_mib=free_mib))))
