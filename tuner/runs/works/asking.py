"""What a launch is asked, request by request: each prompt once, or a session that goes on from the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.session import Conversations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuner.core.measurement import Sample
    from tuner.core.session import Script
    from tuner.core.work import RunningServer
    from tuner.core.workload import Prompt, Workload


def answers(server: RunningServer, workload: Workload) -> Iterator[tuple[Prompt, Sample]]:
    """Each request with its answer; what comes next is asked once somebody wants to know.

    Args:
        server: Who is asked.
        workload: What to ask, and how many at the same time.
    """
    if workload.session is not None:
        yield from _turns(server, workload.session, workload.max_tokens)
        return
    prompts = workload.prompt_set.prompts
    if workload.streams > 1:
        samples = server.ask_together(prompts, workload.max_tokens, at_once=workload.streams)
        yield from zip(prompts, samples, strict=True)
        return
    for prompt in prompts:
        yield prompt, server.ask(prompt, workload.max_tokens)


def _turns(server: RunningServer, script: Script, max_tokens: int) -> Iterator[tuple[Prompt, Sample]]:
    """Conversations that go on from the server's own answers."""
    said = Conversations()
    for steps in script.rounds:
        prompts = [said.prompt(step) for step in steps]
        samples = server.ask_together(prompts, max_tokens)
        for step, prompt, sample in zip(steps, prompts, samples, strict=True):
            said.answered(step, sample.text)
            yield prompt, sample
