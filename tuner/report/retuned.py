"""What a retune found, as a document and in sentences; and a regression to paste into an issue."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.telemetry import joules_a_token
from tuner.report.proof import configuration
from tuner.search.canary.verdict import Verdict, rates_of
from tuner.search.confirmation.state import launches_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.trial import TrialRecord
    from tuner.search.canary.arms import Arms
    from tuner.search.canary.verdict import Change, Judged
    from tuner.search.confirmation.state import Confirmation

_SAID = {
    Verdict.UNCHANGED: "Unchanged",
    Verdict.FASTER: "Faster",
    Verdict.SLOWER: "Slower",
    Verdict.BROKEN: "Broken",
    Verdict.OUTPUT_CHANGED: "Output changed",
    Verdict.UNKNOWN: "Not known",
}


def verdict_sentences(
    judged: Judged, arms: Arms, suspected: frozenset[str], records: Sequence[TrialRecord]
) -> list[str]:
    """What became of the old best, for people, the verdict first."""
    own = judged.changes.get(arms.best)
    parts = [f"{_SAID[judged.verdict]}: {configuration(arms.best, records)}"]
    if judged.why:
        parts.append(judged.why)
    if own is not None:
        parts.append(f"now over then: {_changed(own)}")
    elif judged.verdict is Verdict.UNKNOWN:
        parts.append("it was not launched often enough to say")
    lines = ["; ".join(parts) + "."]
    if suspected:
        several = len(suspected) > 1
        lines.append(
            f"What {'is behind it is among' if several else 'is behind it'}: {', '.join(sorted(suspected))}"
            + (" (these launches do not tell them apart)." if several else ".")
        )
    for key, change in judged.changes.items():
        if key != arms.best and key in {*arms.references, *arms.beside}:
            lines.append(f"{configuration(key, records).capitalize()}: now over then: {_changed(change)}.")
    if own is not None and not own.in_turns:
        lines.append(
            "What it was is not there to be launched beside it, so its records stand for it, and a change of the "
            "machine counts, too."
        )
    return lines


def retuned_document(
    judged: Judged,
    arms: Arms,
    canary: Confirmation,
    records: Sequence[TrialRecord],
    then: Mapping[str, Sequence[float]],
    suspected: frozenset[str],
) -> dict[str, Any]:
    """The verdict and what stands behind it, as plain JSON."""
    rates = rates_of(canary, records, then)
    rows = []
    for key in dict.fromkeys((*canary.plan.arms, *judged.changes)):
        change = judged.changes.get(key)
        rows.append(
            {
                "configuration": configuration(key, records),
                "role": _role(key, arms),
                "now_tok_s": list(rates[key].now.values()) if key in rates else [],
                "then_tok_s": list(then.get(key, ())),
                "change": None if change is None else _change_document(change),
                "left_out": canary.out.get(key),
            }
        )
    return {
        "verdict": judged.verdict.value,
        "why": judged.why,
        "suspected": sorted(suspected),
        "launches": len(records),
        "sentences": verdict_sentences(judged, arms, suspected, records),
        "configurations": rows,
    }


def regression_report(
    best: Mapping[str, Any],
    now: Mapping[str, Any],
    judged: Judged,
    arms: Arms,
    canary: Confirmation,
    records: Sequence[TrialRecord],
    suspected: frozenset[str],
) -> str:
    """A regression in Markdown, for the issue tracker of the engine: no path, host or user name in it.

    Args:
        best: The best.json of before.
        now: The facts of the study of now.
        judged: The verdict.
        arms: Who was launched.
        canary: The canary.
        records: Its trials.
        suspected: Options that are behind it, as far as launches tell.
    """
    own = judged.changes[arms.best]
    interval = own.interval
    title = f"llama-server: {_percent(own.ratio)} generation"
    if suspected:
        title += f" with {', '.join(sorted(suspected))}"
    launches = launches_of(canary, records)
    sides = [
        ("before", best["engine"], [one for one in launches if one.key == arms.previous], arms.previous),
        ("now", now["engine"], [one for one in launches if one.key == arms.best], arms.best),
    ]
    lines = [f"### {title}", ""]
    lines += [
        f"{own.ratio:.3f} of what it was"
        + ("" if interval is None else f" (95 %: {interval.low:.3f} to {interval.high:.3f})")
        + (
            f", {interval.blocks if interval else 1} launches a side, in turns on the same machine."
            if own.in_turns
            else "; the older build was measured on an earlier day."
        ),
        "",
        "| | before | now |",
        "|---|---|---|",
        _row("build", [_build(engine) for _, engine, _, _ in sides]),
    ]
    then = [
        row.get("scores_tok_s", ())
        for row in (best.get("confirmation") or {}).get("leaders", ())
        if row["parameters"] == best["winner"]["parameters"]
    ]
    cells = [_rates(rows) for _, _, rows, _ in sides]
    if not cells[0]:
        cells[0] = ", ".join(f"{rate:.1f}" for rate in (then[0] if then else [best["winner"]["score_tok_s"]]))
    lines.append(_row("tok/s, launch by launch", cells))
    lines.append(_row("prompt tok/s", [_mean(rows, "prompt_tok_s", ".0f") for _, _, rows, _ in sides]))
    lines.append(_row("drafts accepted", [_mean(rows, "acceptance", ".0%") for _, _, rows, _ in sides]))
    lines.append(_row("watts", [_watts(rows) for _, _, rows, _ in sides]))
    lines.append(_row("joules a token", [_joules(rows) for _, _, rows, _ in sides]))
    others = [
        f"- {configuration(key, records)}: {_changed(change)}"
        for key, change in judged.changes.items()
        if key != arms.best
    ]
    if others:
        lines += ["", "Other configurations, now over before:", "", *others]
    model, devices = now["model"], now["devices"]
    cards = [
        f"{row['name']} {row['description']}, {row['total_mib']:,} MiB" for row in devices if row["uuid"]
    ]
    plain = [f"{row['name']}, {row['total_mib']:,} MiB" for row in devices if not row["uuid"]]
    lines += [
        "",
        f"- devices: {'; '.join([*cards, *plain])}",
        f"- driver: {now['driver'] or 'none'}",
        (
            f"- model: {model['name']}, {model['architecture']}, {model.get('weights_type', '')}, "
            f"{model['size_bytes'] / 2**30:.2f} GiB"
        ),
        "",
        "```",
        _command(next((one.argv for one in reversed(launches) if one.key == arms.best), ())),
        "```",
    ]
    return "\n".join(line for line in lines if line is not None) + "\n"


def _role(key: str, arms: Arms) -> str:
    if key == arms.best:
        return "best"
    if key == arms.previous:
        return "previous"
    return "reference" if key in arms.references else "beside"


def _change_document(change: Change) -> dict[str, Any]:
    interval = change.interval
    return {
        "ratio": change.ratio,
        "interval": None if interval is None else [interval.low, interval.high],
        "in_turns": change.in_turns,
    }


def _changed(change: Change) -> str:
    interval = change.interval
    if interval is None:
        return f"{change.ratio:.3f}x (too few launches for an interval)"
    text = f"{interval.ratio:.3f}x (95 %: {interval.low:.3f} to {interval.high:.3f})"
    return text if interval.significant else f"{text}, no significant difference"


def _percent(ratio: float) -> str:
    return f"{abs(1 - ratio):.0%} {'slower' if ratio < 1 else 'faster'}"


def _row(name: str, cells: Sequence[str]) -> str:
    return f"| {name} | {' | '.join(cell or '-' for cell in cells)} |"


def _build(engine: Mapping[str, Any]) -> str:
    return f"{engine['version'].removeprefix('version: ')} [{engine['digest'][:12]}]"


def _rates(rows: Sequence[TrialRecord]) -> str:
    return ", ".join(f"{row.score:.1f}" for row in rows if row.score is not None)


def _mean(rows: Sequence[TrialRecord], name: str, form: str) -> str:
    values = [
        value for row in rows if row.rates is not None and (value := getattr(row.rates, name)) is not None
    ]
    return f"{sum(values) / len(values):{form}}" if values else ""


def _watts(rows: Sequence[TrialRecord]) -> str:
    totals = []
    for row in rows:
        known = [one.watts for one in (row.result.telemetry if row.result else {}).values()]
        if known and all(value is not None for value in known):
            totals.append(sum(value for value in known if value is not None))
    return f"{sum(totals) / len(totals):.0f}" if totals else ""


def _joules(rows: Sequence[TrialRecord]) -> str:
    found = [
        each
        for row in rows
        if row.result is not None
        and (each := joules_a_token(row.result.telemetry, sum(s.predicted_n for s in row.result.samples)))
        is not None
    ]
    return f"{sum(found) / len(found):.2f}" if found else ""


def _command(argv: Sequence[str]) -> str:
    """A command without the folders that it names, and without RPC servers' addresses."""
    words = []
    hidden = False
    for word in argv:
        words.append("HOST:PORT,..." if hidden else Path(word).name if "/" in word else word)
        hidden = word == "--rpc"
    return shlex.join(words)
