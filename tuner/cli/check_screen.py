"""What a command would do, on the terminal: what lies where, what is wrong, and a line that works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table

if TYPE_CHECKING:
    from tuner.cli.build.checked import Checked
    from tuner.core.memory.need import DeviceNeed

_HOLDS_WIDTH = 16
_VISIBLE_MIB = 0.5
_WIDE = 100
_PARTS = ("weights", "KV", "state", "compute", "drafts", "other")


def memory_table(checked: Checked, columns: int) -> Table:
    """What lies where, MiB a part of each device.

    Args:
        checked: What was worked out.
        columns: Of the terminal; a narrow one is not told how sure the sums are.
    """
    parts = {row.name: _parts(row.need) for row in checked.rows}
    shown = [name for name in _PARTS if any(one[name] >= _VISIBLE_MIB for one in parts.values())]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("MiB", no_wrap=True)
    table.add_column("holds", overflow="fold", min_width=_HOLDS_WIDTH)
    for name in (*shown, "in all", "free"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in checked.rows:
        table.add_row(
            row.name,
            row.holds,
            *(f"{parts[row.name][name]:,.0f}" for name in shown),
            f"{row.need.total:,.0f}" + (f" ±{2 * row.need.sigma:,.0f}" if columns >= _WIDE else ""),
            f"{row.room.free_mib:,.0f}",
            style="bold red" if row.need.total > row.room.usable_mib else None,
        )
    if checked.host_mib is not None:
        holds = "input embedding" + (f", {checked.host_holds}" if checked.host_holds else "")
        table.add_row("host", holds, *[""] * len(shown), f"{checked.host_mib:,.0f}", "")
    return table


def _parts(need: DeviceNeed) -> dict[str, float]:
    sizes = (
        need.weights,
        need.kv,
        need.recurrent,
        need.compute,
        need.draft + need.projector,
        need.runtime,
    )
    return dict(zip(_PARTS, sizes, strict=True))
