"""What has become of the devices: cards that are gone, new, moved, renamed, or held to another power."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.core.freshness.change import Change, Freshness
from tuner.core.rig import device_identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FRESH, _DOUBTFUL, _STALE = Freshness


def device_changes(
    then: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]], used: Sequence[str] | None
) -> list[Change]:
    """Cards, their memory, power limits and links.

    Args:
        then: The devices as best.json has them.
        now: Those that there are, in the same form.
        used: Names, as they were then, of the devices that the winner uses; None for all.
    """
    there = {_identity(row): row for row in now}
    pairs = [(row, there.get(_identity(row))) for row in then]
    rows = [
        *(_gone(row, used) for row, current in pairs if current is None),
        *(
            Change("devices", _DOUBTFUL, f"{_label(row)} is new", "whether this is still the best")
            for row in now
            if _identity(row) not in {_identity(one) for one in then}
        ),
    ]
    for row, current in pairs:
        if current is not None:
            rows += _of_one(row, current, used)
    parts = {row.part for row in rows}
    return [
        *rows,
        *(
            Change(part, _FRESH, text)
            for part, text in (
                ("devices", ", ".join(_label(row) for row in now)),
                ("power", _joined(now, "power_limit_w", "{:.0f} W")),
                ("link", _links(now)),
            )
            if part not in parts and text
        ),
    ]


def renamed(then: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What the engine calls each device now, by what it called it then; those that are gone are missing."""
    names = {_identity(row): row["name"] for row in now}
    return {row["name"]: names[_identity(row)] for row in then if _identity(row) in names}


def _gone(row: Mapping[str, Any], used: Sequence[str] | None) -> Change:
    if used is None or row["name"] in used:
        return Change("devices", _STALE, f"{_label(row)} is gone", "everything: the winner runs on it")
    return Change(
        "devices", _DOUBTFUL, f"{_label(row)} is gone; the winner does not use it", "the comparison"
    )


def _of_one(then: Mapping[str, Any], now: Mapping[str, Any], used: Sequence[str] | None) -> list[Change]:
    """One that is still there."""
    name, rows = now["name"], []
    if then["name"] != name and (used is None or then["name"] in used):
        what = f"{then['description']} was {then['name']} and is {name}"
        rows.append(Change("devices", _STALE, what, "the command: it names other cards now"))
    if then["total_mib"] != now["total_mib"]:
        what = f"{name}: {then['total_mib']:,} -> {now['total_mib']:,} MiB"
        rows.append(Change("devices", _DOUBTFUL, what, "what fits"))
    was_w, is_w = then.get("power_limit_w"), now.get("power_limit_w")
    if was_w is not None and is_w is not None and was_w != is_w:
        doubt = "speeds; it moves the best draft depth and the best split"
        rows.append(Change("power", _DOUBTFUL, f"{name}: {was_w:.0f} -> {is_w:.0f} W", doubt))
    if (moved := _moved(then, now)) is not None:
        rows.append(
            Change("link", _DOUBTFUL, f"{name}: {moved}", "what passes between cards: tensor mode above all")
        )
    return rows


def _moved(then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """How a card is built in otherwise; None where it is as it was, as far as a driver said."""
    parts = []
    if then.get("bus_id") and now.get("bus_id") and then["bus_id"] != now["bus_id"]:
        parts.append(f"moved from {then['bus_id']} to {now['bus_id']}")
    was, is_now = _link(then), _link(now)
    if was and is_now and was != is_now:
        parts.append(f"{was} -> {is_now}")
    return ", ".join(parts) or None


def _link(row: Mapping[str, Any]) -> str:
    generation, width = row.get("pcie_generation"), row.get("pcie_width")
    return "" if generation is None or width is None else f"PCIe {generation}.0 x{width}"


def _links(rows: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{row['name']} {_link(row)}" for row in rows if _link(row))


def _joined(rows: Sequence[Mapping[str, Any]], key: str, form: str) -> str:
    return ", ".join(f"{row['name']} {form.format(row[key])}" for row in rows if row.get(key) is not None)


def _label(row: Mapping[str, Any]) -> str:
    return f"{row['name']} ({row['description']})"


def _identity(row: Mapping[str, Any]) -> str:
    return device_identity(row["uuid"], row["name"], row["description"])
