"""What was best when: one entry a study, and what a retune has shown."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tuner.core.history import Entry, basis_of, entry_of, measured_unchanged, with_entry

ENTRY = Entry(
    date="2026-03-01T04:05:06+01:00",
    study="s",
    created="2026-03-01T00:00:00+01:00",
    engine_version="version: 11434",
    engine_digest="ab",
    model="Q",
    model_fingerprint="f",
    context=16_384,
    workload="d",
    configuration="layer · 2,3",
    command="llama-server -ts 2,3",
    score_tok_s=61.5,
    reference="engine-default",
    ratio=1.5,
    low=1.45,
    high=1.55,
)
BEST: dict[str, Any] = {
    "date": ENTRY.date,
    "study": {"name": "s", "created": ENTRY.created},
    "winner": {"argv": ["llama-server", "-ts", "2,3"], "command": ENTRY.command, "score_tok_s": 61.5},
    "references": [
        {"name": "current", "winner_ratio": None},
        {"name": "engine-default", "winner_ratio": 1.6},
    ],
    "confirmation": {"references": [{"name": "engine-default", "ratio": 1.5, "interval": [1.45, 1.55]}]},
    "engine": {"version": "version: 11434", "digest": "ab"},
    "model": {"name": "Q", "fingerprint": "f"},
    "workload": {"ctx_size": 16_384, "digest": "d"},
}


@given(st.sampled_from([None, "unchanged"]), st.sampled_from([None, 1.5]))
def test_an_entry_comes_back_from_its_document(verdict: str | None, ratio: float | None) -> None:
    entry = replace(ENTRY, verdict=verdict, ratio=ratio)
    assert Entry.from_json(json.loads(json.dumps(entry.to_json()))) == entry


def test_the_entry_of_a_result_is_what_was_confirmed() -> None:
    assert entry_of(BEST, "layer · 2,3") == ENTRY


def test_what_was_best_before_is_not_what_it_is_compared_with() -> None:
    (own,) = BEST["confirmation"]["references"]
    rows = [own | {"name": "previous", "ratio": 1.1}, own]
    assert entry_of(BEST | {"confirmation": {"references": rows}}, "layer · 2,3") == ENTRY


def test_without_a_confirmation_it_is_what_was_measured_without_an_interval() -> None:
    found = entry_of(BEST | {"confirmation": None}, "layer · 2,3")
    assert (found.reference, found.ratio, found.low) == ("engine-default", 1.6, None)
    alone = entry_of(BEST | {"confirmation": None, "references": []}, "x")
    assert (alone.reference, alone.ratio) == (None, None)


def test_a_study_has_one_entry_and_entries_are_by_date() -> None:
    later = replace(ENTRY, date="2026-03-02T00:00:00+01:00", score_tok_s=70.0)
    other = replace(ENTRY, study="t", date="2026-02-01T00:00:00+01:00")
    assert with_entry([ENTRY], other) == [other, ENTRY]
    assert with_entry([other, ENTRY], later) == [other, later]
    again = replace(ENTRY, created="2026-05-01T00:00:00+01:00", date="2026-05-01T00:00:00+01:00")
    assert with_entry([ENTRY], again) == [ENTRY, again]


def test_another_command_or_study_is_another_basis() -> None:
    assert basis_of(BEST) == basis_of(json.loads(json.dumps(BEST)))
    assert basis_of(BEST) != basis_of(BEST | {"winner": {"argv": ["llama-server"]}})
    assert basis_of(BEST) != basis_of(BEST | {"study": {"name": "s", "created": "later"}})


def test_only_an_unchanged_retune_of_that_result_in_that_state_counts() -> None:
    shown = replace(ENTRY, verdict="unchanged", basis="b", state="now")
    assert measured_unchanged([ENTRY, shown], "b", "now") == shown
    for other in (replace(shown, verdict="slower"), replace(shown, basis="c"), replace(shown, state="then")):
        assert measured_unchanged([other], "b", "now") is None
