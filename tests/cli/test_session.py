"""`tuner tune --workload session`: conversations as agents have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.gguf_files import model_metadata, write_gguf
from tests.support.tuner_command import assert_refused
from tuner.core.outcome import Kind
from tuner.report.best import check_best

if TYPE_CHECKING:
    from tests.support.tuner_command import TunerCommand

THREE_UBATCHES = """
schema_version = 1
[parameters.ubatch-size]
kind = "choice"
choices = [256, 512, 1024]
[[start]]
about = "as it is"
ubatch-size = 512
[[start]]
about = "a large one"
ubatch-size = 1024
"""


@pytest.fixture(autouse=True)
def _trained_for_long_texts(command: TunerCommand) -> None:
    write_gguf(command.model, model_metadata(context_length=131_072))


SESSION = ("--workload", "session", "--context", "32k", "--tokens", "8")


def space(command: TunerCommand) -> str:
    path = command.folder / "three.toml"
    path.write_text(THREE_UBATCHES, encoding="utf-8")
    return str(path)


def test_a_server_that_loses_its_prompt_cache_does_not_win_and_the_turn_is_named(
    command: TunerCommand,
) -> None:
    command.fake.always(tok_s=60).when({"ubatch-size": 1024}, tok_s=240, cache_lost={"from_request": 7})
    said = command.tune(*SESSION, "--objective", "generation", "--launches", "3", space=space(command)).stdout
    reference, plain, lossy = command.records()
    assert lossy.candidate is not None
    assert lossy.candidate.get("ubatch-size") == 1024
    assert plain.score is not None
    assert lossy.score is not None
    assert lossy.score > 3 * plain.score
    assert lossy.outcome is not None
    assert lossy.outcome.kind is Kind.DEGRADED
    # the warm-up is the first request; the start and four turns follow, then somebody else's question
    assert lossy.outcome.evidence.startswith("cache-lost at agent-1/turn-5: ")
    assert "cache-lost at agent-1/turn-5" in said
    assert reference.outcome is not None
    assert reference.outcome.kind is Kind.NONE
    best = command.best()
    check_best(best)
    assert best["winner"]["parameters"].get("ubatch-size") != 1024
    assert best["workload"]["session"]["agents"] == 1


def test_each_turn_has_what_came_from_the_cache_and_what_was_read(command: TunerCommand) -> None:
    command.tune(*SESSION, "--launches", "1", space=space(command))
    (record,) = command.records()
    assert record.result is not None
    turns = {sample.prompt_id: sample for sample in record.result.samples}
    assert list(turns)[:2] == ["agent-1/start", "agent-1/turn-1"]
    assert turns["agent-1/start"].cache_n == 0
    for name in ("turn-1", "turn-2", "turn-6"):
        sample = turns[f"agent-1/{name}"]
        assert sample.cache_n > sample.prompt_n > 0
        assert 0 < sample.ttft_s <= sample.wall_s
    assert turns["second-client/question"].prompt_n < 100
    told = {turn["turn"]: turn for turn in command.best()["winner"]["turns"]}
    assert list(told) == list(turns)
    assert told["agent-1/turn-2"]["cache_n"] == turns["agent-1/turn-2"].cache_n
    assert list(command.best()["winner"]["classes"]) == ["start", "turn", "other", "edit"]
    assert command.best()["workload"]["goal"]["objective"] == "turn"


def test_agents_are_served_side_by_side(command: TunerCommand) -> None:
    command.tune(
        *SESSION, "--agents", "2", "--launches", "1", "--", "-np", "2", "--kv-unified", space=space(command)
    )
    (record,) = command.records()
    assert record.result is not None
    clients = {sample.prompt_id.split("/")[0] for sample in record.result.samples}
    assert clients == {"agent-1", "agent-2", "second-client"}
    starts = {
        sample.prompt_id: sample.began_s
        for sample in record.result.samples
        if sample.prompt_id.endswith("turn-1")
    }
    assert abs(starts["agent-1/turn-1"] - starts["agent-2/turn-1"]) < 5


ERRORS = {
    ("--workload", "session"): "it becomes about 19,472 tokens long, and a slot holds 2,048; raise --context",
    ("--agents", "2"): "--agents: only a session has agents; add --workload session",
    (*SESSION, "--agents", "0"): "--agents: must be at least 1, got 0",
    (*SESSION, "--depth", "8k"): "--depth: a session is as deep as it is",
    (*SESSION, "--max-ttft", "2s@1k"): "--max-ttft: a session is as deep as it is",
    (*SESSION, "--objective", "throughput", "--parallel", "2"): "a session's turns follow each other",
}


@pytest.mark.parametrize(("options", "message"), ERRORS.items(), ids=[" ".join(words) for words in ERRORS])
def test_what_does_not_go_with_a_session_is_one_line(
    command: TunerCommand, options: tuple[str, ...], message: str
) -> None:
    ended = command.run(*command.words(*options))
    assert_refused(ended, message)
    assert command.launches() == []
