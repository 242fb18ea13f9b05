"""The help text of a fork: what it has beyond the build it left, what it lacks, and how it spells what both have."""

from __future__ import annotations

import re

#: Options that it does not have, whatever else stands on their lines.
LACKS = ("--fit", "--fit-target", "--fit-ctx", "--kv-unified", "--load-mode", "--spec-draft-sampling")
_OWN = """\
----- fork params -----

-fmoe, --fused-moe {on,off}             whether to fuse the matrix products of experts (default: on)
-rtr,  --run-time-repack                repack tensors after loading (default: false)
-grt,  --graph-reduce-type TYPE         type of what devices exchange in split mode graph
                                        allowed values: f32, f16, q8_0
                                        (default: f16)
"""
_SPLIT = "{none,layer,row,tensor}"
_SPLIT_OWN = "(none|layer|graph)"
_SPLIT_TEXT = re.compile(r" {40}- row: .*\n {40}- tensor: .*\n {40}EXPERIMENTAL\)\n")
_GRAPH = " " * 40 + "- graph: cut each tensor of a layer across GPUs\n"
_KV = "f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1"


def as_a_fork(text: str) -> str:
    """What a fork of the build with that help text would print."""
    blocks = re.split(r"\n(?=-)", text)
    kept = [
        block for block in blocks if not any(f"{name} " in block.split("   ", 2)[0] + " " for name in LACKS)
    ]
    kept = [block for block in kept if not re.match(r"-\S+,\s+(" + "|".join(LACKS) + r")\b", block)]
    whole = "\n".join(kept).replace(_SPLIT, _SPLIT_OWN).replace(_KV, f"{_KV}, q6_0")
    return f"{_SPLIT_TEXT.sub(_GRAPH, whole).rstrip()}\n\n\n{_OWN}"
