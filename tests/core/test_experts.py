"""Which layers keep their experts where, as a candidate says it and as the engine takes it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.candidate import Candidate, format_value
from tuner.core.experts import ExpertRun, expert_runs, override_entries, override_text


def test_entry_is_written_as_a_pattern_of_its_layers() -> None:
    assert override_text(["CPU:8-10"]) == r"blk\.(8|9|10)\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU"
    assert format_value("override-tensor", ("CPU:0-0", "CUDA1:2-2")) == (
        r"blk\.(0)\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU,"
        r"blk\.(2)\.ffn_(up|down|gate|gate_up)_(ch|)exps=CUDA1"
    )


def test_pattern_finds_the_experts_of_its_layers_and_nothing_else() -> None:
    pattern = ExpertRun("CPU", 1, 2).pattern
    found = [
        name
        for layer in (0, 1, 2, 3, 11, 12, 21)
        for part in ("ffn_up_exps", "ffn_gate_up_exps", "ffn_up", "ffn_gate_inp", "attn_q")
        if re.search(pattern, name := f"blk.{layer}.{part}.weight")
    ]
    assert found == [
        f"blk.{layer}.{part}.weight" for layer in (1, 2) for part in ("ffn_up_exps", "ffn_gate_up_exps")
    ]


def test_layers_fall_into_runs() -> None:
    assert [run.entry for run in expert_runs([5, 0, 1, 2, 7, 6, 1])] == ["CPU:0-2", "CPU:5-7"]
    assert expert_runs([]) == ()


@pytest.mark.parametrize(
    "entry", ["", "CPU", "CPU:3", "CPU:4-3", "CPU:a-b", "CPU:0-3=CUDA0", "blk.*=CPU", "C,PU:0-1"]
)
def test_anything_else_is_no_entry(entry: str) -> None:
    assert ExpertRun.read(entry) is None


@PROPERTY
@given(st.lists(st.sets(st.integers(0, 200), min_size=1), min_size=1, max_size=3))
def test_what_is_written_is_read_back(layers: list[set[int]]) -> None:
    entries = tuple(
        run.entry
        for at, some in enumerate(layers)
        for run in expert_runs(some, "CPU" if at == 0 else f"CUDA{at}")
    )
    text = override_text(entries)
    assert text.count(",") == len(entries) - 1
    assert override_entries(text) == entries


@pytest.mark.parametrize("text", ["", "exps=CPU", r"blk\.(1|3)\.ffn_(up|down|gate|gate_up)_(ch|)exps=CPU"])
def test_patterns_of_other_hands_are_not_read(text: str) -> None:
    assert override_entries(text) is None


def test_candidate_with_experts_in_ram_is_kept_as_json() -> None:
    candidate = Candidate.of({"override-tensor": ("CPU:0-4",), "n-cpu-moe": 3})
    assert Candidate.from_json(candidate.to_json()) == candidate
