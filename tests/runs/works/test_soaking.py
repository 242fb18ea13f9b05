"""What a winner is put through, and what it fails by."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.played_server import PlayedServer, ServerDied, workload
from tests.support.strategies import PROPERTY
from tuner.core.outcome import Kind, Outcome, Phase
from tuner.core.rig import Device
from tuner.core.soak import HOST_GROWTH_MIB, Soaked
from tuner.prompts.passages import filler
from tuner.runs.works.soaking import LONG_ANSWER_TOKENS, Endurance, Rested, Soak, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tuner.core.measurement import Sample
    from tuner.core.workload import Prompt

SMALL = ("one", "two", "three")
WORKLOAD = workload(*SMALL, "four")
RESTED = Rested({"one": 50.0, "two": 50.0, "three": 50.0, "four": 50.0}, 1000.0)
DEVICES = (Device("CUDA0", "RTX 5080", 16_000, 15_900), Device("CUDA1", "GTX 1050", 4000, 3900))
GAPS_S = (5.0, 60.0, 300.0)
HOUR_S = 3600.0


@dataclass
class Told:
    """Everything that was told of a soak."""

    soaked: list[Soaked] = field(default_factory=list)

    def __call__(self, soaked: Soaked) -> None:
        self.soaked.append(soaked)


def soak(
    server: PlayedServer, seconds: float | None = None, rested: Rested = RESTED
) -> tuple[Soaked, Outcome | None]:
    work = Soak(WORKLOAD, rested, DEVICES, seconds=seconds, now_s=server.clock)
    outcome = work.do(server)
    assert work.soaked is not None
    assert work.samples == []
    return work.soaked, outcome


def endure(
    server: PlayedServer,
    seconds: float = HOUR_S,
    gaps_s: tuple[float, ...] = GAPS_S,
    told: Callable[[Soaked], None] = lambda _soaked: None,
) -> tuple[Soaked, Outcome | None]:
    work = Endurance(WORKLOAD, DEVICES, seconds=seconds, gaps_s=gaps_s, on_soaked=told, now_s=server.clock)
    outcome = work.do(server)
    assert work.soaked is not None
    assert work.samples == []
    return work.soaked, outcome


def is_degraded(outcome: Outcome | None, *words: str) -> bool:
    """Whether it may not win, and says why."""
    assert outcome is not None
    assert (outcome.kind, outcome.phase) == (Kind.DEGRADED, Phase.BENCHMARK)
    assert not outcome.policy.may_win
    return all(word in outcome.evidence for word in words)


def slower_from(request: int, pace: float, until: int = 10**9) -> Callable[[int], float]:
    return lambda n: pace if request <= n < until else 1.0


def shrinking(device: str, mib: int, request: int) -> Callable[[int], Mapping[str, int]]:
    """So much less is free on a device from that request on."""
    free = {"CUDA0": 3000, "CUDA1": 900}
    return lambda n: {**free, device: free[device] - mib} if n >= request else free


# --- the longest prompt


@pytest.mark.parametrize("context", [512, 2048, 8192, 131_072])
def test_the_longest_prompt_fills_the_slot_and_leaves_room_for_its_answer(context: int) -> None:
    soaked, outcome = soak(PlayedServer(slot_context=context))
    answer = min(LONG_ANSWER_TOKENS, context // 8)
    assert outcome is None
    assert soaked.slot_context == context
    assert soaked.longest_answer_tokens == answer
    assert context * 0.998 - 110 <= soaked.longest_prompt_tokens + answer <= context


def test_the_longest_prompt_is_shorter_where_time_is_short() -> None:
    server = PlayedServer(slot_context=131_072)
    soaked, outcome = soak(server, 20.0)
    assert outcome is None
    long_ones = [prompt for prompt in server.asked if prompt.id == "longest"]
    assert len(long_ones) == 2  # a shorter one shows how fast long ones are read
    assert soaked.longest_prompt_tokens == pytest.approx(15_000, rel=0.01)


def test_a_server_that_reads_long_prompts_slowly_gets_a_shorter_one() -> None:
    class Slowing(PlayedServer):
        def ask(self, prompt: Prompt, max_tokens: int) -> Sample:
            self.prompt_tok_s = 300 / (1 + len(str(prompt.messages)) / 4 / 1800)
            return super().ask(prompt, max_tokens)

    server = Slowing(slot_context=8192)
    soaked, outcome = soak(server, 40.0, replace(RESTED, prompt_tok_s=300.0))
    assert outcome is None
    read_s = sum(len(str(p.messages)) / 4 / 300 * (1 + len(str(p.messages)) / 4 / 1800) for p in server.asked)
    assert 35.0 < read_s < 44.0
    assert 2500 < soaked.longest_prompt_tokens < 4500


@pytest.mark.parametrize("server", [PlayedServer(slot_context=None), PlayedServer(counts=lambda _text: None)])
def test_a_server_that_does_not_say_what_it_holds_gets_small_requests_alone(
    server: PlayedServer,
) -> None:
    soaked, outcome = soak(server)
    assert outcome is None
    assert [prompt.id for prompt in server.asked] == [*SMALL, *SMALL]
    assert soaked.requests == 6


def test_no_time_is_no_long_prompt() -> None:
    server = PlayedServer()
    soak(server, 0.0)
    assert "longest" not in {prompt.id for prompt in server.asked}


def test_a_death_is_not_caught_and_what_was_seen_is_kept() -> None:
    server, told = PlayedServer(dies_at=3), Told()
    work = Soak(WORKLOAD, RESTED, DEVICES, on_soaked=told, now_s=server.clock)
    with pytest.raises(ServerDied):
        work.do(server)
    assert work.soaked == told.soaked[-1]
    assert told.soaked[-1].requests == 3
    assert told.soaked[-1].small_before_tok_s == pytest.approx(50.0)


# --- small requests


def test_a_server_that_does_as_it_did_survives() -> None:
    server = PlayedServer()
    soaked, outcome = soak(server)
    assert outcome is None
    assert [prompt.id for prompt in server.asked] == [*SMALL, "longest", *SMALL]
    assert soaked.requests == 7
    assert soaked.at_once == 1
    assert soaked.seconds == pytest.approx(server.now)
    assert soaked.small_before_tok_s == soaked.small_after_tok_s == pytest.approx(50.0)
    assert soaked.host_growth_mib == 0.0
    assert soaked.free_mib == {"CUDA0": 4000}


@pytest.mark.parametrize("request_number", [3, 4])
def test_a_server_that_slows_by_a_fifth_is_disqualified(request_number: int) -> None:
    soaked, outcome = soak(PlayedServer(pace=slower_from(request_number, 0.8)))
    assert is_degraded(outcome, "20% slower", "twice in a row")
    assert soaked.small_after_tok_s == pytest.approx(40.0)


def test_a_launch_that_is_slow_from_its_start_is_held_to_how_it_began() -> None:
    assert soak(PlayedServer(pace=slower_from(0, 0.8)))[1] is None
    assert is_degraded(soak(PlayedServer(pace=lambda n: 0.8 if n < 4 else 0.64))[1], "20% slower")


def test_a_launch_that_is_faster_than_confirmed_at_first_is_held_to_what_was_confirmed() -> None:
    assert soak(PlayedServer(pace=lambda n: 1.3 if n < 4 else 0.95))[1] is None
    assert is_degraded(soak(PlayedServer(pace=lambda n: 1.3 if n < 4 else 0.8))[1], "20% slower")


def test_a_server_that_is_five_hundredths_slower_is_not() -> None:
    soaked, outcome = soak(PlayedServer(pace=slower_from(3, 0.95)))
    assert outcome is None
    assert soaked.small_after_tok_s == pytest.approx(47.5)


def test_a_server_that_is_slow_once_is_asked_again_and_not_disqualified() -> None:
    soaked, outcome = soak(server := PlayedServer(pace=slower_from(4, 0.5, until=7)))
    assert outcome is None
    assert soaked.requests == server.requests == 3 + 1 + 3 + 3
    assert soaked.small_after_tok_s == pytest.approx(50.0)


def test_each_prompt_is_held_against_its_own_rate() -> None:
    """With drafts some prompts are far faster than others."""
    server = PlayedServer(slot_context=None, pace=lambda n: (2.0, 0.6, 1.0)[n % 3])
    drafts = {"one": 100.0, "two": 30.0, "three": 50.0}
    assert soak(replace(server), rested=Rested(drafts, 1000.0))[1] is None
    slows = replace(server, pace=lambda n: (2.0, 0.6, 1.0)[n % 3] * (1.0 if n < 3 else 0.8))
    assert is_degraded(soak(slows, rested=Rested(drafts, 1000.0))[1], "20% slower")


def test_without_anything_to_hold_it_against_no_server_is_slow() -> None:
    assert soak(PlayedServer(pace=slower_from(4, 0.1)), rested=Rested({}, None))[1] is None


# --- memory


@pytest.mark.parametrize(
    ("device", "mib", "survives"),
    [("CUDA0", 160, True), ("CUDA0", 161, False), ("CUDA1", 64, True), ("CUDA1", 65, False)],
)
def test_memory_that_shrinks_after_the_longest_prompt_disqualifies(
    device: str,
    mib: int,
    survives: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    soaked, outcome = soak(PlayedServer(free=shrinking(device, mib, request=5)))
    assert (outcome is None) is survives
    assert survives or is_degraded(outcome, f"{mib} MiB less are free on {device}", "its memory grows")
    assert soaked.free_mib[device] == {"CUDA0": 3000, "CUDA1": 900}[device] - mib


def test_pools_may_grow_with_the_longest_prompt() -> None:
    soaked, outcome = soak(PlayedServer(free=shrinking("CUDA1", 500, request=4)))
    assert outcome is None
    assert soaked.free_mib == {"CUDA0": 3000, "CUDA1": 400}


def test_devices_of_which_no_driver_tells_do_not_grow() -> None:
    soaked, outcome = soak(PlayedServer(free=lambda _n: {}, host=lambda _n: None))
    assert outcome is None
    assert soaked.free_mib == {}
    assert soaked.host_growth_mib is None


# --- several at once


def test_all_slots_are_asked_at_once_and_small_requests_after_it() -> None:
    soaked, outcome = soak(server := PlayedServer(slots=5))
    assert outcome is None
    assert server.together == [5, 5]
    assert soaked.at_once == 5
    assert soaked.requests == server.requests == 3 + 1 + 3 + 5 + 5 + 3
    at_once = server.asked[7:12]
    assert len({str(prompt.messages) for prompt in at_once}) == 5
    assert [prompt.id for prompt in at_once] == ["one (1)", "two (2)", "three (3)", "one (4)", "two (5)"]


def test_memory_may_grow_once_with_several_at_once() -> None:
    assert soak(PlayedServer(slots=4, free=shrinking("CUDA0", 400, request=8)))[1] is None
    _, outcome = soak(PlayedServer(slots=4, free=shrinking("CUDA0", 400, request=13)))
    assert is_degraded(outcome, "400 MiB less are free on CUDA0")


# --- endurance


def test_endurance_keeps_its_time_and_takes_its_gaps() -> None:
    soaked, outcome = endure(server := PlayedServer())
    assert outcome is None
    assert HOUR_S <= server.now < HOUR_S + 10.0
    assert server.gaps_s[:6] == [*GAPS_S, *GAPS_S]
    assert soaked.longest_gap_s == 300.0
    assert soaked.requests == server.requests
    assert soaked.seconds == pytest.approx(server.now)
    assert soaked.small_before_tok_s == soaked.small_after_tok_s == pytest.approx(50.0)


def test_a_gap_that_does_not_fit_is_left_out() -> None:
    soaked, outcome = endure(server := PlayedServer(), 120.0)
    assert outcome is None
    assert 120.0 <= server.now < 130.0
    assert server.gaps_s
    assert soaked.longest_gap_s == max(server.gaps_s) < 300.0


def test_endurance_without_gaps_is_busy_all_the_time() -> None:
    soaked, outcome = endure(server := PlayedServer(), 100.0, ())
    assert outcome is None
    assert server.gaps_s == []
    assert soaked.longest_gap_s == 0.0


def test_each_turn_has_a_medium_prompt_small_ones_and_all_slots() -> None:
    soaked, _ = endure(server := PlayedServer(slots=3), 60.0)
    assert [prompt.id for prompt in server.asked[:10]] == (
        [*SMALL, "medium (1)", "one (1)", "two (2)", "three (3)", *SMALL]
    )
    assert soaked.longest_prompt_tokens == pytest.approx(8192 / 4, rel=0.05)
    assert soaked.at_once == 3
    mediums = [str(prompt.messages) for prompt in server.asked if prompt.id.startswith("medium")]
    assert len(set(mediums)) == len(mediums) > 1


def test_a_medium_prompt_leaves_room_for_a_long_answer() -> None:
    server = PlayedServer(slot_context=512)
    work = Endurance(workload("one", tokens=400), DEVICES, seconds=60.0, now_s=server.clock)
    assert work.do(server) is None
    assert work.soaked is not None
    assert 0 < work.soaked.longest_prompt_tokens <= 112


def test_it_is_told_at_the_start_and_after_every_turn() -> None:
    server, told = PlayedServer(), Told()
    soaked, _ = endure(server, told=told)
    turns = sum(prompt.id.startswith("medium") for prompt in server.asked)
    assert len(told.soaked) == 1 + turns
    assert told.soaked[0].requests == 3
    assert [one.requests for one in told.soaked] == sorted({one.requests for one in told.soaked})
    assert told.soaked[-1] == soaked


def test_a_death_in_endurance_loses_nothing_of_what_was_told() -> None:
    server, told = PlayedServer(dies_at=50), Told()
    with pytest.raises(ServerDied):
        endure(server, told=told)
    assert 3 < told.soaked[-1].requests <= 50


def test_endurance_catches_a_server_that_slows() -> None:
    soaked, outcome = endure(server := PlayedServer(pace=slower_from(30, 0.8)))
    assert is_degraded(outcome, "20% slower")
    assert server.now < HOUR_S
    assert 30 < soaked.requests < 50


def test_endurance_catches_a_server_that_does_not_wake_up() -> None:
    _, outcome = endure(server := PlayedServer(pace_after_gap=0.7))
    assert is_degraded(outcome, "30% slower")
    assert server.gaps_s == [5.0]


@pytest.mark.parametrize("pace", [slower_from(30, 0.95), slower_from(31, 0.5, until=34)])
def test_endurance_lets_a_little_and_a_moment_pass(pace: Callable[[int], float]) -> None:
    assert endure(PlayedServer(pace=pace))[1] is None


def test_endurance_catches_growth_in_many_small_steps() -> None:
    soaked, outcome = endure(PlayedServer(free=lambda n: {"CUDA0": 4000 - 2 * n}))
    assert is_degraded(outcome, "less are free on CUDA0")
    assert soaked.free_mib["CUDA0"] < 4000 - 160


def test_endurance_lets_pools_grow_in_its_first_turn() -> None:
    assert endure(PlayedServer(free=shrinking("CUDA0", 1000, request=4)))[1] is None


@pytest.mark.parametrize(("most", "survives"), [(HOST_GROWTH_MIB, True), (HOST_GROWTH_MIB + 50, False)])
def test_endurance_catches_a_leak_of_host_memory(most: int, survives: bool) -> None:  # noqa: FBT001
    soaked, outcome = endure(PlayedServer(host=lambda n: 1000.0 + min(400.0 * n, most)))
    assert (outcome is None) is survives
    assert survives or is_degraded(outcome, "host memory has grown by 9,2")
    assert soaked.host_growth_mib is not None
    assert soaked.host_growth_mib <= most


# --- texts


@PROPERTY
@given(
    st.integers(0, 20_000),
    st.sampled_from(
        [
            lambda text: -(-len(text) // 4),
            lambda text: len(text.split()),
            lambda text: 1 + 2 * len(text.encode()),
            lambda text: int(len(text) * (0.2 + len(text) / 1e6)),
        ]
    ),
)
def test_a_text_never_has_more_tokens_than_asked_for(tokens: int, counts: Callable[[str], int]) -> None:
    text = text_of(PlayedServer(counts=counts), tokens)
    assert counts(text) <= tokens or not text
    assert filler(len(text)).startswith(text)


@pytest.mark.parametrize("tokens", [200, 5000, 100_000])
def test_a_text_has_nearly_as_many_tokens_as_asked_for(tokens: int) -> None:
    for counts in (PlayedServer().counts, lambda text: len(text.split())):
        counted = counts(text_of(PlayedServer(counts=counts), tokens))
        assert counted is not None
        assert tokens * 0.97 <= counted <= tokens


@pytest.mark.parametrize("tokens", [0, -5])
def test_no_tokens_are_no_text(tokens: int) -> None:
    assert text_of(PlayedServer(), tokens) == ""
