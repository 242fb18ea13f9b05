"""What is large goes into the page compressed: browsers unpack it with their own `DecompressionStream`."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from tuner.report.view.trial_rows import trial_detail

if TYPE_CHECKING:
    from tuner.report.view.inputs import ReportInputs

#: A page is no larger, in bytes.
MOST_BYTES = 6_000_000
#: Characters of all trials' details in a page, compressed and in base64.
MOST_DETAIL_CHARACTERS = 2_200_000
_LEAST_LOG_CHARACTERS = 400
_QUICK = 5
"""Level of compression of what is packed anew for each page."""


def packed(text: str, level: int = 9) -> str:
    """A text as base64 of gzip; the same text always gives the same.

    Args:
        text: Any.
        level: From 1 (quick) to 9 (small).
    """
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=level, mtime=0)).decode("ascii")


def unpacked(text: str) -> str:
    """The inverse of `packed`."""
    return gzip.decompress(base64.b64decode(text)).decode()


@cache
def plotly_js() -> str:
    """The plotly.js that comes with the package plotly, packed."""
    source = resources.files("plotly").joinpath("package_data/plotly.min.js")
    return packed(source.read_text(encoding="utf-8"))


def packed_details(inputs: ReportInputs, most_characters: int = MOST_DETAIL_CHARACTERS) -> str:
    """What is shown of each trial on demand, packed: by number, as JSON.

    Where it would be too much, logs are cut to their ends until it is not; then they are left out.
    """
    details = _details(inputs)
    keep = max((len(tail) for tail in inputs.log_tails.values()), default=0)
    while True:
        rows = {number: {**row, "log": row["log"][-keep:] if keep else ""} for number, row in details.items()}
        text = packed(json.dumps(rows, separators=(",", ":"), ensure_ascii=False), _QUICK)
        if len(text) <= most_characters or not keep:
            return text
        less = min(int(keep * 0.9 * most_characters / len(text)), keep // 2)
        keep = less if less >= _LEAST_LOG_CHARACTERS else 0


def _details(inputs: ReportInputs) -> dict[str, dict[str, Any]]:
    found = {}
    for record in inputs.records:
        detail = trial_detail(record, inputs.log_tails)
        found[str(record.number)] = {
            "command": detail.command,
            "evidence": detail.evidence,
            "lines": list(detail.lines),
            "log": detail.log_tail,
        }
    return found
