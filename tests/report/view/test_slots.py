"""Sections that come from other results: a ladder of contexts, and builds over time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuner.core.ladder import Rung
from tuner.report.ladder import ladder_document
from tuner.report.view.slots import BuildPoint, builds_section, engines_section, ladder_section

FIRST = Rung(
    context=16_384,
    is_max=False,
    configuration="tensor · 2,3",
    score_tok_s=84.0,
    prompt_tok_s=600.0,
    launches=20,
    out_of_memory=1,
    engine_default_tok_s=40.0,
    ratio=(2.1, 2.0, 2.2),
    free_mib=(("CUDA0", 900),),
    command="llama-server -c 16384",
)
SECOND = replace(FIRST, context=32_768, score_tok_s=80.5, engine_default_tok_s=None, ratio=None, free_mib=())
LAST = replace(
    SECOND, context=65_536, is_max=True, configuration=None, score_tok_s=None, prompt_tok_s=None, command=None
)


#: One engine with one file, as table.json has it.
CELL: dict[str, Any] = {
    "name": "11434-Q8_0",
    "engine": "11434",
    "file": "Q8_0",
    "size_bytes": 29_042_379_840,
    "configuration": "tensor · 2,3",
    "score_tok_s": 66.04,
    "classes_tok_s": {"code": 70.0, "prose": 61.0},
    "ratio": None,
    "context_tokens": 65_536,
    "expected_context_tokens": 131_072,
    "free_mib": {"CUDA0": 900},
    "loss": None,
    "is_reference": True,
    "launches": 31,
    "out": None,
    "is_worth_having": True,
    "is_winner": True,
}


def test_each_engine_with_each_file_is_a_row() -> None:
    lost = {
        "name": "10435-Q4_K",
        "engine": "10435",
        "file": "Q4_K",
        "configuration": None,
        "score_tok_s": None,
        "classes_tok_s": {},
        "ratio": {"ratio": 0.9, "interval": [0.85, 0.95]},
        "free_mib": {},
        "loss": {"kl_nats": 0.0213, "top1": 0.94},
        "is_reference": False,
        "expected_context_tokens": None,
        "out": {"by": "11434-Q8_0", "why": "slower", "launches": 4},
        "is_worth_having": False,
        "is_winner": False,
    }
    section = engines_section({"rows": [CELL, {**CELL, **lost}], "notes": ["10435 has no tensor mode."]})
    assert section is not None
    best, worse = section.figures.rows
    assert best[:6] == ("11434", "Q8_0", "27.05", "tensor · 2,3", "66.0", "code 70.0, prose 61.0")
    assert best[6:10] == ("-", "65,536 (131,072 expected)", "CUDA0 900 MiB", "the reference")
    assert best[11] == "the winner, beaten by none in speed, context and answers"
    assert worse[3:7] == ("nothing runs", "-", "-", "0.900x (0.850 to 0.950)")
    assert worse[9:] == ("0.021 nats, same token 94%", "31", "out: slower")
    assert section.sentences == ("10435 has no tensor mode.",)
    assert engines_section({"rows": []}) is None


def test_each_rung_has_its_speed_its_command_and_its_row() -> None:
    document = ladder_document(
        (FIRST, SECOND, LAST), date="2026-03-01T04:05:06+01:00", asked="16k,32k,max", tried_as_max=[65_536]
    )
    section = ladder_section(document)
    assert section is not None
    assert [(rung.context, rung.tok_s, rung.command is None) for rung in section.rungs] == [
        (16_384, 84.0, False),
        (32_768, 80.5, False),
        (65_536, None, True),
    ]
    first, second, last = section.figures.rows
    assert first[5:7] == ("2.100x (2.000 to 2.200)", "CUDA0 900 MiB")
    assert (second[4], second[5]) == ("-", "-")
    assert last[:3] == ("65,536 (max)", "nothing runs", "-")
    assert section.alt.endswith("65,536 tokens: nothing runs.")


def test_a_ladder_without_a_rung_has_nothing_to_say() -> None:
    document = ladder_document((), date="2026-03-01T04:05:06+01:00", asked="max", tried_as_max=[])
    assert ladder_section(document) is None


def test_builds_are_told_once_there_are_two() -> None:
    older = BuildPoint("2026-01-01T00:00:00+00:00", "10435", 60.0, 58.0, 62.0, "tensor · 2,3")
    newer = BuildPoint("2026-03-01T00:00:00+00:00", "11434", 66.0, None, None, "tensor · 4,5")
    assert builds_section([older]) is None
    section = builds_section([older, newer])
    assert section is not None
    assert section.figures.rows[1] == (newer.date, "11434", "66.0", "tensor · 4,5")
    assert "10435: 60.0 tok/s; 11434: 66.0 tok/s" in section.alt
