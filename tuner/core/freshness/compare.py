"""What has changed since a result was made: best.json against the facts of a study that would be made now.

Both are plain JSON of the same form. What an older best.json does not say is not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.core.freshness.change import Change, Freshness
from tuner.core.freshness.devices import device_changes
from tuner.core.freshness.engines import engine_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_FRESH, _DOUBTFUL, _STALE = Freshness
_RPC = "--rpc"


def compared(
    best: Mapping[str, Any], now: Mapping[str, Any], *, command: Sequence[Change] | None = None
) -> list[Change]:
    """Part by part, those that are as they were among them.

    Args:
        best: A best.json.
        now: The facts of the same study, were it made now.
        command: What is different about the winner's command in the words of now; None where nobody knows the
            words of then.
    """
    used = best["winner"]["parameters"].get("device")
    return [
        *engine_changes(best, now["engine"], knows_words=command is not None),
        *(command or ()),
        _driver(best.get("driver"), now.get("driver")),
        *device_changes(best["devices"], now["devices"], used),
        _model(best["model"], now["model"]),
        *_workload(best["workload"], now["workload"]),
        *_flags(best["study"].get("options"), now["study"].get("options")),
    ]


def _driver(then: str | None, now: str | None) -> Change:
    if then == now:
        return Change("driver", _FRESH, "none" if now is None else now)
    doubt = "speeds, and what a server takes of each card beside its buffers"
    return Change("driver", _DOUBTFUL, f"{then or 'none'} -> {now or 'none'}", doubt)


def _model(then: Mapping[str, Any], now: Mapping[str, Any]) -> Change:
    name, kind = now["name"], now.get("weights_type")
    if then["fingerprint"] == now["fingerprint"]:
        return Change("model", _FRESH, _typed(name, kind))
    was = f"{_typed(then['name'], then.get('weights_type'))} -> {_typed(name, kind)}"
    if then.get("shape") is not None and then["shape"] == now.get("shape"):
        doubt = "speeds, what fits, and how many drafts are accepted"
        return Change("model", _DOUBTFUL, f"{was}: another file of the same shape", doubt)
    return Change("model", _STALE, f"{was}: of another shape", "everything; tune it as a model of its own")


def _typed(name: str, weights_type: str | None) -> str:
    return name if weights_type is None else f"{name} ({weights_type})"


def _workload(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """What is asked, in which way, and for what."""
    rows = []
    for part, said, state, doubt in _ASKED:
        (was, was_text), (is_now, text) = said(then), said(now)
        if was == is_now:
            rows.append(Change(part, _FRESH, text))
        else:
            shown = f"{was_text} -> {text}" if was_text != text else f"{text}: its content has changed"
            rows.append(Change(part, state, shown, doubt))
    if then["digest"] != now["digest"] and all(row.state is _FRESH for row in rows):
        rows.append(Change("workload", _DOUBTFUL, "is asked otherwise", "rates"))
    return rows


def _prompts(workload: Mapping[str, Any]) -> tuple[object, str]:
    prompts, session = workload.get("prompt_set"), workload.get("session")
    key = [
        None if prompts is None else (prompts["digest"], prompts["sampled"]),
        None if session is None else session["digest"],
        workload["requests"],
        workload["max_tokens"],
        workload["seed"],
    ]
    name = "a session" if session is not None else workload["prompts"].rpartition("/")[2]
    return key, f"{workload['requests']} requests of {name}, {workload['max_tokens']} tokens each"


def _samplers(workload: Mapping[str, Any]) -> tuple[object, str]:
    sampling = workload["sampling"]
    said = ", ".join(f"{name} {value}" for name, value in sorted(sampling.items())) or "greedy"
    thinking = "" if workload["thinking"] == "auto" else f", thinking {workload['thinking']}"
    return (dict(sampling), workload["thinking"]), said + thinking


def _objective(workload: Mapping[str, Any]) -> tuple[object, str]:
    goal, streams = workload.get("goal"), workload.get("streams", 1)
    name = "generation" if goal is None else goal["objective"]
    return (goal, streams), name + (f", {streams} at once" if streams > 1 else "")


def _context(workload: Mapping[str, Any]) -> tuple[object, str]:
    return workload["ctx_size"], f"{workload['ctx_size']:,} tokens"


#: What is asked: its name, how it is told, how bad a change of it is, and what that puts in doubt.
_ASKED: tuple[tuple[str, Callable[[Mapping[str, Any]], tuple[object, str]], Freshness, str], ...] = (
    ("prompts", _prompts, _DOUBTFUL, "rates, and how many drafts are accepted"),
    ("samplers", _samplers, _DOUBTFUL, "how many drafts are accepted, and so the best depth"),
    ("objective", _objective, _STALE, "the rates are of something else"),
    ("context", _context, _STALE, "what fits, and so everything"),
)


def _flags(then: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> list[Change]:
    """The user's own flags on every launch; ports of RPC servers are no part of it."""
    if then is None or now is None:
        return []
    was, is_now = (_without_rpc(one["flags"]) for one in (then, now))
    if was == is_now:
        return []
    shown = f"{' '.join(was) or 'none'} -> {' '.join(is_now) or 'none'}"
    return [Change("flags", _DOUBTFUL, shown, "everything that they set")]


def _without_rpc(words: list[str]) -> list[str]:
    if _RPC not in words:
        return list(words)
    at = words.index(_RPC)
    return [*words[:at], *words[at + 2 :]]
