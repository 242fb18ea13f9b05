"""Each prompt once, and a look at the end."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from tests.support.played_server import PlayedServer, ServerDied, workload
from tuner.core.asked import Asked
from tuner.core.measurement import FIRST_ONLY
from tuner.core.objective import FirstTokenLimit, Goal
from tuner.core.outcome import Kind, Phase
from tuner.prompts.deep import deepened
from tuner.runs.works.benchmark import Benchmark

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.core.measurement import Sample
    from tuner.core.work import RunningServer
    from tuner.core.workload import Prompt

WORKLOAD = workload("one", "two", "three")
NOTHING = Asked(None, None, None)


@dataclass
class Looked:
    """What a look was told."""

    prompt_tok_s: float | None = None
    times: int = 0

    def __call__(self, server: RunningServer, prompt_tok_s: float | None) -> None:
        assert server.slots == 1
        self.prompt_tok_s = prompt_tok_s
        self.times += 1


def benchmark(
    look: Looked | None = None,
    *,
    asked: Asked = NOTHING,
    on_sample: Callable[[Sample], str | None] = lambda _sample: None,
) -> Benchmark:
    return Benchmark(WORKLOAD, asked, on_sample, look)


def test_each_prompt_is_asked_once_and_in_order() -> None:
    work, server = benchmark(), PlayedServer()
    assert work.do(server) is None
    assert [prompt.id for prompt in server.asked] == ["one", "two", "three"]
    assert [sample.prompt_id for sample in work.samples] == ["one", "two", "three"]
    assert {sample.predicted_n for sample in work.samples} == {33}


def test_the_look_comes_last_and_is_told_how_fast_prompts_are_read() -> None:
    look, server = Looked(), PlayedServer(prompt_tok_s=400.0)
    assert benchmark(look).do(server) is None
    assert look.times == 1
    assert look.prompt_tok_s == pytest.approx(400.0)


def test_a_launch_without_hope_ends_as_pruned_and_is_not_looked_at() -> None:
    look, server = Looked(), PlayedServer()
    work = benchmark(look, on_sample=lambda sample: "too slow" if sample.prompt_id == "two" else None)
    outcome = work.do(server)
    assert outcome is not None
    assert (outcome.kind, outcome.phase, outcome.evidence) == (Kind.PRUNED, Phase.BENCHMARK, "too slow")
    assert [sample.prompt_id for sample in work.samples] == ["one", "two"]
    assert look.times == 0


def test_an_answer_that_cannot_be_does_not_count() -> None:
    class Short(PlayedServer):
        def ask(self, prompt: Prompt, max_tokens: int) -> Sample:
            return super().ask(prompt, max_tokens - (prompt.id == "two"))

    look = Looked()
    work = benchmark(look)
    outcome = work.do(Short())
    assert outcome is not None
    assert outcome.kind is Kind.NOT_AS_ASKED
    assert [sample.prompt_id for sample in work.samples] == ["one"]
    assert look.times == 0


def test_drafts_that_never_come_end_it_before_the_look() -> None:
    look = Looked()
    outcome = benchmark(look, asked=Asked(None, None, drafts=True, drafted_tokens=True)).do(PlayedServer())
    assert outcome is not None
    assert outcome.kind is Kind.DRAFT_UNAVAILABLE
    assert look.times == 0


def test_what_was_answered_before_a_death_is_kept() -> None:
    work = benchmark()
    with pytest.raises(ServerDied):
        work.do(PlayedServer(dies_at=2))
    assert [sample.prompt_id for sample in work.samples] == ["one", "two"]


# --- goals


def test_streams_are_asked_together_and_every_answer_counts() -> None:
    many = workload("one", "two", "three", "four", "five", "six")
    work, server = Benchmark(replace(many, streams=2), NOTHING, lambda _sample: None), PlayedServer(slots=2)
    assert work.do(server) is None
    assert server.together == [2, 2, 2]
    assert [sample.prompt_id for sample in work.samples] == ["one", "two", "three", "four", "five", "six"]


@pytest.mark.parametrize(("limit_s", "kind"), [(5.0, None), (1.0, Kind.DEGRADED)])
def test_a_first_token_that_comes_too_late_degrades_and_is_kept(limit_s: float, kind: Kind | None) -> None:
    goal = Goal(first_token=FirstTokenLimit(limit_s, 2000))
    limited = replace(WORKLOAD, goal=goal)
    look = Looked()
    work = Benchmark(limited, NOTHING, lambda _sample: None, look)
    outcome = work.do(PlayedServer(prompt_tok_s=1000.0))
    assert [sample.prompt_class for sample in work.samples] == ["code", "code", "code", FIRST_ONLY]
    assert (None if outcome is None else outcome.kind) == kind
    assert look.times == (kind is None)
    if outcome is not None:
        assert "at most 1 s at 2,000 tokens was asked for" in outcome.evidence


def test_what_may_be_reused_may_come_from_the_cache() -> None:
    class Reusing(PlayedServer):
        def ask(self, prompt: Prompt, max_tokens: int) -> Sample:
            return replace(super().ask(prompt, max_tokens), cache_n=500)

    deep = replace(WORKLOAD.prompt_set, prompts=deepened(WORKLOAD.prompt_set.prompts, (1000,)))
    assert Benchmark(replace(WORKLOAD, prompt_set=deep), NOTHING, lambda _one: None).do(Reusing()) is None
    outcome = benchmark().do(Reusing())
    assert outcome is not None
    assert outcome.evidence == "500 tokens of a fresh prompt came from a cache"


# --- the disk


def test_a_server_that_lives_from_the_disk_is_degraded_and_not_looked_at() -> None:
    look = Looked()
    outcome = benchmark(look).do(PlayedServer(disk=lambda requests: 5000.0 * requests))
    assert outcome is not None
    assert outcome.kind is Kind.DEGRADED
    assert "read from the disk while it answered" in outcome.evidence
    assert look.times == 0


def test_what_was_read_before_the_first_request_does_not_count() -> None:
    assert benchmark().do(PlayedServer(disk=lambda _requests: 50_000.0)) is None
    assert benchmark().do(PlayedServer(disk=lambda _requests: None)) is None
