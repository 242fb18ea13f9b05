"""Candidates that cannot fit are not launched."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.support.models import shaped
from tests.support.shape_gguf import Shape
from tests.support.trials import a_record, ended, measured
from tuner.core.assignment.splits import Splits
from tuner.core.candidate import Candidate
from tuner.core.memory.learned import Learned, Observation
from tuner.core.memory.oracle import FitRow
from tuner.core.memory.predict import Predictor
from tuner.core.outcome import Kind, Outcome, Stage
from tuner.core.rig import Device
from tuner.search.memory_gate import LEAST_CHANCE, MemoryGate

if TYPE_CHECKING:
    from tuner.core.memory.need import DeviceNeed
    from tuner.core.memory.query import MemoryQuery
    from tuner.core.trial import TrialRecord

SPLITS = Splits(shaped(Shape(n_layers=32)))
CARDS = (
    Device("CUDA0", "RTX 5080", 16_303, 15_900, uuid="GPU-a"),
    Device("CUDA1", "RTX 3090", 24_576, 24_100, uuid="GPU-b"),
)


@dataclass
class PlayedOracle:
    """Says the same of every launch, and keeps what it was asked."""

    rows: tuple[FitRow, ...] | None
    asked: list[tuple[int, ...]] = field(default_factory=list)

    def ask(self, query: MemoryQuery, split: tuple[int, ...]) -> tuple[FitRow, ...] | None:
        assert query.devices == ("CUDA0", "CUDA1")
        self.asked.append(split)
        return self.rows


def candidate(first: int, n_ctx: int = 8192) -> Candidate:
    """So many of 34 units on the first card."""
    return Candidate.of({"tensor-split": (first, 34 - first), "ctx-size": n_ctx, "gpu-layers": 999})


def need(first: int) -> DeviceNeed:
    return Predictor(SPLITS, CARDS).predict(candidate(first).options).devices["CUDA0"]


def gate(
    free_mib: float = 15_900, oracle: PlayedOracle | None = None, learned: Learned | None = None
) -> MemoryGate:
    cards = (replace(CARDS[0], free_mib=round(free_mib)), CARDS[1])
    predictor = Predictor(SPLITS, cards, learned=learned)
    return MemoryGate(predictor, cards, reserve_mib={"CUDA0": 326}, source="engine model", oracle=oracle)


def out_of_memory(number: int, first: int, stage: Stage = Stage.COMPUTE) -> TrialRecord:
    outcome = Outcome(Kind.OUT_OF_MEMORY, stage=stage, device="CUDA0", evidence="a line")
    return a_record(number, candidate(first), replace(ended(Kind.OUT_OF_MEMORY), outcome=outcome))


def room_for(first: int, more_mib: float) -> float:
    """What has to be free on the first card so that a candidate has that much to spare."""
    return need(first).total + 326 + more_mib


# --- turning away


def test_reserve_is_no_room() -> None:
    assert gate().room_mib == {"CUDA0": 15_574.0, "CUDA1": 24_100.0}


def test_candidate_that_fits_may_be_launched() -> None:
    assert gate().turned_away(candidate(16)) is None
    assert gate().excess(candidate(16)) is None


def test_candidate_that_cannot_fit_is_turned_away_with_its_excess() -> None:
    found = gate(9_000).turned_away(candidate(30))
    assert found is not None
    assert found.device == "CUDA0"
    assert abs(found.over_mib - (need(30).total - 9_000 + 326)) <= 1


def test_excess_is_1_mib_at_least() -> None:
    """Turned away, so it is too much: by however little."""
    found = gate(room_for(30, -400)).turned_away(candidate(30))
    assert found is not None
    assert found.over_mib >= 1


def test_same_candidate_has_the_same_short_key() -> None:
    tight = gate(5_000)
    keys = [row.key for first in (30, 30, 31) if (row := tight.turned_away(candidate(first))) is not None]
    assert keys[0] == keys[1] != keys[2]
    assert len(set(keys)) == 2
    assert all(len(key) == 12 for key in keys)


def test_doubtful_candidate_is_launched_since_it_teaches() -> None:
    edge = gate(room_for(30, 0))
    assert edge.turned_away(candidate(30)) is None
    assert gate(room_for(30, -100)).turned_away(candidate(30)) is None


# --- the engine's own tool


def test_tool_is_asked_near_the_edge_only() -> None:
    oracle = PlayedOracle(None)
    gate(room_for(30, 2_000), oracle).excess(candidate(30))
    gate(room_for(30, -2_000), oracle).excess(candidate(30))
    assert oracle.asked == []
    gate(room_for(30, 0), oracle).excess(candidate(30))
    assert oracle.asked == [(30, 4)]


def test_tool_decides_where_it_knows_better() -> None:
    rows = (FitRow("CUDA0", round(need(30).weights) + 1000, 500, 500),)
    edge = room_for(30, 100)
    assert gate(edge).turned_away(candidate(30)) is None
    assert gate(edge, PlayedOracle(None)).turned_away(candidate(30)) is None
    assert gate(edge, PlayedOracle(rows)).turned_away(candidate(30)) is not None
    assert gate(edge, PlayedOracle(rows)).predict(candidate(30)).source == "llama-fit-params"


# --- learning


def test_out_of_memory_turns_the_neighbour_away() -> None:
    """What was seen to be too much once is not tried again with one unit more."""
    learning = gate(room_for(31, -100))
    assert learning.turned_away(candidate(31)) is None
    learning.learn([out_of_memory(0, 30)])
    assert learning.turned_away(candidate(31)) is not None
    assert learning.turned_away(candidate(24)) is None


def test_reading_lets_in_what_seemed_too_much() -> None:
    free = room_for(30, -350)
    learning = gate(free)
    assert learning.turned_away(candidate(30)) is not None
    unnamed = need(16).runtime - 500
    left = round(round(free) - need(16).buffers - unnamed)
    learning.learn([a_record(0, candidate(16), replace(measured(50), free_mib={"CUDA0": left}))])
    assert learning.turned_away(candidate(30)) is None


def test_same_trials_always_teach_the_same() -> None:
    records = [
        out_of_memory(0, 30),
        a_record(1, candidate(16), replace(measured(50), free_mib={"CUDA0": 900})),
    ]
    once, twice = gate(), gate()
    once.learn(records)
    twice.learn(records[:1])
    twice.learn(records)
    twice.learn(records)
    assert twice.predict(candidate(20)) == once.predict(candidate(20))
    assert twice.learned_from(records) == once.learned_from(records)
    assert len(once.learned_from(records)) == 2


def test_what_was_known_before_counts_and_stays() -> None:
    seen = Observation("GPU-a", "CUDA/layer", "engine model", 1200.0, 1200.0)
    known = gate(learned=Learned((seen,), "engine model"))
    known.learn([])
    assert known.predict(candidate(16)).devices["CUDA0"].runtime > 1150
    assert known.predictor.learned.observations == (seen,)
    assert known.learned_from([]) == ()


def test_a_study_goes_on_from_what_was_known_when_it_began() -> None:
    """The rig's file has learned more since: a resumed study is to propose what it would have."""
    before = Observation("GPU-a", "CUDA/layer", "engine model", 1200.0, 1200.0)
    since = replace(before, low_mib=300.0, high_mib=300.0)
    first, resumed = (gate(learned=Learned(seen, "engine model")) for seen in ((before,), (before, since)))
    resumed.begin_with(first.known_before)
    assert resumed.known_before == (before,)
    records = [a_record(0, candidate(16), replace(measured(50), free_mib={"CUDA0": 900}))]
    for n in (0, 1):
        first.learn(records[:n])
        resumed.learn(records[:n])
        assert resumed.predict(candidate(20)) == first.predict(candidate(20))


