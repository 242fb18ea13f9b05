"""Going through a session with a server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.support.played_server import PlayedServer, workload
from tuner.core.asked import Asked
from tuner.core.outcome import Kind
from tuner.core.session import Script, Step
from tuner.runs.works.benchmark import Benchmark

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.core.measurement import Sample
    from tuner.core.workload import Prompt

NOTHING = Asked(None, None, None)


def step(client: str, name: str) -> Step:
    return Step(client, name, "turn", ({"role": "user", "content": f"{client} says {name}"},))


SCRIPT = Script(((step("a", "one"), step("b", "one")), (step("a", "two"),), (step("b", "two"),)), "d", 100, 2)


WORKLOAD = replace(workload("unasked", tokens=9), session=SCRIPT)


def session(on_sample: Callable[[Sample], str | None] = lambda _sample: None) -> Benchmark:
    return Benchmark(WORKLOAD, NOTHING, on_sample)


def test_rounds_follow_each_other_and_a_rounds_requests_go_together() -> None:
    work, server = session(), PlayedServer(slots=2)
    assert work.do(server) is None
    assert [sample.prompt_id for sample in work.samples] == ["a/one", "b/one", "a/two", "b/two"]
    assert server.together == [2, 1, 1]


def test_what_the_server_answered_is_what_it_is_told_next() -> None:
    server = PlayedServer(slots=2, says=lambda prompt: f"heard {prompt.id}")
    session().do(server)
    last = next(prompt for prompt in server.asked if prompt.id == "a/two")
    assert [message["content"] for message in last.messages] == ["a says one", "heard a/one", "a says two"]


def test_a_turn_without_hope_ends_the_session_as_pruned() -> None:
    work = session(lambda sample: "too slow" if sample.prompt_id == "b/one" else None)
    outcome = work.do(PlayedServer(slots=2))
    assert outcome is not None
    assert (outcome.kind, outcome.evidence) == (Kind.PRUNED, "too slow")
    assert [sample.prompt_id for sample in work.samples] == ["a/one", "b/one"]


def test_an_answer_that_is_too_short_is_no_measurement() -> None:
    class Short(PlayedServer):
        def _answer(self, prompt: Prompt, max_tokens: int) -> Sample:
            return replace(super()._answer(prompt, max_tokens), predicted_n=3)

    outcome = session().do(Short(slots=2))
    assert outcome is not None
    assert outcome.kind is Kind.NOT_AS_ASKED
