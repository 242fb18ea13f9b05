"""What has become of the engine: another build, options that are gone or new, and what the winner needs of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.core.freshness.change import Change, Freshness

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Gone:
    """An option that an engine no longer has, or a value of one."""

    option: str
    value: str | None = None
    """None where the whole option is gone."""

    def __str__(self) -> str:
        """For people."""
        return (
            f"{self.option} is gone"
            if self.value is None
            else f"{self.option} takes no {self.value} any more"
        )


def engine_changes(
    best: Mapping[str, Any], now: Mapping[str, Any], *, knows_words: bool = False
) -> list[Change]:
    """The engine itself, and what can be said to it.

    Args:
        best: A best.json.
        now: The engine that there is, in the form that best.json has for it.
        knows_words: Whether what becomes of the winner's own words is told elsewhere.
    """
    then = best["engine"]
    label = _label(now)
    if then["digest"] == now["digest"]:
        return [Change("engine", Freshness.FRESH, label)]
    other = _other_files(then.get("files"), now.get("files"))
    changed = Change(
        "engine",
        Freshness.DOUBTFUL,
        f"{_label(then)} -> {label}{other}",
        "speeds, memory, answers, and which combinations of options work",
    )
    rows = [changed]
    if then.get("capabilities") is not None and now.get("capabilities") is not None:
        found = capability_changes(best["winner"]["parameters"], then["capabilities"], now["capabilities"])
        rows += [one for one in found if one.state is not Freshness.STALE or not knows_words]
    return rows


def capability_changes(
    winner: Mapping[str, Any], then: Mapping[str, str], now: Mapping[str, str]
) -> list[Change]:
    """What is gone, and what is new.

    Args:
        winner: The parameters of the winner.
        then: What could be said to the engine: options, and the values that its help listed.
        now: What can be.
    """
    rows = [
        Change("options", Freshness.STALE, str(one), "the command does not start as it is")
        for one in gone_for(winner, then, now)
    ]
    needed = {name for name in winner if name in then and name not in now}
    gone = _named(sorted(then.keys() - now.keys() - needed))
    if gone:
        rows.append(Change("options", Freshness.FRESH, f"gone, but not used: {gone}"))
    new = new_capabilities(then, now)
    if new:
        words = [f"{name} {value}".strip() for name, values in new.items() for value in values or ("",)]
        doubt = "whether this is still the best: more is possible"
        rows.append(Change("options", Freshness.DOUBTFUL, f"new: {_named(words)}", doubt))
    return rows


def gone_for(winner: Mapping[str, Any], then: Mapping[str, str], now: Mapping[str, str]) -> list[Gone]:
    """What of a configuration can no longer be said.

    Args:
        winner: Options and values; environment variables are left out.
        then: What could be said to the engine that it was made with.
        now: What can be said to the engine of now.
    """
    found = []
    for name, value in winner.items():
        if name not in then:
            continue
        if name not in now:
            found.append(Gone(name))
            continue
        listed = set(now[name].split(",")) - {""}
        values = value.split(",") if isinstance(value, str) else []
        found += [Gone(name, one) for one in values if listed and one not in listed]
    return found


def new_capabilities(then: Mapping[str, str], now: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Options, and values of options, that an engine has and another had not; no values for a whole option."""
    found: dict[str, tuple[str, ...]] = {name: () for name in now if name not in then}
    for name, values in now.items():
        listed = [one for one in values.split(",") if one]
        before = then.get(name, "").split(",") if name in then else []
        added = tuple(one for one in listed if one not in before)
        if name in then and any(before) and added:
            found[name] = added
    return found


def _label(engine: Mapping[str, Any]) -> str:
    return f"{engine['version'].removeprefix('version: ')} [{engine['digest'][:12]}]"


def _other_files(then: Mapping[str, str] | None, now: Mapping[str, str] | None) -> str:
    if not then or not now:
        return ""
    other = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
    return f", other in {_named(other)}" if 0 < len(other) < len(now) else ""


def _named(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
