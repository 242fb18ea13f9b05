"""Whether a server lives from the disk: weights in host memory that do not stay there are read again and again.

A model that is mapped into memory is read when it is first touched, so a first launch may read while it answers and
the next one does not. What still reads at its last request, token by token, does not fit into host memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.outcome import Kind, Outcome, Phase

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Read for each generated token, in MiB: from there on it is no chance. The prompt's part is in it.
MIB_A_TOKEN = 1.0
#: Requests of which at least two tell a first touch from a lack of memory.
_LEAST_REQUESTS = 2


def paged(read_mib: Sequence[float], tokens: Sequence[int]) -> Outcome | None:
    """What is to be said of a launch that read from the disk while it answered; None where nothing is.

    Args:
        read_mib: What was read during each request, in order.
        tokens: Tokens that each request generated.
    """
    if not tokens or sum(read_mib) < MIB_A_TOKEN * sum(tokens):
        return None
    a_token_mib = sum(read_mib) / max(sum(tokens), 1)
    said = f"{a_token_mib:,.0f} MiB a token were read from the disk while it answered"
    if len(tokens) >= _LEAST_REQUESTS and read_mib[-1] >= MIB_A_TOKEN * tokens[-1]:
        return Outcome(
            Kind.DEGRADED,
            phase=Phase.BENCHMARK,
            evidence=f"{said}, to the last request: what lies in host memory does not stay there",
        )
    return Outcome(
        Kind.DISTURBED, phase=Phase.BENCHMARK, evidence=f"{said}: it was touched for the first time"
    )
