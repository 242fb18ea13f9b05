"""A command as it may be shown to strangers: what it measures stays, where things lie and who owns them goes.

Decided by what a word is, not by which flag it follows: a flag of tomorrow may name a host, too. So a value is
shown if it is known to say nothing, a model file without its folders, and anything else is left open.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tuner.core.options import KV_BITS
from tuner.core.serving import ALIAS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEFT_OPEN = "..."

_FLAG = re.compile(r"--?[A-Za-z][A-Za-z-]*[A-Za-z0-9]?")
_NUMBERS = re.compile(r"-?\d+(?:\.\d+)?(?:[,/:x-]\d+(?:\.\d+)?)*")
_ENUMERATED = re.compile(
    r"(?:on|off|auto|all|none|true|false|yes|no|enabled|disabled|layer|row|tensor|mmap|mlock|dio|mmap\+mlock|greedy|"
    r"probabilistic|distribute|isolate|numactl|internal|nccl|linear|yarn|PCI_BUS_ID|FASTEST_FIRST|PHB|SYS|NODE|"
    r"(?:draft|ngram)-[a-z0-9-]+|(?:CUDA|ROCm|Vulkan|SYCL|MTL|RPC|CPU)\d*)"
)
#: Patterns of tensor names, as the engine takes them, and where they go.
_OVERRIDE = re.compile(r"[\w.\\()|\[\]*+?^$-]+=(?:CPU|CUDA\d+|ROCm\d+|Vulkan\d+|RPC\d+)")
_FILE = re.compile(r"(?:.*[/\\])?([^/\\]+\.gguf)", re.DOTALL)


def public_words(program: str, words: Sequence[str]) -> list[str]:
    """The command without paths, hosts, keys and names that its owner gave.

    Args:
        program: Path of the server.
        words: What follows it.
    """
    shown = [program.rpartition("/")[2] or "llama-server"]
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ALIAS:
            skip = True
        else:
            shown.append(word if _FLAG.fullmatch(word) else _public(word))
    return shown


def public_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of the command in the same way."""
    return {name: _public(value) for name, value in environment.items()}


def _public(value: str) -> str:
    file = _FILE.fullmatch(value)
    if file is not None:
        return file[1]
    if _NUMBERS.fullmatch(value):
        return value
    parts = value.split(",")
    return (
        value
        if all(part in KV_BITS or _ENUMERATED.fullmatch(part) or _OVERRIDE.fullmatch(part) for part in parts)
        else LEFT_OPEN
    )
