"""What lies on each card while the winner runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.played_night import played_night
from tuner.report.headline import winning
from tuner.report.view.memory import FREE, PARTS, RESERVE, memory_stacks, memory_table


def test_the_parts_of_a_stack_are_those_of_the_prediction_and_fill_the_card() -> None:
    night = played_night()
    section = memory_stacks(night)
    winner = winning(night.records, night.confirmation)
    assert section is not None
    assert winner is not None
    assert [card.device for card in section.cards] == ["CUDA0", "CUDA1"]
    for card in section.cards:
        need = night.needs[winner.number][card.device]
        assert card.asked_mib == pytest.approx(need["total"], abs=0.5)
        assert card.parts_mib["model"] == need["weights"]
        assert card.parts_mib["KV cache"] == pytest.approx(need["kv"] + need["recurrent"])
        assert card.parts_mib["draft"] > 0
        assert set(card.parts_mib) == {*PARTS, RESERVE, FREE}
        assert card.available_mib is not None
        assert sum(card.parts_mib.values()) == pytest.approx(card.available_mib)
        assert card.used_mib == pytest.approx(card.available_mib - card.left_mib)  # type: ignore[operator]
    first = section.sentences[0]
    assert first.startswith("CUDA0 (NVIDIA GeForce RTX 5080): ")
    assert "were left at its height, by the driver." in first


def test_what_no_driver_says_is_not_known() -> None:
    night = played_night()
    without = {name: value for name, value in night.facts.items() if name != "memory"}
    records = tuple(
        record if record.result is None else replace(record, result=replace(record.result, free_mib={}))
        for record in night.records
    )
    section = memory_stacks(replace(night, facts=without, records=records))
    assert section is not None
    assert [card.parts_mib.keys() for card in section.cards] == [PARTS.keys()] * 2
    assert memory_table(section).rows[0][-3:] == ("not known", "not known", "not known")
    assert section.sentences[0].endswith(" predicted.")


def test_where_nothing_was_predicted_there_is_no_section() -> None:
    assert memory_stacks(replace(played_night(), needs={})) is None
