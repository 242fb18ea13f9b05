"""What `make chaos` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.chaos.boundaries import EVERYWHERE
from tests.chaos.kills import FIRST_START, Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.chaos.fault_runs import FaultRun, Launched
    from tests.chaos.kills import Rows

_KILL_COLUMNS = ("kills", "restarts", "lost", "doubled", "orphans", "wrong", "servers ended")


def fault_lines(runs: Sequence[FaultRun]) -> Iterator[str]:
    """Each fault: how often, what it had to be called, what it was called, seconds against the bound."""
    launches = [one for run in runs for one in run.launches]
    yield f"{'fault':38} {'launches':>8}  {'expected':28} {'got':28} {'worst s':>8} {'bound s':>8}"
    for (name, expected, got), some in sorted(_grouped(launches).items()):
        worst_s, bound_s = max(one.took_s for one in some), some[0].fault.bound_s
        bound = "-" if bound_s is None else f"{bound_s:.1f}"
        mark = "" if all(one.is_right and one.is_in_time for one in some) else "  WRONG"
        yield f"{name:38} {len(some):8}  {expected:28} {got:28} {worst_s:8.2f} {bound:>8}{mark}"
    right = sum(one.is_right for one in launches)
    yield f"launches: {len(launches)}, {right} of them recorded under the right name"
    yield (
        f"waiting for servers that would never have ended: {sum(run.wasted_s for run in runs):.1f} s, "
        f"the deadlines allow {sum(run.bound_s for run in runs):.1f} s"
    )


def kill_lines(rows: Rows) -> Iterator[str]:
    """Each boundary: kills, restarts, and what was found afterwards."""
    yield f"{'boundary':18}" + "".join(f"{column:>15}" for column in _KILL_COLUMNS)
    names = [FIRST_START, *(boundary.name for boundary in EVERYWHERE)]
    for name in names:
        if name in rows:
            yield _kill_line(name, rows[name])
    total = Row()
    for row in rows.values():
        total.add(row)
    yield _kill_line("total", total)


def merged(parts: Iterable[Rows]) -> Rows:
    """The rows of several studies in one."""
    result: Rows = {}
    for rows in parts:
        for name, row in rows.items():
            result.setdefault(name, Row()).add(row)
    return result


def _kill_line(name: str, row: Row) -> str:
    found = row.findings
    numbers = (
        row.kills,
        row.restarts,
        len(found.lost),
        len(found.doubled),
        len(found.orphans),
        len(found.wrong),
        row.left_running,
    )
    return f"{name:18}" + "".join(f"{number:15}" for number in numbers)


def _grouped(launches: Iterable[Launched]) -> dict[tuple[str, str, str], list[Launched]]:
    groups: dict[tuple[str, str, str], list[Launched]] = {}
    for one in launches:
        groups.setdefault((one.fault.name, one.expected, one.got), []).append(one)
    return groups
