"""Measuring a server: the workload's requests, then what it would say at fixed places."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tuner.core.asked import draft_difference, sample_difference
from tuner.core.measurement import rates
from tuner.core.objective import why_too_late
from tuner.core.outcome import Kind, Outcome, Phase
from tuner.core.paging import paged
from tuner.prompts.deep import first_token_prompt
from tuner.runs.works.asking import answers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.asked import Asked
    from tuner.core.measurement import Sample
    from tuner.core.work import RunningServer
    from tuner.core.workload import Workload

#: Tokens of an answer of which only the first is of interest.
_FIRST_TOKENS = 2


class Benchmark:
    """Asks what the workload says, judges each answer, and looks.

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
        read_mib = [server.disk_read_mib()]
        for prompt, sample in answers(server, workload):
            read_mib.append(server.disk_read_mib())
            outcome = sample_difference(sample, workload.max_tokens, reuses=prompt.reuses)
            if outcome is not None:
                return outcome
            self.samples.append(sample)
            if (hopeless := self._on_sample(sample)) is not None:
                return Outcome(Kind.PRUNED, phase=Phase.BENCHMARK, evidence=hopeless)
        outcome = (
            draft_difference(self._asked, self.samples) or self._paged(read_mib) or self._first_token(server)
        )
        if outcome is None and self._look is not None:
            self._look(server, rates(self.samples).prompt_tok_s)
        return outcome

    def _paged(self, read_mib: Sequence[float | None]) -> Outcome | None:
        """Whether it lived from the disk, by what it had read before and after each request."""
        known = [one for one in read_mib if one is not None]
        if len(known) < len(read_mib):
            return None
        each = [after - before for before, after in pairwise(known)]
        return paged(each, [sample.predicted_n for sample in self.samples])

    def _first_token(self, server: RunningServer) -> Outcome | None:
        """Whether the first token comes in time after a long prompt, where a limit was set."""
        limit = self._workload.goal.first_token
        if limit is None:
            return None
        sample = server.ask(first_token_prompt(limit.tokens), _FIRST_TOKENS)
        outcome = sample_difference(sample, _FIRST_TOKENS)
        if outcome is not None:
            return outcome
        self.samples.append(sample)
        late = why_too_late(limit, self.samples)
        return None if late is None else Outcome(Kind.DEGRADED, phase=Phase.BENCHMARK, evidence=late)