def test_what_a_study_begins_with_may_be_nothing() -> None:
    seen = Observation("GPU-a", "CUDA/layer", "engine model", 1200.0, 1200.0)
    knows = gate(learned=Learned((seen,), "engine model"))
    knows.begin_with(())
    knows.learn([])
    assert knows.known_before == ()
    assert knows.predict(candidate(16)) == gate().predict(candidate(16))


def test_a_trial_that_runs_teaches_once_it_has_ended() -> None:
    learning = gate()
    assert learning.learned_from([a_record(0, candidate(16), None)]) == ()
    ended_now = a_record(0, candidate(16), replace(measured(50), free_mib={"CUDA0": 900}))
    assert len(learning.learned_from([ended_now])) == 1


def test_least_chance_is_far_from_even() -> None:
    assert 0 < LEAST_CHANCE < 0.5


def test_what_asks_for_more_than_the_host_has_is_turned_away() -> None:
    splits = Splits(shaped(Shape("qwen3moe", n_layers=8, n_mtp=0, n_experts=64, n_ff=512, n_embd=1024)))
    devices = (Device("CUDA0", "card", 16_000, 16_000),)
    lies = Candidate.of(
        {"device": ("CUDA0",), "split-mode": "none", "ctx-size": 4096, "gpu-layers": 999, "cpu-moe": True}
    )
    predictor = Predictor(splits, devices)

    def with_ram(room_mib: float) -> MemoryGate:
        return MemoryGate(predictor, devices, reserve_mib={}, source="s", host_room_mib=room_mib)

    needed_mib = predictor.predict(lies.options).host_total_mib
    assert with_ram(needed_mib + 1).excess(lies) is None
    assert with_ram(needed_mib + 1).chance_to_fit(lies) > 0.9
    assert with_ram(needed_mib - 1).chance_to_fit(lies) == 0
    turned_away = with_ram(needed_mib - 1).turned_away(lies)
    assert turned_away is not None
    assert turned_away.device == "host memory"
