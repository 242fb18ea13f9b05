"""What a retune found, in sentences, as a document, and as an issue for others to read."""

import copy
import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tests.report.test_best import FACTS
from tests.search.canary.test_arms import BEST, DEFAULT, OLD, UP
from tests.search.canary.test_verdict import ARMS, THEN, canary, launched
from tests.support.trials import a_sample
from tuner.core.candidate import Candidate
from tuner.core.launch import LaunchResult
from tuner.core.outcome import Outcome
from tuner.core.telemetry import GpuSummary
from tuner.core.trial import TrialRecord
from tuner.report.regression import regression_report
from tuner.report.retuned import Found, retuned_document, verdict_sentences
from tuner.search.canary.arms import Arms
from tuner.search.canary.verdict import changes_of, judged, rates_of

NAME = Candidate.from_json(json.loads(BEST)).summary()
RATES = {BEST: 42.0, OLD: 60.0, DEFAULT: 30.0, UP: 57.0}
NOW: dict[str, Any] = copy.deepcopy(FACTS) | {"driver": "580.1"}
NOW["engine"] = {"path": "/home/me/new/llama-server", "digest": "b" * 64, "version": "version: 11434 (def)"}
NOW["devices"].append(FACTS["devices"][0] | {"name": "RPC0", "description": "10.0.0.7:50052", "uuid": None})
NOW["model"] |= {"name": "Q", "weights_type": "Q8_0", "size_bytes": 2**30}
THEN_DOCUMENT = {"engine": {"digest": "a" * 64, "version": "version: 10435 (abc)"}}


def found(
    rates: dict[str, float] = RATES,
    *,
    arms: Arms = ARMS,
    suspected: frozenset[str] = frozenset(),
    said: str | None = None,
    records: list[TrialRecord] | None = None,
    broken: str | None = None,
) -> Found:
    one = canary(arms) if broken is None else canary(arms, best=broken)
    made = launched(rates) if records is None else records
    then = MappingProxyType(THEN)
    changes = changes_of(arms, rates_of(one, made, then))
    verdict = judged(arms, one, changes, worthwhile=0.01, other_answers=said)
    return Found(verdict, arms, one, made, then, suspected)


def test_the_verdict_comes_first_with_its_interval() -> None:
    lines = verdict_sentences(found(suspected=frozenset({"split-mode tensor"})))
    assert lines[0].startswith(f"Slower: {NAME}; now over then: 0.70")
    assert "(95 %: 0.6" in lines[0]
    assert lines[1] == "What is behind it: split-mode tensor."
    assert any(line.startswith("the engine's own choice: now over then: ") for line in lines)


def test_several_suspects_are_said_to_be_that() -> None:
    lines = verdict_sentences(found(suspected=frozenset({"spec-type draft-mtp", "split-mode tensor"})))
    assert lines[1] == (
        "What is behind it is among: spec-type draft-mtp, split-mode tensor (these launches do not tell them apart)."
    )


def test_no_difference_is_said_to_be_that() -> None:
    (first, *_) = verdict_sentences(found({BEST: 60.0, OLD: 60.0}))
    assert first.startswith("Unchanged: ")
    assert first.endswith(", no significant difference.")


def test_launches_that_differ_too_much_to_tell_say_so() -> None:
    rates = {BEST: 60.0, OLD: 60.0}
    first, second, *_ = verdict_sentences(found(records=launched(rates, noise=0.2)))
    assert first.startswith("Unchanged, as far as these launches tell: ")
    assert "it may be slower by up to " in second
    agreeing = found(rates)
    assert agreeing.judged.shortfall(BEST) < 0.05
    assert agreeing.judged.shortfall("nothing") == 1


