"""Hypothesis strategies for the values of the core and for search spaces on a rig."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st

from tests.support.models import model
from tuner.core.assignment.splits import Splits
from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchResult
from tuner.core.measurement import Sample
from tuner.core.model import TensorInfo
from tuner.core.options import OPTIONS, ValueType
from tuner.core.outcome import Kind, Outcome, Phase, Stage
from tuner.core.space import Choice, Devices, FloatRange, InRam, IntRange, Parameter, SearchSpace, Split
from tuner.search.coordinates import BoundSpace
from tuner.search.dimensions import Categorical, Coordinate, Dimension, Integer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.core.options import Value

#: No deadline for an example: a busy machine is no failure.
PROPERTY = settings(max_examples=60, deadline=None)

DEVICE_NAMES = ("CUDA0", "CUDA1", "RPC0", "Vulkan0", "ROCm0")
ENVIRONMENT_NAMES = ("GGML_CUDA_ALLREDUCE", "GGML_CUDA_P2P", "NCCL_P2P_DISABLE")

texts = st.text(max_size=20)
amounts = st.just(0.0) | st.floats(1e-3, 1e6)
"""Seconds, milliseconds or MiB: none, or so much that a clock or an allocator could have said it."""
counts = st.integers(min_value=0, max_value=10**6)


def splits(n_devices: int | None = None, largest: int = 100) -> st.SearchStrategy[tuple[int, ...]]:
    """Tensor splits: proportions of which one at least is above 0."""
    sizes = st.integers(2, len(DEVICE_NAMES)) if n_devices is None else st.just(n_devices)
    return sizes.flatmap(
        lambda n: st.lists(st.integers(0, largest), min_size=n, max_size=n).filter(any).map(tuple)
    )


_device_lists: st.SearchStrategy[tuple[str, ...]] = st.lists(
    st.sampled_from(DEVICE_NAMES), min_size=1, unique=True
).map(tuple)
#: Runs of layers that keep their experts in one place.
expert_lists: st.SearchStrategy[Value] = st.lists(
    st.builds(
        lambda place, first, more: f"{place}:{first}-{first + more}",
        st.sampled_from(["CPU", "CUDA1"]),
        st.integers(0, 90),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=3,
).map(tuple)

_VALUES: dict[ValueType, st.SearchStrategy[Value]] = {
    ValueType.TEXT: texts,
    ValueType.INTEGER: st.integers(-1, 10**6),
    ValueType.NUMBER: st.floats(0, 1),
    ValueType.SWITCH: st.booleans(),
    ValueType.DEVICES: _device_lists,
    ValueType.SPLIT: splits(),
    ValueType.EXPERTS: expert_lists,
}

option_sets: st.SearchStrategy[dict[str, Value]] = st.fixed_dictionaries(
    {},
    optional={
        **{name: _VALUES[option.value_type] for name, option in OPTIONS.items()},
        **dict.fromkeys(ENVIRONMENT_NAMES, texts),
    },
)
"""Any options with values of their types."""

candidates = option_sets.map(Candidate.of)

samples: st.SearchStrategy[Sample] = st.builds(
    Sample,
    prompt_id=texts,
    prompt_class=st.sampled_from(["code", "prose", "chat"]),
    ttft_s=amounts,
    wall_s=amounts,
    cache_n=counts,
    prompt_n=counts,
    prompt_ms=amounts,
    predicted_n=counts,
    predicted_ms=amounts,
    draft_n=st.none() | counts,
    draft_n_accepted=st.none() | counts,
    text=texts,
)

outcomes: st.SearchStrategy[Outcome] = st.builds(
    Outcome,
    kind=st.sampled_from(Kind),
    phase=st.none() | st.sampled_from(Phase),
    stage=st.none() | st.sampled_from(Stage),
    device=st.none() | st.sampled_from(DEVICE_NAMES),
    requested_mib=st.none() | amounts,
    evidence=texts,
    inferred=st.booleans(),
)

launch_results: st.SearchStrategy[LaunchResult] = st.builds(
    LaunchResult,
    outcome=outcomes,
    samples=st.lists(samples, max_size=4).map(tuple),
    load_s=amounts,
    requests_s=amounts,
    warmup_s=amounts,
    shutdown_s=amounts,
    exit_code=st.none() | st.integers(-64, 255),
    buffers_mib=st.dictionaries(texts, amounts, max_size=4),
    free_mib=st.dictionaries(texts, counts, max_size=4),
)


@st.composite
def model_splits(draw: st.DrawFn, most_layers: int = 99) -> Splits:
    """Splits of a model of some layers, with tensors of every kind in the first ones."""
    heads = (draw(st.sampled_from([1, 2, 4, 8])),) * draw(st.integers(4, most_layers))
    rows = draw(st.sampled_from([0, 1024, 4096]))
    made = model(heads=heads)
    if not rows:
        return Splits(made)
    tensors = tuple(
        TensorInfo(f"blk.{layer}.ffn_down.weight", (rows, 512), "Q8_0", rows * 544) for layer in range(2)
    )
    if draw(st.booleans()):
        experts = draw(st.lists(st.booleans(), min_size=len(heads), max_size=len(heads)))
        tensors += tuple(
            TensorInfo(f"blk.{layer}.ffn_up_exps.weight", (512, 512, 8), "Q8_0", 8 * 512 * 544)
            for layer, has in enumerate(experts)
            if has
        )
    return Splits(replace(made, tensors=tensors))


@st.composite
def bound_spaces(draw: st.DrawFn, min_devices: int = 1) -> BoundSpace:
    """A search space of every kind of parameter, on a rig of some devices."""
    names = DEVICE_NAMES[: draw(st.integers(min_devices, len(DEVICE_NAMES)))]
    modes = draw(st.lists(st.sampled_from(["layer", "tensor", "none", "row"]), min_size=1, unique=True))
    with_drafts = (("spec-type", ("draft-mtp", "ngram-mod,draft-mtp")),)
    parameters: list[Parameter] = [Choice("split-mode", tuple(modes), modes[0])]
    if draw(st.booleans()):
        parameters.append(Devices("device", subsets=draw(st.booleans()), orders=draw(st.booleans())))
    parameters += [
        Split("tensor-split", draw(st.none() | st.integers(2, 40)), draw(st.integers(2, 40))),
        InRam("override-tensor", draw(st.sampled_from([(), (("split-mode", ("layer", "none")),)]))),
        Choice("ubatch-size", (128, 512, 2048), 512),
        Choice("kv-unified", (False, True), default=False),
        Choice("spec-type", ("none", "ngram-mod", "draft-mtp", "ngram-mod,draft-mtp"), "none"),
        IntRange("spec-draft-n-max", 1, 9, draw(st.sampled_from([1, 2, 4])), 1, with_drafts),
        FloatRange("spec-draft-p-min", 0.1, 0.9, draw(st.sampled_from([0.05, 0.1, 0.2])), 0.1, with_drafts),
        Choice("GGML_CUDA_ALLREDUCE", ("nccl", "internal"), "nccl", (("split-mode", ("tensor",)),)),
    ]
    layers = draw(st.sampled_from([999, 4]))
    return BoundSpace(
        SearchSpace("any", "", MappingProxyType({"gpu-layers": layers}), tuple(parameters)),
        devices=names,
        splits=draw(model_splits()),
        imposed=draw(st.sampled_from([{}, {"ctx-size": 4096}, {"ubatch-size": 256}])),
    )


def suggestions(data: st.DataObject) -> Callable[[Dimension], Coordinate]:
    """A sampler that says anything that a dimension allows."""

    def suggest(dimension: Dimension) -> Coordinate:
        if isinstance(dimension, Categorical):
            return data.draw(st.sampled_from(dimension.choices), label=dimension.name)
        steps = round((dimension.high - dimension.low) / dimension.step)
        step = data.draw(st.integers(0, steps), label=dimension.name)
        if isinstance(dimension, Integer):
            return dimension.low + step * dimension.step
        return min(dimension.low + step * dimension.step, dimension.high)

    return suggest
