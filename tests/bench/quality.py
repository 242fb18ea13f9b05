"""What KV types and kernels cost the answers of the small model: `python tests/bench/quality.py`.

Starts the real engine on the processor once for each variant, looks at what it would say next as `tuner tune` does,
and compares with the plain one. The bound of tuner/core/quality.py rests on these figures.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this is run as a script, too

import httpx

from tests.support import engine_setup
from tuner.core.quality import Probe, loss
from tuner.engine.client import Client, slot_context_of
from tuner.engine.environment import server_environment
from tuner.engine.process import ServerProcess
from tuner.runs.works.probing import Probing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.quality import NextToken

PORT = 18_571
#: Each with the environment that it is started in.
VARIANTS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "launched again": ((), {}),
    "-ub 64": (("-ub", "64"), {}),
    "-fa off": (("-fa", "off"), {}),
    "q8_0 cache": (("-ctk", "q8_0", "-ctv", "q8_0"), {}),
    "q4_0 keys": (("-ctk", "q4_0"), {}),
    "q4_0 cache": (("-ctk", "q4_0", "-ctv", "q4_0"), {}),
    "q4_0 cache, not rotated": (("-ctk", "q4_0", "-ctv", "q4_0"), {"LLAMA_ATTN_ROT_DISABLE": "1"}),
}


class _Asked:
    """A server as the look sees it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.slot_context = slot_context_of(client.props())

    def next_token(self, text: str) -> NextToken | None:
        return self._client.next_token(text, deadline_s=600.0)

    def count_tokens(self, text: str) -> int | None:
        return self._client.count_tokens(text)


def look(flags: Sequence[str], environment: dict[str, str], *, seconds: float, deep: int | None) -> Probe:
    """What one server would say; it is ended again."""
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "config"
        empty.mkdir()
        usual = server_environment(dict(os.environ), empty, allow_p2p=False)
        argv = [
            *(str(engine_setup.llama_server()), "-m", str(engine_setup.model_path()), "--port", str(PORT)),
            *("-c", "8192", "-np", "1", "-t", "2", "--device", "none", "--api-key", "k"),
            *(() if "-fa" in flags else ("-fa", "on")),
            *flags,
        ]
        with (
            ServerProcess(argv, {**usual, **environment}, Path(folder) / "log"),
            Client(f"http://127.0.0.1:{PORT}", "k") as client,
        ):
            end_s = time.monotonic() + 60
            while not client.is_ready():
                if time.monotonic() > end_s:
                    raise httpx.ConnectTimeout("the server did not get ready")
                time.sleep(0.05)
            return Probing(seconds, deep)(_Asked(client), 200.0)


def main(argv: Sequence[str] | None = None) -> int:
    """Print a row for each variant."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, metavar="N", help="for each look, default 60")
    options = parser.parse_args(argv)
    plain = look((), {}, seconds=options.seconds, deep=None)
    n_deep = sum(one.deep for one in plain.positions)
    depth = max((one.tokens for one in plain.positions if one.deep), default=0)
    print(
        f"{len(plain.positions) - n_deep} shallow places, {n_deep} at {depth:,} tokens; nats, median and most"
    )
    for name, (flags, environment) in VARIANTS.items():
        found = loss(plain, look(flags, environment, seconds=options.seconds * 4, deep=plain.deep_characters))
        if found is None:
            print(f"{name:26s}  nothing in common")
            continue
        deep = "-" if found.deep_kl_nats is None else f"{found.deep_kl_nats:.4f}"
        print(
            f"{name:26s}  {found.kl_nats:.4f}  deep {deep}  most {found.worst_kl_nats:.3f}  same likeliest "
            f"token {found.top1:.0%}  ({found.positions} places)",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
