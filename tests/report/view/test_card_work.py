"""What each card did while the winner generated, in words that say what is a fault and what is not."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import pytest

from tests.report.test_best import FACTS
from tests.support.known_proofs import PLAIN
from tests.support.played_night import played_night
from tests.support.trials import a_record, a_sample
from tuner.core.launch import LaunchResult
from tuner.core.outcome import Outcome
from tuner.core.telemetry import GpuReading, GpuSummary
from tuner.report.view.card_work import decode_readings, decode_work, work_table
from tuner.report.view.inputs import ReportInputs

#: Two requests: each has a second until its first token, then two seconds of answer; a second lies between them.
RESULT = LaunchResult(
    Outcome(),
    samples=(
        a_sample(began_s=0.0, ttft_s=1.0, wall_s=3.0, predicted_n=101),
        a_sample(began_s=4.0, ttft_s=1.0, wall_s=3.0, predicted_n=101),
    ),
    load_s=10.0,
    warmup_s=2.0,
)


def series(device: str, busy: int, watts: float) -> list[GpuReading]:
    """Ten a second; while prompts are read, and between requests, a card does what it never does otherwise."""
    rows = []
    for step in range(200):
        at_s = step / 10
        decoding = 13.0 <= at_s <= 15.0 or 17.0 <= at_s <= 19.0
        rows.append(
            GpuReading(
                device,
                at_s,
                utilisation_pct=busy if decoding else 100,
                power_w=watts if decoding else 600.0,
                pcie_gen=4,
                pcie_width=16,
                energy_j=600.0 * at_s,
            )
        )
    return rows


def work(mode: str, busy: tuple[int, ...], *, with_series: bool = True) -> list[str]:
    candidate = PLAIN.with_options({"split-mode": mode})
    readings = [row for place, pct in enumerate(busy) for row in series(f"CUDA{place}", pct, 200.0)]
    records = (a_record(0, candidate, RESULT),)
    section = decode_work(ReportInputs(records, FACTS, series=tuple(readings) if with_series else ()))
    assert section is not None
    return list(section.sentences)


def test_only_the_time_between_first_and_last_tokens_counts() -> None:
    rows = decode_readings(series("CUDA0", 40, 200.0), RESULT)
    assert {row.utilisation_pct for row in rows} == {40}
    assert len(rows) == 42
    assert rows[-1].time_s == pytest.approx(4.1, abs=0.15)  # what lies between the requests is cut out


def test_joules_a_token_are_those_of_decoding_alone() -> None:
    records = (a_record(0, PLAIN, RESULT),)
    readings = (*series("CUDA0", 40, 200.0), *series("CUDA1", 60, 100.0))
    section = decode_work(ReportInputs(records, FACTS, series=readings))
    assert section is not None
    assert not section.prompts_included
    # 4 seconds of answers at 300 W over 200 tokens
    assert section.joules_a_token == pytest.approx(300 * 4 / 200, rel=0.05)
    assert [row[:4] for row in work_table(section).rows] == [
        ("CUDA0", "40 %", "60 %", "200"),
        ("CUDA1", "60 %", "40 %", "100"),
    ]


def test_waiting_in_layer_mode_is_said_to_be_no_fault() -> None:
    said = work("layer", (40, 60))
    assert said[0] == (
        "CUDA0 was busy 40 % of the time while it generated and waited 60 %, at 200 W, over PCIe Gen 4 x16."
    )
    assert said[2] == (
        "In layer mode the cards work one after the other, so one card always waits: that is not a fault."
    )


def test_in_tensor_mode_who_waits_most_is_named() -> None:
    assert "CUDA1 waits most: it has the smaller share for its speed, or the sums take long." in work(
        "tensor", (90, 70)
    )
    assert "In tensor mode the cards work side by side; here hardly any of them waits." in work(
        "tensor", (99, 98)
    )


def test_a_card_that_is_not_used_has_nothing_to_do() -> None:
    assert "Only one card is used; CUDA1 has nothing to do. That is what this command asks for." in work(
        "none", (97, 0)
    )


def test_where_the_readings_are_gone_the_summary_counts_and_says_so() -> None:
    summary = GpuSummary(
        samples=9, loaded_samples=9, span_s=2.0, utilisation_pct=55.0, energy_j=300.0, watts=150.0
    )
    result = replace(RESULT, telemetry=MappingProxyType({"CUDA0": summary}))
    section = decode_work(ReportInputs((a_record(0, PLAIN, result),), FACTS))
    assert section is not None
    assert section.prompts_included
    assert section.sentences[0].startswith(
        "CUDA0 was busy 55 % of the time while it answered, prompts included, and waited 45 %"
    )


def test_a_throttled_card_is_named() -> None:
    summary = GpuSummary(
        samples=9,
        loaded_samples=9,
        span_s=2.0,
        utilisation_pct=55.0,
        throttle=MappingProxyType({"sw-power-cap": 0.25}),
    )
    result = replace(RESULT, telemetry=MappingProxyType({"CUDA0": summary}))
    section = decode_work(ReportInputs((a_record(0, PLAIN, result),), FACTS))
    assert section is not None
    assert section.sentences[-1] == "CUDA0 was held back: sw-power-cap in 25% of the readings."


def test_without_a_driver_it_is_said_that_nothing_is_known() -> None:
    (said,) = work("layer", ())
    assert said.startswith("No driver reports what these devices do")
    assert decode_work(ReportInputs((a_record(0, PLAIN, None),), FACTS)) is None


def test_the_nights_winner_works_in_tensor_mode() -> None:
    section = decode_work(played_night())
    assert section is not None
    assert not section.prompts_included
    assert [round(card.busy_pct or 0) for card in section.cards] == [88, 81]
