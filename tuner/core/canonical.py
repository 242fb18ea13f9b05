"""The candidate that some options physically are."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tuner.core.assignment.layers import reduced
from tuner.core.candidate import Candidate
from tuner.core.options import ALLREDUCE, DRAFT_OPTIONS, NEEDS_DRAFT_MODEL, OVERRIDES, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.assignment.splits import Splits

_WITHOUT_RATIO = frozenset({None, "none"})


def has_ratio(mode: Value | None) -> bool:
    """Whether a split mode divides by `tensor-split`; one that only a fork has is taken to."""
    return mode not in _WITHOUT_RATIO


def canonical(options: Mapping[str, Value], splits: Splits) -> Candidate:
    """What these options physically are: what has no effect is dropped, equal splits are one candidate.

    Args:
        options: Any options, by canonical name.
        splits: Which splits of the model are the same.
    """
    result = dict(options)
    devices = result.get("device", ())
    split = cast("tuple[int, ...]", result.get("tensor-split", ()))
    if isinstance(devices, tuple) and len(devices) == 1:
        result["split-mode"] = "none"
    mode = result.get("split-mode")
    if not has_ratio(mode):
        result.pop("tensor-split", None)
    elif split:
        whole_model = cast("int", result.get("gpu-layers", 0)) >= splits.n_units
        result["tensor-split"] = (
            splits.simplest(str(mode), split) if whole_model and any(split) else reduced(split)
        )
    if mode != "tensor":
        result.pop(ALLREDUCE, None)
    if any(name in result for name in OVERRIDES):
        result = _one_way(result, splits)
    return Candidate.of({name: value for name, value in result.items() if name not in _idle(result)})


def _one_way(options: Mapping[str, Value], splits: Splits) -> dict[str, Value]:
    """What lies in RAM, written in one way; as it is where the model has nothing of the kind."""
    parts = splits.host_parts
    layers = parts.in_ram(options) if parts.sizes else None
    if layers is None:
        return dict(options)
    rest = {name: value for name, value in options.items() if name not in OVERRIDES}
    return {**rest, **parts.options(layers)}


def _idle(options: Mapping[str, Value]) -> frozenset[str]:
    """Draft options that mean nothing with the kinds of drafts that are on."""
    kinds = str(options.get("spec-type", "none")).split(",")
    idle = set(DRAFT_OPTIONS)
    if any(kind.startswith("draft-") for kind in kinds):
        idle -= {name for name in DRAFT_OPTIONS if name.startswith("spec-draft-")}
    if "ngram-mod" in kinds:
        idle -= {name for name in DRAFT_OPTIONS if name.startswith("spec-ngram-mod-")}
    if not NEEDS_DRAFT_MODEL & set(kinds):
        idle.add("spec-draft-model")
    return frozenset(idle)
