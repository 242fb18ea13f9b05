"""Buffer sizes that an engine prints while it loads (builds from 9246 on: at `-lv 4`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_BUFFER = re.compile(
    r"\s(?P<name>[^\s:]\S*?)(?:\[(?P<endpoint>[^\]]+)\])?\s+"
    r"(?P<part>model|KV|RS|compute|output) buffer size =\s+(?P<mib>[\d.]+) MiB"
)


def buffers_mib(log: str, endpoints: Mapping[str, str]) -> dict[str, float]:
    """MiB that each device's buffers add up to, by the engine's name of the device.

    Args:
        log: What the engine has printed.
        endpoints: `host:port` of an RPC server to the device's name: buffers carry that server's own index.

    Host memory (`CPU`, `CUDA_Host`, ...) has entries of its own. In tensor mode the one entry is `Meta()`,
    the largest share of any device; what a device holds there is not printed.
    """
    sums: dict[str, float] = {}
    for match in _BUFFER.finditer(log):
        endpoint = match["endpoint"]
        name = endpoints.get(endpoint, match["name"]) if endpoint is not None else match["name"]
        sums[name] = sums.get(name, 0.0) + float(match["mib"])
    return sums
