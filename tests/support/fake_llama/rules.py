"""What the fake is told to do: rules, picked by the command line that it was started with."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.fake_llama.arguments import Arguments
    from tests.support.fake_llama.events import Events

OOM_STAGES = ("weights", "kv", "compute", "compute-soft", "draft", "nccl", "runtime")
HANGS = ("load", "load-talking", "first-token", "mid-stream", "after-idle", "completion")
DEATHS = ("load", "warmup", "request", "completion")
CHAT = "/v1/chat/completions"
_T = TypeVar("_T")


class RuleError(Exception):
    """A rule that says nothing sensible: the test is wrong, not the code under test."""


@dataclass(frozen=True, slots=True)
class Oom:
    """Memory that is not there."""

    stage: str
    device: int = 0
    """Index into the devices of the machine, as CUDA counts them."""
    mib: float = 1024.0


@dataclass(frozen=True, slots=True)
class Death:
    """When it dies: while loading, in the warm-up, at its n-th chat request or n-th raw completion."""

    phase: str
    request: int = 1


@dataclass(frozen=True, slots=True)
class Cold:
    """So many chat requests after the start are so many times as fast as the rest."""

    requests: int
    factor: float

    def __post_init__(self) -> None:
        if self.factor <= 0:
            raise RuleError("the factor of cold is above 0")


@dataclass(frozen=True, slots=True)
class CacheLost:
    """From so many chat requests on nothing is reused."""

    from_request: int

    def __post_init__(self) -> None:
        if self.from_request < 1:
            raise RuleError("chats are counted from 1")


@dataclass(frozen=True, slots=True)
class Burst:
    """How many chats come at once, and how long one waits for another, in real time."""

    requests: int | None = None
    within_s: float | None = None

    def __post_init__(self) -> None:
        if self.requests is not None and self.requests < 1:
            raise RuleError("a burst is one request or more")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The `do` of a rule; the keys of the JSON are the names of the fields."""

    load_s: float = 0.5
    tok_s: float | None = None
    prompt_tok_s: float | None = None
    draft_acceptance: float | None = None
    oom: Oom | None = None
    exit: int | None = None
    signal: int | None = None
    die_in: Death | None = None
    hang: str | None = None
    idle_s: float = 0.0
    ignore_sigterm: bool = False
    garbage: tuple[str, ...] = ()
    half_close: bool = False
    log: tuple[str, ...] = ()
    log_flood_mib: float = 0.0
    no_speculation: bool = False
    n_ctx: int | None = None
    port_taken: bool = False
    text: str | None = None
    router: bool = False
    timings_factor: float = 1.0
    kl: float | None = None
    nonsense: bool = False
    cold: Cold | None = None
    hybrid: bool = False
    cache_lost: CacheLost | None = None
    burst: Burst | None = None
    company_cost: float = 0.05

    def __post_init__(self) -> None:
        if self.idle_s and self.hang != "after-idle":
            raise RuleError("idle_s stands beside hang: after-idle")
        if self.company_cost < 0:
            raise RuleError("company costs 0 or more")
        if self.kl is not None and self.kl < 0:
            raise RuleError("kl is a divergence: 0 or more nats")

    @property
    def dies(self) -> bool:
        """Whether it ends by itself; an OOM has its own way, `die_in` then only says at which request."""
        told = (self.exit, self.signal, self.die_in)
        return self.oom is None and any(how is not None for how in told)


def read_rules(source: str | None) -> dict[str, Any]:
    """Reads FAKE_RULES, a path or the JSON itself: a list, or an object with defaults beside it."""
    if not source:
        return {"rules": [], "defaults": {}}
    text = source if source.lstrip()[0] in "[{" else Path(source).read_text()
    found = json.loads(text)
    if isinstance(found, list):
        return {"rules": found, "defaults": {}}
    return {"rules": found.get("rules", []), "defaults": found.get("defaults", {})}


def behaviour(rules: Mapping[str, Any], arguments: Arguments, events: Events) -> Behaviour:
    """The defaults, overridden by the first rule whose conditions all hold and that is not used up.

    Raises:
        RuleError: A rule names an option or a key that does not exist.
    """
    do = dict(rules["defaults"])
    for index, rule in enumerate(rules["rules"]):
        if _holds(rule.get("when", {}), arguments) and _is_left(index, rule.get("times"), events):
            do |= rule["do"]
            break
    return _behaviour(do)


def _is_left(index: int, times: int | None, events: Events) -> bool:
    """Whether a rule that holds for some launches only still does; if so, this launch is one of them."""
    if times is None:
        return True
    if events.count("rule", index=index) >= times:
        return False
    events.add("rule", index=index)
    return True


def _holds(when: Mapping[str, Any], arguments: Arguments) -> bool:
    for name, wanted in when.items():
        if arguments.table.find_name(name) is None:
            raise RuleError(f"a rule names the option {name!r}, which this build does not have")
        if arguments.get(name) != _as_text(wanted):
            return False
    return True


def _as_text(wanted: object) -> str | None:
    if wanted is None:
        return None
    if isinstance(wanted, bool):
        return "on" if wanted else "off"
    return str(wanted)


def _behaviour(do: dict[str, Any]) -> Behaviour:
    known = {field.name for field in fields(Behaviour)}
    if unknown := do.keys() - known:
        raise RuleError(f"a rule does {sorted(unknown)}; known are {sorted(known)}")
    if oom := do.get("oom"):
        do["oom"] = _made(Oom, "oom", oom)
        _check("oom", do["oom"].stage, OOM_STAGES)
    if cold := do.get("cold"):
        do["cold"] = _made(Cold, "cold", cold)
    if (cache_lost := do.get("cache_lost")) is not None:
        do["cache_lost"] = _made(CacheLost, "cache_lost", cache_lost)
    if (burst := do.get("burst")) is not None:
        do["burst"] = _made(Burst, "burst", burst)
    if die_in := do.get("die_in"):
        phase, _, request = die_in.partition(":")
        do["die_in"] = Death(phase, int(request or 1))
        _check("die_in", phase, DEATHS)
    if hang := do.get("hang"):
        _check("hang", hang, HANGS)
    if "garbage" in do:
        garbage = do["garbage"]
        do["garbage"] = ((CHAT,) if garbage else ()) if isinstance(garbage, bool) else tuple(garbage)
    if "log" in do:
        do["log"] = (do["log"],) if isinstance(do["log"], str) else tuple(do["log"])
    return Behaviour(**do)


def _made(kind: type[_T], key: str, fields_: Mapping[str, Any]) -> _T:
    try:
        return kind(**fields_)
    except TypeError as error:
        raise RuleError(f"{key}: {error}") from error


def _check(key: str, value: str, legal: tuple[str, ...]) -> None:
    if value not in legal:
        raise RuleError(f"{key} is {value!r}; known are {', '.join(legal)}")