def test_why_it_is_broken_or_answers_otherwise_is_said() -> None:
    (first, *_) = verdict_sentences(found(broken="unsupported in load: no"))
    assert first.startswith(f"Broken: {NAME}; unsupported in load: no")
    (first, *_) = verdict_sentences(found(said="0.1 nats off"))
    assert first.startswith(f"Output changed: {NAME}; 0.1 nats off; now over then: 0.70")


def test_a_comparison_with_records_of_another_day_is_said_to_be_that() -> None:
    lines = verdict_sentences(found({BEST: 42.0, DEFAULT: 30.0}, arms=Arms(BEST, None, (DEFAULT,))))
    assert "its records stand for it" in lines[-1]


def test_too_few_launches_are_said_to_be_that() -> None:
    (first, *_) = verdict_sentences(found({DEFAULT: 30.0}))
    assert "it was not launched often enough to say" in first


def test_the_document_holds_every_launch_and_is_plain_json() -> None:
    document = retuned_document(found(suspected=frozenset({"split-mode tensor"})))
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert (document["verdict"], document["suspected"]) == ("slower", ["split-mode tensor"])
    rows = {row["role"]: row for row in document["configurations"]}
    assert set(rows) == {"best", "previous", "reference", "beside"}
    assert len(rows["best"]["now_tok_s"]) == 3
    assert rows["best"]["then_tok_s"] == list(THEN[BEST])
    assert rows["best"]["change"]["in_turns"]
    low, high = rows["best"]["change"]["interval"]
    assert low < rows["best"]["change"]["ratio"] < high
    assert rows["previous"]["change"] is None
    assert document["launches"] == 12


def report(one: Found) -> str:
    return regression_report(THEN_DOCUMENT, NOW, one)


def test_a_regression_says_what_somebody_else_needs() -> None:
    said = report(found(suspected=frozenset({"split-mode tensor"})))
    assert said.startswith("### llama-server: 30% slower generation with split-mode tensor\n")
    for part in (
        "3 launches a side, in turns on the same machine",
        "| build | 10435 (abc) [aaaaaaaaaaaa] | 11434 (def) [bbbbbbbbbbbb] |",
        "- driver: 580.1",
        "- model: Q, llama, Q8_0, 1.00 GiB",
        "- the engine's own choice: ",
    ):
        assert part in said
    row = next(line for line in said.splitlines() if line.startswith("| tok/s"))
    before, now = (cell.split(",") for cell in row.strip("| ").split("|")[1:])
    assert [round(float(rate)) for rate in before] == [60, 60, 60]
    assert [round(float(rate)) for rate in now] == [42, 42, 42]


def test_a_regression_holds_no_path_and_no_address() -> None:
    records = [
        replace(one, argv=("/home/me/new/llama-server", "-m", "/data/q.gguf", "--rpc", "10.0.0.7:50052"))
        for one in launched(RATES)
    ]
    said = report(found(records=records))
    assert "llama-server -m q.gguf --rpc HOST:PORT,..." in said
    for secret in ("/home/me", "/data", "10.0.0.7"):
        assert secret not in said


def test_watts_and_joules_are_those_of_all_cards() -> None:
    cards = {
        name: GpuSummary(samples=5, loaded_samples=5, span_s=1.0, energy_j=101.0, watts=100.0)
        for name in "AB"
    }
    result = LaunchResult(Outcome(), samples=(a_sample(draft_n=100, draft_n_accepted=80),), telemetry=cards)
    records = [replace(one, result=result) if one.key == BEST else one for one in launched(RATES)]
    said = report(found(records=records))
    assert "| watts | - | 200 |" in said
    assert "| joules a token | - | 2.00 |" in said
    assert "| drafts accepted | - | 80% |" in said


def test_without_the_old_build_its_records_are_shown() -> None:
    said = report(found({BEST: 42.0, DEFAULT: 30.0}, arms=Arms(BEST, None, (DEFAULT,))))
    assert "the older build was measured on an earlier day" in said
    assert "| tok/s, launch by launch | 60.0, 60.6, 59.4 | " in said
