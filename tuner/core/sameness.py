"""Whether engine, rig and model are those that a result was made with, for who is about to use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.core.rig import device_identity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def differences(best: Mapping[str, Any], now: Mapping[str, Any], used: Collection[str]) -> list[str]:
    """What is not as it was, a phrase each; nothing where all is.

    Args:
        best: A best.json.
        now: `engine`, `devices` and `model` as they are, in the form that best.json has for them.
        used: Names of the devices that the command runs on; others may have changed.
    """
    found: list[str] = []
    if best["engine"]["digest"] != now["engine"]["digest"]:
        found.append(f"engine: tuned for {_build(best['engine'])}, this is {_build(now['engine'])}")
    if best["model"]["fingerprint"] != now["model"]["fingerprint"]:
        found.append(f"model: tuned for {_file(best['model'])}, this is {_file(now['model'])}")
    there = {row["name"]: row for row in now["devices"]}
    for row in best["devices"]:
        if row["name"] in used:
            found += _of_device(row, there.get(row["name"]))
    return found


def _of_device(then: Mapping[str, Any], now: Mapping[str, Any] | None) -> list[str]:
    name = then["name"]
    if now is None:
        return [f"devices: {name} ({_label(then)}) is not here"]
    both_known = then["uuid"] is not None and now["uuid"] is not None
    if _identity(then, by_uuid=both_known) != _identity(now, by_uuid=both_known):
        return [f"devices: {name} was {_label(then)}, and is {_label(now)}"]
    if then["memory_stated"] or name.startswith("RPC") or then["total_mib"] == now["total_mib"]:
        return []
    return [f"devices: {name} had {then['total_mib']:,} MiB, and has {now['total_mib']:,}"]


def _identity(row: Mapping[str, Any], *, by_uuid: bool) -> str:
    return device_identity(row["uuid"] if by_uuid else None, row["name"], row["description"])


def _label(row: Mapping[str, Any]) -> str:
    return str(row["description"]) if row["uuid"] is None else f"{row['description']}, {row['uuid']}"


def _build(row: Mapping[str, Any]) -> str:
    return f"{row['version']} [{row['digest'][:12]}]"


def _file(row: Mapping[str, Any]) -> str:
    return f"{row['name']} ({row['size_bytes'] / 2**30:.2f} GiB, {row['fingerprint'][:12]})"
