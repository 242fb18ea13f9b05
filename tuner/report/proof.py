"""What stands behind a winner, in sentences: ratios with their intervals, what it survived, how its answers are."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from tuner.core.launch import reference_name
from tuner.core.outcome import Kind
from tuner.core.trial import Purpose, TrialRecord, disqualified
from tuner.report.words import ratio_words
from tuner.search.confirmation.looks import LEVEL
from tuner.search.confirmation.result import Result, result_of
from tuner.search.confirmation.state import Confirmation, scores_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.soak import Soaked
    from tuner.search.confirmation.result import Versus

METHOD = (
    "repeated confidence intervals: Student's t on log ratios of launches paired by block (ABBA), at planned looks, "
    "5 % spent over the looks in proportion to the blocks and divided by the comparisons with the best"
)
#: How an endurance may end without anything having failed.
_NO_FAILURES = frozenset({Kind.NONE, Kind.STOPPED, Kind.DISTURBED})
SOURCES = (
    "Jennison & Turnbull 1989, JRSS B 51:305",
    "Lan & DeMets 1983, Biometrika 70:659",
    "Hsu 1984, Annals of Statistics 12:1136",
)


def confirmation_document(
    confirmation: Confirmation | None, records: Sequence[TrialRecord]
) -> dict[str, Any] | None:
    """The confirmation for best.json; None as long as nothing was looked at."""
    result = None if confirmation is None else result_of(confirmation, records)
    if confirmation is None or result is None:
        return None
    return {
        "finished": confirmation.ended,
        "method": METHOD,
        "sources": list(SOURCES),
        "level": LEVEL,
        "launches": result.launches,
        "blocks": result.blocks,
        "most_blocks": confirmation.plan.blocks,
        "time_over": result.time_over,
        "leaders": [
            {
                "parameters": _parameters(arm, records),
                "launches": len(_scores(arm, confirmation, records)),
                "scores_tok_s": _scores(arm, confirmation, records),
                "tied": arm == result.winner or arm in result.tied_with,
                "failed": confirmation.out.get(arm),
            }
            for arm in confirmation.plan.leaders
        ],
        "tie_broken_by": result.tie_broken_by,
        "runner_up": None if result.runner_up is None else _versus(result.runner_up, confirmation, records),
        "references": [_versus(versus, confirmation, records) for versus in result.references],
        "drift": None
        if result.drift is None
        else {
            "ratio": result.drift.ratio,
            "interval": [result.drift.low, result.drift.high],
            "launches": result.drift.launches,
        },
        "outliers": list(result.outliers),
        "repeated": list(result.repeated),
        "disturbed": list(result.disturbed),
        "sentences": confirmation_sentences(confirmation, records),
    }


def confirmation_sentences(confirmation: Confirmation, records: Sequence[TrialRecord]) -> list[str]:
    """What the confirmation says, for people."""
    result = result_of(confirmation, records)
    failed = [
        f"Not confirmed: {configuration(arm, records)}: {why}." for arm, why in confirmation.out.items()
    ]
    if result is None:
        over = confirmation.over_at  # 0 where none took place
        cut = ["Time ended the confirmation before anything was known."] if over else []
        return [*failed, *cut, *_unfinished(confirmation)]
    lines = [f"Against {configuration(one.arm, records)}: {_compared(one)}." for one in result.references]
    if result.runner_up is not None:
        name = configuration(result.runner_up.arm, records)
        lines.append(f"Against the runner-up ({name}): {_compared(result.runner_up)}{_tie(result)}.")
    lines += failed
    if result.drift is not None and result.drift.significant:
        lines.append(
            f"The rig drifted: from the first launch to the last by {result.drift.ratio - 1:+.1%} "
            f"(95 %: {result.drift.low - 1:+.1%} to {result.drift.high - 1:+.1%})."
        )
    if result.outliers:
        lines.append(f"Launches that stand out: trial {', '.join(map(str, result.outliers))}.")
    if result.repeated:
        lines.append(f"Launches that were made again: trial {', '.join(map(str, result.repeated))}.")
    if result.disturbed:
        lines.append(
            "Launches that count although a card throttled or was used by others, each time: "
            f"trial {', '.join(map(str, result.disturbed))}."
        )
    if result.time_over:
        lines.append("Time ended the confirmation before all was known; more --budget tells more.")
    return [*lines, *_unfinished(confirmation)]


def soak_document(winner: str, records: Sequence[TrialRecord]) -> dict[str, Any] | None:
    """What the winner went through, for best.json; None where it was not put to the test."""
    rows = [r for r in records if r.errand.purpose is Purpose.SOAK]
    own = [r for r in rows if r.key == winner]
    if not own:
        return None
    last = own[-1]
    soaked = last.result.soak if last.result is not None else None
    return {
        "trial": last.number,
        "outcome": None if last.outcome is None else last.outcome.kind.value,
        **({} if soaked is None else soaked.to_json()),
        "free_mib": dict(soaked.free_mib) if soaked is not None and soaked.free_mib else None,
        "peak_mib": _peak_mib(last),
        "buffers_mib": {} if last.result is None else dict(last.result.buffers_mib),
        "sentence": "" if soaked is None else soaked_sentence(soaked),
    }


def endurance_document(winner: str, records: Sequence[TrialRecord]) -> dict[str, Any] | None:
    """How long the winner worked on, for best.json; None where it did not."""
    rows = [r for r in records if r.errand.purpose is Purpose.ENDURE and r.key == winner]
    soaked = [r.result.soak for r in rows if r.result is not None and r.result.soak is not None]
    if not soaked:
        return None
    requests, seconds = sum(one.requests for one in soaked), sum(one.seconds for one in soaked)
    ends = [r.outcome.kind for r in rows if r.outcome is not None and r.result is not None and r.result.soak]
    failures = sum(kind not in _NO_FAILURES for kind in ends)
    return {
        "trials": [r.number for r in rows],
        "requests": requests,
        "seconds": seconds,
        "failures": failures,  # of the rig: one of its own disqualifies it
        "longest_gap_s": max(one.longest_gap_s for one in soaked),
        "small_before_tok_s": soaked[0].small_before_tok_s,
        "small_after_tok_s": soaked[-1].small_after_tok_s,
        "host_growth_mib": soaked[-1].host_growth_mib,
        "sentence": f"{requests} requests, {_hours(seconds)}, {failures} failures",
    }


def disqualified_document(records: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """Leaders that did not survive, for best.json."""
    return [
        {"parameters": _parameters(key, records), "why": why} for key, why in disqualified(records).items()
    ]


def quality_document(records: Sequence[TrialRecord]) -> list[dict[str, Any]]:
    """What each pair of KV types and split mode costs the answers, for best.json; medians over launches."""
    groups: dict[tuple[str, str, str], list[TrialRecord]] = {}
    for record in records:
        quality = None if record.result is None else record.result.quality
        if record.candidate is None or quality is None or quality.loss is None:
            continue
        key = tuple(str(record.candidate.get(n)) for n in ("split-mode", "cache-type-k", "cache-type-v"))
        groups.setdefault((key[0], key[1], key[2]), []).append(record)
    rows = []
    for (mode, type_k, type_v), group in sorted(groups.items()):
        found = [r.result.quality for r in group if r.result is not None and r.result.quality is not None]
        losses = [one.loss for one in found if one.loss is not None]
        deep = [one.deep_kl_nats for one in losses if one.deep_kl_nats is not None]
        rows.append(
            {
                "split_mode": mode,
                "cache_type_k": type_k,
                "cache_type_v": type_v,
                "launches": len(losses),
                "positions": round(median(one.positions for one in losses)),
                "deepest_tokens": max(one.deepest_tokens for one in losses),
                "kl_nats": median(one.kl_nats for one in losses),
                "deep_kl_nats": median(deep) if deep else None,
                "top1": median(one.top1 for one in losses),
                "degraded": sum(one.objection is not None for one in found),
            }
        )
    return rows


def winner_quality(key: str, records: Sequence[TrialRecord]) -> dict[str, Any] | None:
    """How the winner's answers compare with the plain reference's; None where they were not compared."""
    found = [
        r.result.quality
        for r in records
        if r.key == key and r.result is not None and r.result.quality is not None
    ]
    return found[-1].to_json() if found else None


def label(record: TrialRecord) -> str:
    """What people call what was launched."""
    return reference_name(record.reference) if record.candidate is None else record.candidate.summary()


def configuration(arm: str, records: Sequence[TrialRecord]) -> str:
    """What people call what has that key."""
    return next((label(record) for record in records if record.key == arm), arm)


def soaked_sentence(soaked: Soaked) -> str:
    """What it went through, in one line."""
    parts = [
        f"{soaked.requests} requests in {_hours(soaked.seconds)}",
        f"prompts of up to {soaked.longest_prompt_tokens:,} tokens"
        + ("" if soaked.slot_context is None else f" of {soaked.slot_context:,}"),
        f"answers of up to {soaked.longest_answer_tokens:,}",
    ]
    if soaked.at_once > 1:
        parts.append(f"{soaked.at_once} at once")
    if soaked.longest_gap_s:
        parts.append(f"left alone for {soaked.longest_gap_s:.0f} s")
    if soaked.small_before_tok_s and soaked.small_after_tok_s:
        parts.append(
            f"small requests {soaked.small_before_tok_s:.1f} tok/s at the start, "
            f"{soaked.small_after_tok_s:.1f} at the end"
        )
    if soaked.free_mib:
        parts.append("least free: " + ", ".join(f"{d} {mib:,} MiB" for d, mib in soaked.free_mib.items()))
    else:
        parts.append("nothing here reports the devices' memory")
    return ", ".join(parts)


def _versus(versus: Versus, confirmation: Confirmation, records: Sequence[TrialRecord]) -> dict[str, Any]:
    interval = versus.interval
    reference = next((r.reference for r in records if r.key == versus.arm), None)
    return {
        "name": reference,
        "parameters": _parameters(versus.arm, records),
        "ratio": None if interval is None else interval.ratio,
        "interval": None if interval is None else [interval.low, interval.high],
        "significant": interval is not None and interval.significant,
        "launches_a_side": 0 if interval is None else interval.blocks,
        "scores_tok_s": _scores(versus.arm, confirmation, records),
        "sentence": f"against {configuration(versus.arm, records)}: {_compared(versus)}",
    }


def _compared(versus: Versus) -> str:
    interval = versus.interval
    if interval is None:
        return "too few launches for an interval"
    text = ratio_words(interval)
    said = text if interval.significant else f"{text}, no significant difference"
    return f"{said} ({interval.blocks} launches a side)"


def _unfinished(confirmation: Confirmation) -> list[str]:
    return (
        [] if confirmation.ended else ["The confirmation is not finished; the same command goes on with it."]
    )


def _tie(result: Result) -> str:
    if result.runner_up is None or result.runner_up.arm not in result.tied_with:
        return ""
    return {
        "memory": "; the winner leaves more memory free",
        "plainness": "; the winner is the plainer command",
        "speed": "; the winner made more in these launches",
        None: "",
    }[result.tie_broken_by]


def _scores(arm: str, confirmation: Confirmation, records: Sequence[TrialRecord]) -> list[float]:
    """What each launch of it made, in order."""
    return [score.rate for score in scores_of(confirmation, records) if score.arm == arm]


def _parameters(arm: str, records: Sequence[TrialRecord]) -> dict[str, Any]:
    found = next((r.candidate for r in records if r.key == arm and r.candidate is not None), None)
    return {} if found is None else found.to_json()


def _peak_mib(record: TrialRecord) -> dict[str, float] | None:
    """The most that was used on each card while it was soaked; None where no driver says."""
    if record.result is None:
        return None
    found = {
        device: summary.used_max_mib
        for device, summary in record.result.telemetry.items()
        if summary.used_max_mib is not None
    }
    return dict(found) or None


def _hours(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
