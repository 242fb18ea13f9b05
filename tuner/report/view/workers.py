"""Which workers took part in a study of several machines, and what each has done."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tuner.report.view.table import Table, table
from tuner.report.words import NOTHING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.study import Part


def worker_lines(parts: Sequence[Part]) -> list[str]:
    """A sentence a worker."""
    names = _names(parts)
    lines = []
    for part in parts:
        said = [
            f"{names[part.worker.id]}: {_count(part.trials, 'trial')}, {part.measured} measured",
            _heard(part),
        ]
        if part.given_up:
            numbers = ", ".join(map(str, part.given_up))
            said.append(f"given up because nothing was heard of it: trial {numbers}")
        if part.late:
            said.append(f"{_count(part.late, 'result')} came late")
        if part.apart is not None:
            said.append(f"set apart: {_why(part)}")
        lines.append("; ".join(said) + ".")
    return lines


def workers_table(parts: Sequence[Part]) -> Table:
    """The same as a table."""
    names = _names(parts)
    rows = [
        (
            names[part.worker.id],
            str(part.trials),
            str(part.measured),
            _heard(part),
            ", ".join(map(str, part.given_up)) or NOTHING,
            str(part.late) if part.late else NOTHING,
            NOTHING if part.apart is None else _why(part),
        )
        for part in parts
    ]
    return table("worker|>trials|>measured|now|trials given up|>late results|set apart", rows)


def _names(parts: Sequence[Part]) -> Mapping[str, str]:
    """What people call each: the host, and its own mark where a host has several."""
    hosts = Counter(part.worker.host for part in parts)
    return {
        part.worker.id: part.worker.host
        if hosts[part.worker.host] == 1
        else f"{part.worker.host} [{part.worker.id[:6]}]"
        for part in parts
    }


def _heard(part: Part) -> str:
    if part.running is None and not part.proves:
        return "never heard of" if part.heard_s is None else f"last heard of {_moment(part.heard_s)}"
    doing = "RUNNING" if part.running is None else f"RUNNING trial {part.running}"
    if part.proves:
        doing += " to prove the winner"
    if part.quiet_s is None:
        return doing
    if not part.works:
        return f"{doing}, but no sign of life for {_span(part.quiet_s)}"
    return f"{doing}, heard of {_span(part.quiet_s)} ago"


def _why(part: Part) -> str:
    return (part.apart or "").removeprefix(f"{part.worker.host}: ")


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 0.0):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.0f} h"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
