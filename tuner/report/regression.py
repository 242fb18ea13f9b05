"""A regression of the engine, to paste into an issue: both builds, command, numbers, intervals, watts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.telemetry import joules_a_token
from tuner.report.retuned import changed
from tuner.search.confirmation.state import launches_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.trial import TrialRecord
    from tuner.report.retuned import Found


#: The end of what an engine says of an RPC device: its address.
_PORT = re.compile(r":\d+$")


def regression_report(best: Mapping[str, Any], now: Mapping[str, Any], found: Found) -> str:
    """A change of speed in Markdown, for the issue tracker of the engine: no path, host or user name in it.

    Args:
        best: The best.json of before.
        now: The facts of the study of now.
        found: What its canary found; it is known of the old best how it has changed.
    """
    lines = [f"### {_title(found)}", "", _how(found), "", *_table(best, now, found)]
    others = [
        f"- {found.name(key)}: {changed(change)}"
        for key, change in found.judged.changes.items()
        if key != found.arms.best
    ]
    if others:
        lines += ["", "Other configurations, now over before:", "", *others]
    argv = [one.argv for one in _launches(found, found.arms.best)]
    lines += ["", *_rig(now), "", "```", _command(argv[-1] if argv else ()), "```"]
    return "\n".join(lines) + "\n"


def _title(found: Found) -> str:
    title = f"llama-server: {_percent(1.0 if found.own is None else found.own.ratio)} generation"
    return f"{title} with {', '.join(sorted(found.suspected))}" if found.suspected else title


def _how(found: Found) -> str:
    own = found.own
    if own is None:
        return "It is not known by how much."
    interval = own.interval
    said = f"{own.ratio:.3f} of what it was"
    if interval is not None:
        said += f" (95 %: {interval.low:.3f} to {interval.high:.3f})"
    if not own.in_turns:
        return f"{said}; the older build was measured on an earlier day."
    sides = "1 launch" if interval is None else f"{interval.blocks} launches"
    return f"{said}, {sides} a side, in turns on the same machine."


def _table(best: Mapping[str, Any], now: Mapping[str, Any], found: Found) -> list[str]:
    sides = [_launches(found, found.arms.previous), _launches(found, found.arms.best)]
    rates = [", ".join(f"{row.score:.1f}" for row in rows if row.score is not None) for rows in sides]
    if not rates[0]:
        rates[0] = ", ".join(f"{rate:.1f}" for rate in found.then.get(found.arms.best, ()))
    return [
        "| | before | now |",
        "|---|---|---|",
        _row("build", [_build(best["engine"]), _build(now["engine"])]),
        _row("tok/s, launch by launch", rates),
        _row("prompt tok/s", [_mean(rows, "prompt_tok_s", ".0f") for rows in sides]),
        _row("drafts accepted", [_mean(rows, "acceptance", ".0%") for rows in sides]),
        _row("watts", [_watts(rows) for rows in sides]),
        _row("joules a token", [_joules(rows) for rows in sides]),
    ]


def _rig(now: Mapping[str, Any]) -> list[str]:
    """Cards, driver and model; of an RPC device its address is left out."""
    model = now["model"]
    cards = [
        f"{row['name']} {'' if _PORT.search(row['description']) else row['description']}".strip()
        + f", {row['total_mib']:,} MiB"
        for row in now["devices"]
    ]
    size_gib = model["size_bytes"] / 2**30
    return [
        f"- devices: {'; '.join(cards)}",
        f"- driver: {now['driver'] or 'none'}",
        f"- model: {model['name']}, {model['architecture']}, {model['weights_type']}, {size_gib:.2f} GiB",
    ]


def _launches(found: Found, key: str | None) -> list[TrialRecord]:
    """What was launched in turns of one configuration, and measured."""
    every = launches_of(found.canary, found.records)
    return [one for one in every if one.key == key and one.score is not None]


def _percent(ratio: float) -> str:
    return f"{abs(1 - ratio):.0%} {'slower' if ratio < 1 else 'faster'}"


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cell or '-' for cell in cells)} |"


def _build(engine: Mapping[str, Any]) -> str:
    return f"{engine['version'].removeprefix('version: ')} [{engine['digest'][:12]}]"


def _mean(rows: Sequence[TrialRecord], name: str, form: str) -> str:
    values = [
        value for row in rows if row.rates is not None and (value := getattr(row.rates, name)) is not None
    ]
    return f"{sum(values) / len(values):{form}}" if values else ""


def _watts(rows: Sequence[TrialRecord]) -> str:
    totals = []
    for row in rows:
        each = [] if row.result is None else [one.watts for one in row.result.telemetry.values()]
        known = [value for value in each if value is not None]
        if known and len(known) == len(each):
            totals.append(sum(known))
    return f"{sum(totals) / len(totals):.0f}" if totals else ""


def _joules(rows: Sequence[TrialRecord]) -> str:
    found = [
        each
        for row in rows
        if row.result is not None
        and (each := joules_a_token(row.result.telemetry, sum(s.predicted_n for s in row.result.samples)))
        is not None
    ]
    return f"{sum(found) / len(found):.2f}" if found else ""


def _command(argv: Sequence[str]) -> str:
    """A command without the folders that it names, and without RPC servers' addresses."""
    words = []
    hidden = False
    for word in argv:
        words.append("HOST:PORT,..." if hidden else Path(word).name if "/" in word else word)
        hidden = word == "--rpc"
    return shlex.join(words)
