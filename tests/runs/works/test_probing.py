"""Where a server is asked what comes next, within a time."""

from __future__ import annotations

import pytest

from tests.support.played_server import PlayedServer
from tuner.core.quality import NextToken, Probe, loss
from tuner.prompts.passages import filler, passages, places
from tuner.runs.works.probing import Probing

SHALLOW = sum(len(places(passage)) for passage in passages())
DEEP = len(places(passages()[4]))


def probe(
    server: PlayedServer,
    seconds: float = 60.0,
    deep_characters: int | None = None,
    *,
    rate: float | None = 1000.0,
) -> Probe:
    return Probing(seconds, deep_characters, server.clock)(server, rate)


def deep(found: Probe) -> list[str]:
    return [one.name for one in found.positions if one.deep]


def test_with_time_every_place_is_asked_once() -> None:
    found = probe(server := PlayedServer())
    names = [one.name for one in found.positions]
    assert len(set(names)) == len(names) == SHALLOW + DEEP
    assert len(server.read) == len(set(server.read)) == SHALLOW + DEEP + found.deep_characters // 2000
    assert len(deep(found)) == DEEP
    assert found.seconds == pytest.approx(server.now)


def test_deep_places_lie_behind_as_much_as_the_context_holds() -> None:
    for context in (2048, 8192, 32_768):
        found = probe(PlayedServer(slot_context=context), 600.0)
        assert context - 600 < max(one.tokens for one in found.positions) < context
        assert len(deep(found)) == DEEP


def test_a_tokenizer_that_is_worse_at_larger_numbers_does_not_overfill_the_context() -> None:
    """Line numbers grow: the beginning of the filler has fewer tokens a character than its end."""
    server = PlayedServer(slot_context=32_768, counts=lambda text: int(len(text) * (0.3 + len(text) / 3e6)))
    assert len(deep(probe(server, 600.0))) == DEEP


def test_a_huge_context_is_not_filled() -> None:
    found = probe(PlayedServer(slot_context=262_144, prompt_tok_s=1e6), 600.0, rate=1e6)
    assert 32_000 < max(one.tokens for one in found.positions) < 33_200


def test_reading_up_to_the_deep_places_takes_half_of_the_time_at_most() -> None:
    server = PlayedServer(slot_context=262_144, next_token_s=0.0)
    found = probe(server, 20.0)
    assert len(deep(found)) == DEEP
    assert max(one.tokens for one in found.positions) == pytest.approx(10_000, rel=0.05)
    assert server.now < 20.0


@pytest.mark.parametrize(
    "server",
    [
        PlayedServer(slot_context=1024),
        PlayedServer(slot_context=None),
        PlayedServer(counts=lambda _text: None),
    ],
)
def test_without_a_depth_worth_it_nothing_deep_is_asked(server: PlayedServer) -> None:
    found = probe(server)
    assert found.deep_characters == 0
    assert deep(found) == []
    assert len(found.positions) == SHALLOW


def test_an_unknown_rate_asks_nothing_deep() -> None:
    assert deep(probe(PlayedServer(), rate=None)) == []


def test_others_are_asked_as_deep_as_the_reference() -> None:
    reference = probe(PlayedServer(), 20.0)
    other = probe(PlayedServer(slot_context=65_536), 60.0, reference.deep_characters)
    assert other.deep_characters == reference.deep_characters
    found = loss(reference, other)
    assert found is not None
    assert found.positions == SHALLOW + DEEP
    assert found.deep_kl_nats == 0.0


def test_who_is_too_slow_for_that_depth_is_asked_nothing_deep() -> None:
    characters = probe(PlayedServer(), 20.0).deep_characters
    slow = probe(PlayedServer(prompt_tok_s=100.0), 20.0, characters, rate=100.0)
    assert deep(slow) == []
    assert slow.deep_characters == 0
    assert probe(PlayedServer(slot_context=4096), 60.0, characters).deep_characters == 0
    assert probe(PlayedServer(), 20.0, 0).deep_characters == 0


@pytest.mark.parametrize("seconds", [0.0, 1.0])
def test_time_that_is_over_still_allows_the_first_place(seconds: float) -> None:
    found = probe(PlayedServer(next_token_s=5.0), seconds)
    assert [one.name for one in found.positions] == ["0/0"]
    assert found.seconds > 1.0


def test_time_is_kept_but_for_one_request() -> None:
    found = probe(PlayedServer(next_token_s=1.0, prompt_tok_s=1e9), 9.0, rate=None)
    assert len(found.positions) == 9
    assert found.seconds == pytest.approx(9.0)


def test_deep_texts_come_after_the_same_filler_read_in_pieces() -> None:
    probe(server := PlayedServer(), 60.0, 8000)
    pieces = [filler(2000 * n) for n in (1, 2, 3, 4)]
    assert [text for text in server.read if text in pieces] == pieces
    deep_ones = [text for text in server.read if text.startswith(pieces[-1]) and text != pieces[-1]]
    assert [text.removeprefix(pieces[-1]) for text in deep_ones] == list(places(passages()[4]))


def test_a_text_that_is_read_ever_more_slowly_does_not_take_more_than_its_time() -> None:
    """A processor reads 300 tokens a second at first and 60 seven thousand tokens later."""

    class Slowing(PlayedServer):
        def next_token(self, text: str) -> NextToken | None:
            self.prompt_tok_s = 300 / (1 + len(text) / 4000)
            return super().next_token(text)

    found = probe(server := Slowing(slot_context=32_768), 40.0, rate=300.0)
    assert len(deep(found)) == DEEP
    assert server.now < 46.0


def test_a_server_that_does_not_tell_has_no_place() -> None:
    found = probe(PlayedServer(tells=False))
    assert found.positions == ()
    assert loss(probe(PlayedServer()), found) is None
