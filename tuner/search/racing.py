"""A race of several searches for one budget: all have equal turns until they cannot win any more.

Successive elimination (Even-Dar, Mannor & Mansour 2006, JMLR 7:1079), with what a search can still find in the place
of a confidence interval: one that has made few launches may yet become a good deal faster, one that has made many
hardly. What is out is beaten in speed, context and answers at once, even if it became as fast as that, reached as far
as anything of it can, and answered as well as the best of it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner.core.pareto import Worth, beats
from tuner.core.quality import nats

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

#: Launches of candidates before a search can lose, and after which one that nothing was measured in has lost.
LEAST_LAUNCHES, NOTHING_RUNS_AFTER = 4, 10
#: A search can still become this much faster, as a part: so much over its launches, and no less than the second.
_STILL, _STILL_LEAST = 0.5, 0.03


@dataclass(frozen=True, slots=True)
class Runner:
    """What is known of one search."""

    name: str
    best: Worth
    """Of the best that it has measured."""
    most_context_tokens: int | None
    """The largest context that anything of it is expected to fit with."""
    least_off_nats: float | None
    """How far the best of its answers are off, whatever made them."""
    candidates: int
    """How many it has launched."""
    launches: int
    """All that it has made, references included."""
    over: bool
    """Whether there is nothing left for it to find."""


@dataclass(frozen=True, slots=True)
class Out:
    """A search that cannot win any more."""

    name: str
    by: str | None
    """The one that beats it; None where nothing of it runs."""
    why: str
    launches: int
    """How many candidates it had launched by then."""


def still_faster(launches: int) -> float:
    """By what part a search may still become faster after so many launches."""
    return max(_STILL / max(launches, 1), _STILL_LEAST)


def losers(runners: Sequence[Runner]) -> list[Out]:
    """Those of a race that cannot win any more, with who beats them.

    Args:
        runners: All that are still in it.
    """
    found = []
    for one in runners:
        if one.best.speed_tok_s is None:
            if one.over or one.candidates >= NOTHING_RUNS_AFTER:
                found.append(Out(one.name, None, "nothing of it runs", one.candidates))
            continue
        if one.candidates < LEAST_LAUNCHES and not one.over:
            continue
        hope = _at_best(one)
        better = [other for other in runners if other is not one and beats(other.best, hope)]
        if better:
            by = max(better, key=lambda other: other.best.speed_tok_s or 0.0)
            found.append(Out(one.name, by.name, _sentence(one, by), one.candidates))
    return found


def next_turn(runners: Sequence[Runner], out: Collection[str]) -> Runner | None:
    """Whose turn it is: of those that have something left to find, the one with the fewest launches.

    Args:
        runners: All, in the order in which they have their first turns.
        out: Names of those that have lost.
    """
    left = [one for one in runners if not one.over and one.name not in out]
    return min(left, key=lambda one: one.launches, default=None)


def _at_best(runner: Runner) -> Worth:
    """What a search can still come to."""
    best = runner.best
    more = _STILL_LEAST if runner.over else still_faster(runner.candidates)
    contexts = [one for one in (best.context_tokens, runner.most_context_tokens) if one is not None]
    answers = [one for one in (best.off_nats, runner.least_off_nats) if one is not None]
    return replace(
        best,
        speed_tok_s=None if best.speed_tok_s is None else best.speed_tok_s * (1 + more),
        context_tokens=max(contexts, default=None),
        off_nats=min(answers, default=None),
    )


def _sentence(one: Runner, by: Runner) -> str:
    """Why a search has lost, in numbers."""
    mine, theirs = one.best, by.best
    if mine.speed_tok_s is None or theirs.speed_tok_s is None:
        return "nothing of it runs"
    parts = [f"{mine.speed_tok_s:.1f} tok/s against {theirs.speed_tok_s:.1f}"]
    longest, their_longest = one.most_context_tokens or mine.context_tokens, theirs.context_tokens
    if longest is not None and their_longest is not None:
        fewer = f"at most {longest:,} tokens of context against {their_longest:,}"
        parts.append(fewer if longest < their_longest else "no more context")
    if mine.off_nats is not None and theirs.off_nats is not None:
        parts.append(f"answers {nats(mine.off_nats)} off against {nats(theirs.off_nats)}")
    elif mine.file == theirs.file:
        parts.append("the same file")
    return ", ".join(parts)
