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

#: Characters of all trials' details in a page, compressed and in base64: with plotly.js (2 MB) and the rows of
#: 3,000 trials a page stays below 6 MB.
MOST_DETAIL_CHARACTERS = 2_200_000
_LEAST_LOG_CHARACTERS = 400


def packed(text: str) -> str:
    """A text as base64 of gzip; the same text always gives the same."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode("ascii")


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
    keep = max((len(tail) for tail in inputs.log_tails.values()), default=0)
    while True:
        text = packed(json.dumps(_details(inputs, keep), separators=(",", ":"), ensure_ascii=False))
        if len(text) <= most_characters or not keep:
            return text
        keep = keep // 2 if keep // 2 >= _LEAST_LOG_CHARACTERS else 0


def _details(inputs: ReportInputs, keep: int) -> dict[str, Any]:
    tails = {number: tail[-keep:] if keep else "" for number, tail in inputs.log_tails.items()}
    found = {}
    for record in inputs.records:
        detail = trial_detail(record, tails)
        found[str(record.number)] = {
            "command": detail.command,
            "evidence": detail.evidence,
            "lines": list(detail.lines),
            "log": detail.log_tail,
        }
    return found
