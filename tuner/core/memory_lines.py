"""Buffer sizes that an engine prints while it loads (builds from 9246 on: at `-lv 4`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: A context may reserve its compute buffers again, as one that drafts does: the earlier ones are given back.
_LINE = re.compile(
    r"(?P<context>constructing llama_context)|(?P<reserve>sched_reserve: reserving)|"
    r"\s(?P<name>[^\s:]\S*?)(?:\[(?P<endpoint>[^\]\n]+)\])?[ \t]+"
    r"(?P<part>model|KV|RS|compute|output) buffer size =\s+(?P<mib>\d{1,12}(?:\.\d+)?) MiB"
)


def buffers_mib(log: str, endpoints: Mapping[str, str]) -> dict[str, float]:
    """MiB that each device's buffers add up to, by the engine's name of the device.

    Args:
        log: What the engine has printed.
        endpoints: `host:port` of an RPC server to the device's name: buffers carry that server's own index.

    Host memory (`CPU`, `CUDA_Host`, ...) has entries of its own. In tensor mode the one entry is `Meta()`,
    the largest share of any device; what a device holds there is not printed.
    """
    found: list[tuple[str, float]] = []
    reserved: list[tuple[str, float]] = []
    for match in _LINE.finditer(log):
        if match["context"] is not None:
            found += reserved
        if match["name"] is None:
            reserved = []
            continue
        endpoint = match["endpoint"]
        name = endpoints.get(endpoint, match["name"]) if endpoint is not None else match["name"]
        (reserved if match["part"] == "compute" else found).append((name, float(match["mib"])))
    sums: dict[str, float] = {}
    for name, mib in [*found, *reserved]:
        sums[name] = sums.get(name, 0.0) + mib
    return sums
