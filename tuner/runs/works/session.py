"""Measuring a server with a session: conversations that go on from its own answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.asked import draft_difference, sample_difference
from tuner.core.measurement import rates
from tuner.core.outcome import Kind, Outcome, Phase
from tuner.core.session import Conversations

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.core.asked import Asked
    from tuner.core.measurement import Sample
    from tuner.core.session import Script
    from tuner.core.work import RunningServer


class SessionWork:
    """Goes through a session.

    Args:
        script: What is said.
        max_tokens: Tokens of each answer.
        asked: What the launch was asked for.
        on_sample: Is told each answer; a sentence on why the rest is no use ends the launch as pruned.
        look: Looks at what the server would say next, once it has been measured; is told how fast it reads
            prompts. None not to look.

    Attributes:
        samples: The answers so far, each called by its client and turn.
    """

    def __init__(
        self,
        script: Script,
        max_tokens: int,
        asked: Asked,
        on_sample: Callable[[Sample], str | None],
        look: Callable[[RunningServer, float | None], None] | None = None,
    ) -> None:
        self._script = script
        self._max_tokens = max_tokens
        self._asked = asked
        self._on_sample = on_sample
        self._look = look
        self.samples: list[Sample] = []

    def do(self, server: RunningServer) -> Outcome | None:
        """Have the conversations, and look."""
        said = Conversations()
        for steps in self._script.rounds:
            prompts = [said.prompt(step) for step in steps]
            samples = server.ask_together(prompts, self._max_tokens)
            for step, sample in zip(steps, samples, strict=True):
                outcome = sample_difference(sample, self._max_tokens, reuses=True)
                if outcome is not None:
                    return outcome
                said.answered(step, sample.text)
                self.samples.append(sample)
                if (hopeless := self._on_sample(sample)) is not None:
                    return Outcome(Kind.PRUNED, phase=Phase.BENCHMARK, evidence=hopeless)
        outcome = draft_difference(self._asked, self.samples)
        if outcome is None and self._look is not None:
            self._look(server, rates(self.samples).prompt_tok_s)
        return outcome
