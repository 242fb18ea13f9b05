"""Rig, engine, model, workload and method: what the figures of a report depend on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner import __version__
from tuner.core.objective import Goal
from tuner.report.proof import METHOD, SOURCES
from tuner.report.view.table import Table, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.report.view.inputs import ReportInputs

_HOW = (
    (
        "tok/s is the sum of generated tokens after the first over the sum of their time, by the server's own "
        "timings and checked against our clock; prompt is the same for prompts; TTFT is the mean time to the first "
        "token by our clock."
    ),
    (
        "Every launch is a fresh llama-server with nothing in its caches, asked the same prompts in the same order "
        "with fixed seeds; one warm-up request does not count, and the end of text is ignored."
    ),
    (
        "After each load and each answer the server is asked back what it does: one that did something else than "
        "asked is not a measurement of that candidate."
    ),
)


def rig_table(facts: Mapping[str, Any]) -> Table:
    """The devices."""
    memory = facts.get("memory") or {"free_mib": {}, "reserve_mib": {}}
    rows = [
        (
            device["name"],
            device["description"],
            f"{device['total_mib']:,}" + (" (stated)" if device["memory_stated"] else ""),
            _mib(memory["free_mib"].get(device["name"])),
            _mib(memory["reserve_mib"].get(device["name"])),
            device["bus_id"] or "-",
            device["uuid"] or "-",
        )
        for device in facts["devices"]
    ]
    return table("device|what it is|>MiB|>free at the start|>to stay free|bus|UUID", rows)


def facts_table(facts: Mapping[str, Any]) -> Table:
    """Engine, model, workload and study, a row each."""
    engine, model, workload, study = (facts[name] for name in ("engine", "model", "workload", "study"))
    rows = [
        ("engine", f"{engine['version']} [{engine['digest'][:12]}]"),
        ("engine's file", engine["path"]),
        *((("driver", facts["driver"]),) if facts.get("driver") else ()),
        ("model", f"{model['name']}: {model['architecture']}, {model['size_bytes'] / 2**30:.2f} GiB"),
        ("model's file", model["path"]),
        ("context", f"{workload['ctx_size']:,} tokens"),
        ("workload", workload_words(workload)),
        ("samplers", sampling_words(workload)),
        ("search space", f"{study['space']}, seed {study['seed']}"),
        ("study", f"{study['name']}, begun {study['created']}"),
        ("tuner", __version__),
    ]
    return table("what|value", rows)


def workload_words(workload: Mapping[str, Any]) -> str:
    """What each launch is asked."""
    session = workload.get("session")
    if session is not None:
        asked = f"a session of {session['agents']} agents, {workload['requests']} requests"
    else:
        asked = f"{workload['requests']} prompts of {workload['prompts']}"
    parts = [f"{asked}, {workload['max_tokens']} tokens each, seed {workload['seed']}"]
    goal = Goal.from_json(workload.get("goal"))
    parts.append(f"made the most of: {goal.objective.value}")
    if workload.get("streams", 1) > 1:
        parts.append(f"{workload['streams']} at once")
    if goal.weights:
        parts.append("weights " + ", ".join(f"{name}={weight:g}" for name, weight in goal.weights.items()))
    if goal.first_token is not None:
        parts.append(f"first token within {goal.first_token}")
    return "; ".join(parts)


def sampling_words(workload: Mapping[str, Any]) -> str:
    """The samplers and where they come from."""
    values = ", ".join(f"{name} {value:g}" for name, value in workload["sampling"].items())
    return f"{values} (from: {workload['sampling_source']}), thinking: {workload['thinking']}"


def method_sentences(inputs: ReportInputs) -> list[str]:
    """How the figures were made."""
    lines = list(_HOW)
    if inputs.confirmation is not None:
        lines.append(f"Intervals are of 95 %: {METHOD} ({'; '.join(SOURCES)}).")
        lines.append(
            "Intervals of a class of prompts, or of a depth, are as wide as the whole's would be and hold each for "
            "itself."
        )
    return lines


def _mib(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"
