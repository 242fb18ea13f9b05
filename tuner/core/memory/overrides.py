"""Tensors that a command puts elsewhere than their layer: `-ot`, `-cmoe`, `-ncmoe` and `-ncffn`.

The engine keeps one list of patterns and gives a tensor to the first that is found in its name (`create_tensor`
of llama-model-loader.cpp, build 11434). A list that has any entry ends pipeline parallelism, whatever it matches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.experts import CPU, DENSE, EXPERTS, override_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.options import Value


@dataclass(frozen=True, slots=True)
class Override:
    """One entry of that list."""

    pattern: str
    buffer: str
    """A device as the engine names its memory, or `CPU`."""

    @property
    def on_host(self) -> bool:
        """Whether it keeps tensors in the host's memory, pinned (`CUDA_Host`) or not: it is the same memory."""
        return self.buffer.startswith(CPU) or self.buffer.endswith("_Host")

    def __str__(self) -> str:
        """As the engine takes it."""
        return f"{self.pattern}={self.buffer}"


def overrides_of(options: Mapping[str, Value]) -> tuple[Override, ...]:
    """The list that a candidate's options make, in the order in which its flags are written."""
    entries = options.get("override-tensor") or ""
    text = override_text(map(str, entries)) if isinstance(entries, tuple) else str(entries)
    return (
        *written_overrides(text),
        *expert_overrides("cpu-moe", int(options.get("cpu-moe") is True)),
        *expert_overrides("n-cpu-moe", _count(options.get("n-cpu-moe"))),
        *expert_overrides("n-cpu-ffn", _count(options.get("n-cpu-ffn"))),
    )


def written_overrides(text: str) -> tuple[Override, ...]:
    """The entries of a value of `--override-tensor`; a part that the engine refuses is left out."""
    found = []
    for part in text.split(","):
        pattern, sign, buffer = part.partition("=")
        if sign and is_pattern(pattern):
            found.append(Override(pattern, buffer))
    return tuple(found)


def expert_overrides(name: str, count: int) -> tuple[Override, ...]:
    """The entries that a shorthand stands for.

    Args:
        name: `cpu-moe`, `n-cpu-moe` or `n-cpu-ffn`.
        count: Its number; 0 for nothing.
    """
    if name == "cpu-moe":
        return (Override(EXPERTS, CPU),) * min(count, 1)
    tensors = EXPERTS if name == "n-cpu-moe" else DENSE
    return tuple(Override(rf"blk\.{layer}{tensors}", CPU) for layer in range(count))


def override_of(overrides: Sequence[Override], tensor: str) -> Override | None:
    """The entry that decides where a tensor lies; None where none is found in its name."""
    return next((one for one in overrides if re.search(one.pattern, tensor)), None)


def is_pattern(text: str) -> bool:
    """Whether a text is a regular expression."""
    try:
        re.compile(text)
    except re.error:
        return False
    return True


def _count(value: Value | None) -> int:
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0
