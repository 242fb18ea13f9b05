"""The table of engine by file, and what is said below it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.trials import a_record, measured
from tuner.core.candidate import Candidate
from tuner.core.quality import Loss
from tuner.core.table import Row
from tuner.core.trial import Errand, Purpose
from tuner.report.table import row_of, table_document, table_markdown
from tuner.search.racing import Out

LOSS = Loss(positions=90, deepest_tokens=300, kl_nats=0.05, deep_kl_nats=None, worst_kl_nats=0.9, top1=0.86)
WINNER = Row(
    "new-Q4",
    "new",
    "Q4",
    4 * 2**30,
    "tensor · 2,3",
    None,
    "llama-server -m Q4",
    60.0,
    beside_tok_s=60.2,
    ratio=None,
    prompt_tok_s=900.0,
    classes_tok_s=(("code", 66.0), ("prose", 55.0)),
    engine_default_tok_s=30.0,
    context_tokens=65_536,
    context_tok_s=59.0,
    expected_context_tokens=None,
    free_mib=(("CUDA0", 512), ("CUDA1", 2048)),
    loss=LOSS,
    is_reference=False,
    launches=30,
    out_of_memory=1,
    out=None,
    is_worth_having=True,
    is_winner=True,
)
LARGE = replace(
    WINNER,
    name="new-Q8",
    file="Q8",
    size_bytes=8 * 2**30,
    score_tok_s=40.0,
    ratio=(0.66, 0.62, 0.7),
    context_tokens=16_384,
    loss=None,
    is_reference=True,
    is_winner=False,
)
LOST = replace(
    LARGE,
    name="old-Q8",
    engine="old",
    ratio=None,
    is_reference=False,
    is_worth_having=False,
    out=("new-Q8", "30.0 tok/s against 40.0", 8),
    context_tok_s=None,
    expected_context_tokens=32_768,
)
NOTHING = replace(
    LOST, name="old-Q4", file="Q4", score_tok_s=None, configuration=None, out=(None, "nothing of it runs", 10)
)


def lines(*rows: Row, notes: tuple[str, ...] = ()) -> list[str]:
    return table_markdown(rows, notes).split("\n")


def test_a_row_says_what_one_engine_makes_of_one_file() -> None:
    _, _, row, *_ = lines(WINNER)
    assert row == (
        "| new | Q4 | 4.00 | `tensor · 2,3` | 60.0 | code 66.0, prose 55.0 |  | 65,536 at 59.0 tok/s | "
        "CUDA0 512 MiB, CUDA1 2,048 MiB | 0.05 nats, same token 86% | 30 | winner, Pareto |"
    )


def test_every_row_has_as_many_cells_as_the_head() -> None:
    head, rule, *rows = lines(WINNER, LARGE, LOST, NOTHING)
    rows = [row for row in rows if row.startswith("|")]
    assert len(rows) == 4
    assert {row.count("|") for row in (head, rule, *rows)} == {head.count("|")}


def test_a_ratio_has_its_interval_and_a_context_that_was_not_launched_is_expected() -> None:
    text = "\n".join(lines(WINNER, LARGE, LOST))
    assert "| 0.66 (0.62 to 0.70) |" in text
    assert "| 16,384 (32,768 expected) |" in text
    assert "| 0 (the reference) |" in text


def test_rows_of_an_engine_stand_together() -> None:
    rows = [line for line in lines(LOST, WINNER, NOTHING, LARGE) if line.startswith(("| new", "| old"))]
    assert [row[:9] for row in rows] == ["| new | Q", "| new | Q", "| old | Q", "| old | Q"]


def test_what_others_have_over_the_winner_and_why_some_are_out_is_said() -> None:
    said = lines(WINNER, LARGE, LOST, NOTHING, notes=("A note.",))
    assert (
        "Instead of new-Q4: new-Q8 makes 0.66 times as much (95 %: 0.62 to 0.70), has 16,384 tokens of context "
        "instead of 65,536, answers 0 nats off instead of 0.05 nats." in said
    )
    assert "Out: old-Q8, after 8 launches, by new-Q8: 30.0 tok/s against 40.0." in said
    assert "Out: old-Q4, after 10 launches: nothing of it runs." in said
    assert "| nothing runs |" in said[5]
    assert said[-1] == "A note."


def test_a_row_that_has_no_launch_yet_is_empty() -> None:
    row = lines(replace(NOTHING, out=None, launches=0))[2]
    assert row == "| old | Q4 | 8.00 |  |  |  |  |  |  |  | 0 |  |"


# --- out of a best.json

CANDIDATE = Candidate.of({"split-mode": "layer", "ubatch-size": 512, "ctx-size": 8192})
RECORDS = [
    a_record(0, None, measured(20.0), reference="engine-default"),
    a_record(1, CANDIDATE, measured(40.0)),
    a_record(2, CANDIDATE.with_options({"ctx-size": 32_768}), measured(39.0), errand=Errand(Purpose.STRETCH)),
]
BEST = {
    "winner": {
        "trial": 1,
        "reference": None,
        "command": "llama-server",
        "score_tok_s": 40.0,
        "rates": {"prompt_tok_s": 800.0},
        "classes": {"code": {"generation_tok_s": 44.0}, "first-token": {"generation_tok_s": None}},
        "memory_mib": {"free": {"CUDA0": 900}},
    },
    "references": [{"name": "engine-default", "score_tok_s": 20.0}],
    "soak": None,
}


def row(**changes: object) -> Row:
    given: dict[str, object] = {
        "best": BEST,
        "records": RECORDS,
        "context": 8192,
        "longest": RECORDS[2],
        "expected_context": 30_000,
        "loss": LOSS,
        "is_reference": False,
        "out": None,
        **changes,
    }
    return row_of("new-Q4", "new", "Q4", 2**30, **given)  # type: ignore[arg-type]  # by name


def test_a_row_is_made_of_what_was_measured() -> None:
    found = row()
    assert (found.score_tok_s, found.prompt_tok_s, found.engine_default_tok_s) == (40.0, 800.0, 20.0)
    assert found.classes_tok_s == (("code", 44.0),)
    assert (found.context_tokens, found.context_tok_s, found.expected_context_tokens) == (32_768, 39.0, None)
    assert found.free_mib == (("CUDA0", 900),)
    assert found.configuration == CANDIDATE.summary()
    assert found.off_nats == 0.05


def test_what_was_left_free_in_a_soak_counts_before_the_benchmark() -> None:
    assert row(best={**BEST, "soak": {"free_mib": {"CUDA0": 300}}}).free_mib == (("CUDA0", 300),)


@pytest.mark.parametrize(("expected", "shown"), [(30_000, 30_000), (8192, None), (None, None)])
def test_a_context_that_was_not_launched_is_a_prediction(expected: int | None, shown: int | None) -> None:
    found = row(longest=None, expected_context=expected)
    assert (found.context_tokens, found.context_tok_s) == (8192, 40.0)
    assert found.expected_context_tokens == shown


def test_where_nothing_was_measured_there_is_no_number() -> None:
    found = row(best=None, records=RECORDS[:1], longest=None, out=Out("new-Q4", "x", "slower", 4))
    assert (found.score_tok_s, found.configuration, found.command) == (None, None, None)
    assert found.out == ("x", "slower", 4)


def test_the_document_names_winner_and_pareto_set_and_keeps_the_race() -> None:
    document = table_document(
        [WINNER, LARGE, LOST],
        date="2026-01-01T00:00:00+00:00",
        engines=[{"name": "new"}],
        files=[{"name": "Q4"}],
        notes=["A note."],
        state={"searched": True},
    )
    assert (document["winner"], document["worth_having"]) == ("new-Q4", ["new-Q4", "new-Q8"])
    assert document["rows"][1]["ratio"] == {"ratio": 0.66, "interval": [0.62, 0.7]}
    assert document["rows"][2]["out"] == {"by": "new-Q8", "why": "30.0 tok/s against 40.0", "launches": 8}
    assert document["rows"][0]["loss"]["kl_nats"] == 0.05
    assert document["state"] == {"searched": True}
