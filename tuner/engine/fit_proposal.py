"""What `llama-fit-params` would start a model with, as options of a candidate."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from tuner.core.experts import EXPERTS
from tuner.core.memory.overrides import override_of, written_overrides

if TYPE_CHECKING:
    from tuner.core.assignment.splits import Splits
    from tuner.core.options import Value

_LAYER = re.compile(r"blk\.(\d+)\.")


def read_proposal(said: str, splits: Splits) -> dict[str, Value] | None:
    """Its split, and the layers whose experts it puts into RAM; one of which it takes a part counts as one.

    Args:
        said: What it prints: flags on one line.
        splits: The model's.

    Returns:
        None where it leaves whole layers on the host, or proposes nothing that can be read.
    """
    line = next((line for line in reversed(said.splitlines()) if line.startswith("-")), "")
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    flags = dict(zip(words[::2], words[1::2], strict=False))
    layers = flags.get("-ngl", "")
    if not layers.lstrip("-").isdecimal() or 0 <= int(layers) < splits.n_units:
        return None
    options: dict[str, Value] = {}
    split = flags.get("-ts", "").split(",")
    if len(split) > 1:
        if not all(part.isdecimal() for part in split):
            return None
        options |= {"split-mode": "layer", "tensor-split": tuple(map(int, split))}
    overrides = written_overrides(flags.get("-ot", ""))
    held = set()
    for tensor in splits.model.tensors:
        match = _LAYER.match(tensor.name)
        if match is None or re.search(EXPERTS, tensor.name) is None:
            continue
        override = override_of(overrides, tensor.name)
        if override is not None and not override.on_host:
            return None  # part of a layer goes to another device
        if override is not None:
            held.add(int(match[1]))
    return {**options, **splits.host_parts.options(held.intersection(splits.host_parts.sizes))}
