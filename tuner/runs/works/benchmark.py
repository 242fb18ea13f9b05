"""Measuring a server: each prompt of the workload once, then what it would say at fixed places."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.asked import draft_difference, sample_difference
from tuner.core.measurement import rates
from tuner.core.outcome import Kind, Outcome, Phase

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.core.asked import Asked
    from tuner.core.measurement import Sample
    from tuner.core.work import RunningServer
    from tuner.core.workload import Workload


class Benchmark:
    """Asks each prompt once, in order.

    Args:
        workload: What to ask.
        asked: What the launch was asked for.
        on_sample: Is told each answer; a sentence on why the rest is no use ends the launch as pruned.
        look: Looks at what the server would say next, once it has been measured; is told how fast it reads
            prompts. None not to look.

    Attributes:
        samples: The answers so far.
    """

    def __init__(
        self,
        workload: Workload,
        asked: Asked,
        on_sample: Callable[[Sample], str | None],
        look: Callable[[RunningServer, float | None], None] | None = None,
    ) -> None:
        self._workload = workload
        self._asked = asked
        self._on_sample = on_sample
        self._look = look
        self.samples: list[Sample] = []

    def do(self, server: RunningServer) -> Outcome | None:
        """Measure and look."""
        workload = self._workload
        for prompt in workload.prompt_set.prompts:
            sample = server.ask(prompt, workload.max_tokens)
            outcome = sample_difference(sample, workload.max_tokens)
            if outcome is not None:
                return outcome
            self.samples.append(sample)
            if (hopeless := self._on_sample(sample)) is not None:
                return Outcome(Kind.PRUNED, phase=Phase.BENCHMARK, evidence=hopeless)
        outcome = draft_difference(self._asked, self.samples)
        if outcome is None and self._look is not None:
            self._look(server, rates(self.samples).prompt_tok_s)
        return outcome
