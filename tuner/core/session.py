"""A session: conversations that grow turn by turn, as agents have them, and what of them a server has to keep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tuner.core.workload import Prompt

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tuner.core.measurement import Sample

#: A part of what was reused before that may be read again without a word: where a text is cut differs a little.
_SLACK_PART, _SLACK_TOKENS = 0.1, 256


@dataclass(frozen=True, slots=True)
class Step:
    """One request of a session."""

    client: str
    """Whose conversation it goes on with."""
    name: str
    """Which of that conversation's requests it is."""
    kind: str
    """`start`, `turn`, `edit` or `other`: the class that its answer counts to."""
    messages: tuple[Mapping[str, Any], ...]
    """What is said now."""
    keeps: int | None = None
    """How many of the conversation's messages stay, from the first on; None for all."""


@dataclass(frozen=True, slots=True)
class Script:
    """All requests of a session. Answers are the server's own and become part of the conversation."""

    rounds: tuple[tuple[Step, ...], ...]
    """Requests of one round are sent at the same time, each round after the last answer of the one before."""
    digest: str
    """Hash of the content: two studies with the same digest asked the same."""
    longest_tokens: int
    """About how long the longest conversation becomes, answers left out."""
    most_answers: int
    """How many answers that conversation holds."""

    def needed_tokens(self, max_tokens: int) -> int:
        """Tokens of context that the longest conversation needs, with answers of so many tokens."""
        return self.longest_tokens + self.most_answers * max_tokens

    @property
    def n_requests(self) -> int:
        """Requests in all."""
        return sum(map(len, self.rounds))


@dataclass(slots=True)
class Conversations:
    """What was said so far, by client."""

    said: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)

    def prompt(self, step: Step) -> Prompt:
        """The request of a step: everything that stays, and what is said now."""
        messages = self.said.setdefault(step.client, [])
        if step.keeps is not None:
            del messages[step.keeps :]
        messages += step.messages
        return Prompt(f"{step.client}/{step.name}", step.kind, tuple(messages), reuses=True)

    def answered(self, step: Step, text: str) -> None:
        """The answer becomes part of the conversation."""
        self.said[step.client].append({"role": "assistant", "content": text})


def why_cache_lost(samples: Iterable[Sample], reference: Iterable[Sample]) -> str | None:
    """At which turn a server read again what the reference had kept; None where it never did.

    Args:
        samples: Its answers.
        reference: Those of the reference to the same session.
    """
    kept = {sample.prompt_id: sample.cache_n for sample in reference}
    for sample in samples:
        theirs = kept.get(sample.prompt_id, 0)
        lost = theirs - sample.cache_n
        if lost > max(_SLACK_TOKENS, _SLACK_PART * theirs):
            return (
                f"cache-lost at {sample.prompt_id}: {lost:,} tokens were read again that the reference reused "
                f"({sample.cache_n:,} of {sample.cache_n + sample.prompt_n:,} came from the cache, there {theirs:,})"
            )
    return None
