"""Two results side by side: what differs, and by how much one is faster, where that means something."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

from tuner.core.candidate import Candidate
from tuner.core.launch import reference_name
from tuner.report.view.method import sampling_words, workload_words
from tuner.report.words import ratio_words, times
from tuner.search.confirmation.interval import unpaired
from tuner.search.confirmation.looks import LEVEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.search.confirmation.interval import Interval

_PORT = re.compile(r":\d+$")


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing in which two results differ."""

    what: str
    one: str
    other: str
    forbids: bool = False
    """Whether their speeds mean different things by it."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two results."""

    names: tuple[str, str]
    differences: tuple[Difference, ...]
    scores_tok_s: tuple[float | None, float | None]
    interval: Interval | None
    """By how much the second is faster; None where there are too few launches for one."""
    launches: tuple[int, int]
    reference_ratio: float | None
    """The second's engine default over the first's, on one engine: what the two runs' circumstances alone did."""

    @property
    def forbidden(self) -> tuple[str, ...]:
        """What keeps them from being compared, in words; empty where they can be."""
        return tuple(
            f"another {one.what} ({one.one}; {one.other})" for one in self.differences if one.forbids
        )

    def sentences(self) -> list[str]:
        """What can be said of the two; nothing where they cannot be compared, or one has no speed."""
        first, second = self.scores_tok_s
        if self.forbidden or not first or not second:
            return []
        one, other = self.names
        made = f"{second:.1f} against {first:.1f} tok/s"
        if self.interval is None:
            text = f"{other} is {second / first:.2f}x as fast as {one}: {made}; too few launches for an interval."
        else:
            unsure = "" if self.interval.significant else ", no significant difference"
            text = (
                f"{other} is {ratio_words(self.interval)} as fast as {one}{unsure}: {made} "
                f"({self.launches[1]} and {self.launches[0]} launches)."
            )
        lines = [
            text,
            "Their launches were not made side by side: what changed between the two runs is in it.",
        ]
        if self.reference_ratio is not None:
            default = reference_name("engine-default")
            lines.append(f"Of {default}, the second run made {times(self.reference_ratio)}x of the first.")
        return lines


def compared(one: Mapping[str, Any], other: Mapping[str, Any], names: tuple[str, str]) -> Comparison:
    """Compare two results.

    Args:
        one: A best.json.
        other: Another.
        names: What to call them.
    """
    scores, others = _scores(one), _scores(other)
    interval = unpaired([log(score) for score in others], [log(score) for score in scores], 1 - LEVEL)
    return Comparison(
        names=names,
        differences=tuple(_differences(one, other)),
        scores_tok_s=(_score(one["winner"]), _score(other["winner"])),
        interval=interval,
        launches=(len(scores), len(others)),
        reference_ratio=_reference_ratio(one, other),
    )


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Difference]:
    rows = [
        Difference("rig", _rig_words(one), _rig_words(other), forbids=True)
        if _rig(one) != _rig(other)
        else None,
        _differs("model", one, other, ("model", "fingerprint"), _model_words, forbids=True),
        _differs("engine", one, other, ("engine", "digest"), _engine_words),
        _differs("driver", one, other, ("driver",), lambda document: str(document.get("driver"))),
        *_workload(one["workload"], other["workload"]),
        _differs("search space", one, other, ("study", "space"), lambda document: document["study"]["space"]),
    ]
    return [*filter(None, rows), *_winners(one["winner"], other["winner"])]


def _differs(
    what: str,
    one: Mapping[str, Any],
    other: Mapping[str, Any],
    path: Sequence[str],
    words: Any,  # noqa: ANN401 - a document's words
    *,
    forbids: bool = False,
) -> Difference | None:
    values: list[Any] = []
    for document in (one, other):
        value: Any = document
        for name in path:
            value = None if value is None else value.get(name)
        values.append(value)
    return None if values[0] == values[1] else Difference(what, words(one), words(other), forbids)


def _workload(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Difference]:
    rows = []
    for what, words in (
        ("context", lambda workload: f"{workload['ctx_size']:,} tokens"),
        ("workload", workload_words),
        ("samplers", sampling_words),
    ):
        if words(one) != words(other):
            rows.append(Difference(what, words(one), words(other), forbids=True))
    if not rows and one["digest"] != other["digest"]:
        rows.append(Difference("workload", "other prompts", f"prompts of {other['prompts']}", forbids=True))
    return rows


def _winners(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Difference]:
    """The options in which the two winners differ."""
    rows = []
    if one["reference"] != other["reference"]:
        rows.append(Difference("winner", _winner_words(one), _winner_words(other)))
    own, theirs = one["parameters"], other["parameters"]
    names = dict.fromkeys([*own, *theirs]) if own and theirs else ()
    return rows + [
        Difference(name, _value(own.get(name)), _value(theirs.get(name)))
        for name in names
        if own.get(name) != theirs.get(name)
    ]


def _winner_words(winner: Mapping[str, Any]) -> str:
    if winner["reference"] is not None:
        return reference_name(winner["reference"])
    return Candidate.from_json(winner["parameters"]).summary()


def _value(value: object) -> str:
    if value is None:
        return "not set"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _rig(document: Mapping[str, Any]) -> list[tuple[str, int | None]]:
    """What makes devices the same; ports of RPC servers do not."""
    return [
        (
            device["uuid"] or f"{device['name']}:{_PORT.sub('', device['description'])}",
            device["total_mib"] if device["memory_stated"] else None,
        )
        for device in document["devices"]
    ]


def _rig_words(document: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{device['name']} {device['description']}"
        + (
            f" with {device['total_mib']:,} MiB"
            if device["memory_stated"]
            else f" {device['uuid'] or ''}".rstrip()
        )
        for device in document["devices"]
    )


def _model_words(document: Mapping[str, Any]) -> str:
    model = document["model"]
    return f"{model['name']}, {model['size_bytes'] / 2**30:.2f} GiB [{model['fingerprint'][:12]}]"


def _engine_words(document: Mapping[str, Any]) -> str:
    return f"{document['engine']['version']} [{document['engine']['digest'][:12]}]"


def _scores(document: Mapping[str, Any]) -> list[float]:
    """What each launch that stands behind the winner made."""
    winner, confirmation = document["winner"], document.get("confirmation") or {}
    found = [
        leader.get("scores_tok_s", [])
        for leader in confirmation.get("leaders", ())
        if winner["reference"] is None and leader["parameters"] == winner["parameters"]
    ]
    if found and found[0]:
        return list(found[0])
    score = _score(winner)
    return [] if score is None else [score]


def _score(row: Mapping[str, Any]) -> float | None:
    """What the study makes the most of; files of before say it by their rates alone."""
    score: float | None = row.get("score_tok_s")
    if score is None and row["rates"] is not None:
        score = row["rates"]["generation_tok_s"]
    return score


def _reference_ratio(one: Mapping[str, Any], other: Mapping[str, Any]) -> float | None:
    if one["engine"]["digest"] != other["engine"]["digest"]:
        return None
    found = [
        next((_score(row) for row in document["references"] if row["name"] == "engine-default"), None)
        for document in (one, other)
    ]
    return found[1] / found[0] if found[0] and found[1] else None
