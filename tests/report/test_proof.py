"""What stands behind a winner satisfies the schema in every state, and says no more than is known."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.report.test_best import DATE, FACTS
from tests.support.known_proofs import (
    NAMES,
    OWN,
    PLAIN,
    RATES,
    REF,
    SOAKED,
    A,
    B,
    looked_at,
    played,
    searched,
    state,
    tried,
    with_quality,
)
from tests.support.trials import PlayedConfirmation, a_launch, a_record, ended, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import CURRENT, ENGINE_DEFAULT
from tuner.core.outcome import Kind
from tuner.core.telemetry import GpuSummary
from tuner.core.trial import Errand, Purpose, TrialRecord
from tuner.report.best import best_document, check_best, shown
from tuner.report.proof import confirmation_sentences, endurance_document, quality_document, soak_document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.search.confirmation.state import Confirmation


def best(confirmation: Confirmation | None, records: Sequence[TrialRecord]) -> dict[str, Any]:
    made = best_document(records, FACTS, date=DATE, confirmation=confirmation)
    assert made is not None
    check_best(made)
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    return made


# --- the confirmation in every state


def test_without_a_confirmation_all_of_the_proof_is_null_or_empty() -> None:
    made = best(None, searched())
    assert [made[name] for name in ("confirmation", "soak", "endurance")] == [None] * 3
    assert (made["disqualified"], made["quality"], made["winner"]["quality"]) == ([], [], None)


def test_before_the_first_look_nothing_is_said() -> None:
    confirmation, records = state(played(launches=5))
    assert best(confirmation, records)["confirmation"] is None
    assert confirmation_sentences(confirmation, records) == [
        "The confirmation is not finished; the same command goes on with it."
    ]


def test_one_that_goes_on_counts_by_its_last_look_and_says_that_it_goes_on() -> None:
    one = played(blocks=8, launches=3 * 4 + 2, noise=0.02)
    confirmation, records = state(one)
    made = best(confirmation, records)["confirmation"]
    assert (made["finished"], made["blocks"], made["launches"], made["most_blocks"]) == (False, 4, 14, 8)
    assert made["runner_up"]["launches_a_side"] == 4
    # what was launched after the look is in no interval, and in no sentence
    assert [line for line in made["sentences"] if "launches a side" in line and "(4 " not in line] == []
    assert made["sentences"][-1] == "The confirmation is not finished; the same command goes on with it."


def test_one_that_ended_says_all_there_is() -> None:
    confirmation, records = state(played(), ended=True)
    made = best(confirmation, records)["confirmation"]
    assert (made["finished"], made["time_over"], made["blocks"]) == (True, False, 4)
    assert [leader["tied"] for leader in made["leaders"]] == [True, True]
    assert [leader["launches"] for leader in made["leaders"]] == [4, 4]
    (against,) = made["references"]
    assert (against["name"], against["significant"]) == (ENGINE_DEFAULT, True)
    assert against["interval"][0] < against["ratio"] < against["interval"][1]
    assert made["runner_up"]["parameters"]["split-mode"] == "layer"
    assert made["tie_broken_by"] == "speed"
    assert made["drift"]["interval"][0] <= made["drift"]["ratio"] <= made["drift"]["interval"][1]
    assert "not finished" not in " ".join(made["sentences"])


def test_one_that_time_ended_says_so() -> None:
    confirmation, records = state(played(blocks=8, launches=3 * 3 + 1), over_at=3, ended=True)
    made = best(confirmation, records)["confirmation"]
    assert (made["time_over"], made["blocks"]) == (True, 3)
    assert made["sentences"][-1] == (
        "Time ended the confirmation before all was known; more --budget tells more."
    )


def test_one_that_time_ended_after_a_block_has_shown_nothing() -> None:
    confirmation, records = state(played(launches=3), over_at=1, ended=True)
    assert best(confirmation, records)["confirmation"] is None
    assert confirmation_sentences(confirmation, records) == [
        "Time ended the confirmation before anything was known."
    ]


def test_one_that_never_took_place_says_nothing() -> None:
    confirmation, records = state(played(launches=0), over_at=0, ended=True)
    assert best(confirmation, records)["confirmation"] is None
    assert confirmation_sentences(confirmation, records) == []


def test_a_leader_that_failed_says_why_and_the_others_are_compared() -> None:
    one = played(instead={(A, 0): ended(Kind.OUT_OF_MEMORY)})
    confirmation, records = state(one, ended=True)
    made = best(confirmation, records)["confirmation"]
    assert [leader["failed"] for leader in made["leaders"]] == [
        "out-of-memory: a line about out-of-memory",
        None,
    ]
    assert made["runner_up"] is None
    assert f"Not confirmed: {NAMES[0]}: out-of-memory: a line about out-of-memory." in made["sentences"]


def test_where_all_leaders_failed_it_is_said_why_although_there_is_no_result() -> None:
    one = played(instead={(arm, 0): ended(Kind.OUT_OF_MEMORY) for arm in (A, B)})
    confirmation, records = state(one, ended=True)
    made = best(confirmation, records)
    assert made["confirmation"] is None
    assert made["winner"]["reference"] == ENGINE_DEFAULT
    said = confirmation_sentences(confirmation, records)
    assert [line.partition(": ")[0] for line in said] == ["Not confirmed", "Not confirmed"]


def test_a_reference_that_is_faster_is_the_winner_and_the_leader_its_runner_up() -> None:
    one = played(references=(REF, OWN))
    confirmation, records = state(one, ended=True)
    records = [*searched(arms=(REF, A, B, OWN)), *one.records]
    made = best(confirmation, records)
    assert (made["winner"]["reference"], made["winner"]["parameters"]) == (CURRENT, {})
    assert [against["name"] for against in made["confirmation"]["references"]] == [ENGINE_DEFAULT]
    assert made["confirmation"]["runner_up"]["ratio"] == pytest.approx(50 / 40, rel=0.01)


def test_of_the_winner_all_launches_that_confirmed_it_are_shown() -> None:
    confirmation, records = state(played(), ended=True)
    made = best(confirmation, records)
    assert made["winner"]["rates"]["requests"] == 4
    assert made["winner"]["trial"] > 9
    (reference,) = made["references"]
    assert reference["rates"]["requests"] == 4
    assert shown(A, searched(), None).number == 1


def test_of_a_reference_that_was_not_confirmed_the_search_is_shown() -> None:
    one = played(references=())
    confirmation, records = state(one, ended=True)
    (reference,) = best(confirmation, records)["references"]
    assert (reference["trial"], reference["rates"]["requests"]) == (0, 1)


def test_launches_of_another_round_are_not_shown() -> None:
    confirmation, records = state(played(), ended=True)
    later = replace(confirmation, round=2, over_at=None, ended=False)
    assert best(later, records)["winner"]["trial"] < 10


# --- sentences


def lines(one: PlayedConfirmation, *more: TrialRecord, **changes: Any) -> list[str]:  # noqa: ANN401
    return confirmation_sentences(*state(one, *more, **({"ended": True} | changes)))


def test_a_ratio_stands_with_its_interval_and_launches_a_side() -> None:
    first, second = lines(played())
    assert first.startswith("Against the engine's own choice: 2.0")
    assert first.endswith(" (4 launches a side).")
    assert "x (95 %: 1.9" in first
    assert "no significant difference" not in first
    assert second.startswith("Against the runner-up (layer")
    assert (
        ", no significant difference (4 launches a side); the winner made more in these launches." in second
    )


def test_what_is_certainly_more_than_one_is_not_shown_as_one() -> None:
    first, _ = lines(played(rates={**RATES, REF: 39.8}, noise=0.0001))
    assert first.startswith("Against the engine's own choice: 1.005x (95 %: 1.00")
    assert "no significant difference" not in first


@pytest.mark.parametrize(
    ("free_mib", "said"), [((4000, 1000), "leaves more memory free"), ((4000, 4000), "made more")]
)
def test_it_is_said_why_a_tie_went_so(free_mib: tuple[int, int], said: str) -> None:
    one = played()
    records = [
        replace(r, result=replace(r.result, free_mib={"CUDA0": free_mib[0 if r.key == A else 1]}))
        for r in one.records
        if r.result is not None
    ]
    text = confirmation_sentences(replace(one.confirmation, ended=True), [*searched(), *records])[1]
    assert text.endswith(f"; the winner {said}{' in these launches' if said == 'made more' else ''}.")


def test_who_is_ahead_for_certain_was_not_chosen_for_anything_else() -> None:
    _, second = lines(played(rates={**RATES, B: 36.0}))
    assert second.startswith(f"Against the runner-up ({NAMES[1]}): 1.1")
    assert second.endswith("(4 launches a side).")


def test_a_drift_is_named_with_its_interval() -> None:
    said = [line for line in lines(played(loss=0.01)) if "drift" in line]
    assert len(said) == 1
    assert said[0].startswith("The rig drifted: from the first launch to the last by -1")
    assert [line for line in lines(played()) if "drift" in line] == []


def test_launches_that_stand_out_or_were_made_again_are_named() -> None:
    one = played(blocks=8, instead={(A, 1): measured(30.0), (REF, 2): ended(Kind.RPC_LOST)}, noise=0.02)
    odd = next(r.number for r in one.records if r.key == A and r.errand.block == 1)
    lost = next(r.number for r in one.records if r.outcome is not None and r.outcome.kind is Kind.RPC_LOST)
    said = lines(one)
    assert f"Launches that stand out: trial {odd}." in said
    assert f"Launches that were made again: trial {lost}." in said
    document = best(*state(one, ended=True))["confirmation"]
    assert (document["outliers"], document["repeated"]) == ([odd], [lost])


def test_too_few_launches_make_no_interval() -> None:
    confirmation, records = state(played(launches=6), over_at=2, ended=True)
    once = [record for record in records if (record.key, record.errand.block) != (REF, 1)]
    (against,) = best(confirmation, once)["confirmation"]["references"]
    assert (against["ratio"], against["interval"], against["launches_a_side"]) == (None, None, 0)
    assert against["sentence"] == "against the engine's own choice: too few launches for an interval"


# --- soak and endurance


def test_a_soak_without_a_drivers_memory_has_null_there() -> None:
    made = best(None, [*searched(arms=(A,)), tried(5, A, Purpose.SOAK)])["soak"]
    assert (made["trial"], made["outcome"], made["free_mib"], made["peak_mib"]) == (5, "none", None, None)
    assert made["buffers_mib"] == {}
    assert made["host_growth_mib"] is None
    assert made["sentence"] == (
        "12 requests in 90 s, prompts of up to 15,000 tokens of 16,384, answers of up to 512, small requests "
        "40.0 tok/s at the start, 39.0 at the end, nothing here reports the devices' memory"
    )


def test_a_soak_with_a_driver_says_what_was_free_and_used() -> None:
    soaked = replace(SOAKED, free_mib={"CUDA0": 1200}, at_once=4, longest_gap_s=60.0, slot_context=None)
    record = tried(5, A, Purpose.SOAK, soaked)
    assert record.result is not None
    summary = GpuSummary(samples=5, loaded_samples=5, span_s=1.0, used_max_mib=15_000.0)
    buffers = {"CUDA0": 14_000.5}
    seen = replace(record.result, telemetry={"CUDA0": summary}, buffers_mib=buffers)
    made = best(None, [*searched(arms=(A,)), replace(record, result=seen)])["soak"]
    assert (made["free_mib"], made["peak_mib"]) == ({"CUDA0": 1200}, {"CUDA0": 15_000.0})
    assert made["buffers_mib"] == buffers
    for part in ("tokens, answers", "4 at once", "left alone for 60 s", "least free: CUDA0 1,200 MiB"):
        assert part in made["sentence"]


def test_a_soak_that_still_runs_or_says_nothing_has_no_sentence() -> None:
    running = a_launch(5, A, None, Errand(Purpose.SOAK, 1))
    made = best(None, [*searched(arms=(A,)), running])["soak"]
    assert (made["outcome"], made["sentence"]) == (None, "")
    stopped = tried(5, A, Purpose.SOAK, None, Kind.STOPPED)
    made = best(None, [*searched(arms=(A,)), stopped])["soak"]
    assert (made["outcome"], made["sentence"]) == ("stopped", "")


def test_of_several_soaks_the_last_counts_and_only_the_winners() -> None:
    rows = [
        tried(5, A, Purpose.SOAK, None, Kind.STOPPED),
        tried(6, A, Purpose.SOAK),
        tried(7, B, Purpose.SOAK, None, Kind.CRASHED),
    ]
    found = soak_document(A, rows)
    assert found is not None
    assert found["trial"] == 6
    assert soak_document(REF, rows) is None


def test_an_endurance_is_the_sum_of_its_parts() -> None:
    part = replace(SOAKED, requests=100, seconds=3000.0, longest_gap_s=60.0)
    rest = replace(SOAKED, requests=50, seconds=4300.0, longest_gap_s=300.0, small_after_tok_s=38.0)
    rows = [
        tried(5, A, Purpose.ENDURE, part, Kind.STOPPED),
        tried(6, B, Purpose.ENDURE),
        tried(7, A, Purpose.ENDURE, rest),
        a_launch(8, A, None, Errand(Purpose.ENDURE, 1)),
    ]
    made = best(None, [*searched(arms=(A,)), *rows])["endurance"]
    assert made == {
        "trials": [5, 7, 8],
        "requests": 150,
        "seconds": 7300.0,
        "failures": 0,
        "longest_gap_s": 300.0,
        "small_before_tok_s": 40.0,
        "small_after_tok_s": 38.0,
        "host_growth_mib": None,
        "sentence": "150 requests, 2.0 h, 0 failures",
    }


def test_an_endurance_in_which_a_card_failed_does_not_say_that_nothing_did() -> None:
    made = endurance_document(A, [tried(5, A, Purpose.ENDURE, SOAKED, Kind.DEVICE_ERROR)])
    assert made is not None
    assert (made["failures"], made["sentence"]) == (1, "12 requests, 90 s, 1 failures")


def test_without_figures_there_is_no_endurance() -> None:
    assert endurance_document(A, [tried(5, A, Purpose.ENDURE, None, Kind.STOPPED)]) is None
    assert endurance_document(A, []) is None


def test_who_was_disqualified_is_named_and_does_not_win() -> None:
    gone = tried(20, A, Purpose.SOAK, SOAKED, Kind.DEGRADED)
    confirmation, records = state(played(), gone, ended=True)
    made = best(confirmation, records)
    assert made["winner"]["parameters"]["ubatch-size"] == 256
    (row,) = made["disqualified"]
    assert row["parameters"]["ubatch-size"] == 128
    assert row["why"] == "degraded"
    assert made["soak"] is None


# --- answers


def test_what_a_kv_type_costs_is_the_median_over_its_launches() -> None:
    small = Candidate.from_json(json.loads(A)).with_options({"cache-type-k": "q8_0"}).key()
    records = [
        with_quality(0, REF, replace(looked_at(0.0), loss=None)),
        with_quality(1, A, looked_at(0.001)),
        with_quality(2, B, looked_at(0.003, deep=0.02)),
        with_quality(3, A, looked_at(0.002)),
        with_quality(4, small, looked_at(0.5, "far off")),
    ]
    rows = quality_document(records)
    assert [(row["cache_type_k"], row["launches"], row["degraded"]) for row in rows] == [
        ("f16", 3, 0),
        ("q8_0", 1, 1),
    ]
    assert (rows[0]["kl_nats"], rows[0]["deep_kl_nats"]) == (0.002, 0.02)
    made = best(None, records)
    assert made["quality"] == rows
    assert made["winner"]["quality"]["bound_nats"] == 0.01
    assert made["references"][0]["quality"]["loss"] is None


def test_a_study_from_before_has_no_quality() -> None:
    assert quality_document([a_record(0, PLAIN, measured(40.0)), a_record(1, PLAIN, None)]) == []
