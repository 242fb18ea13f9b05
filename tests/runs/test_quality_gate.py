"""Wrong answers do not win, whoever gives them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from tests.support.played_server import PlayedServer, workload
from tests.support.trials import a_record, ended, measured
from tuner.core.asked import Asked
from tuner.core.candidate import Candidate
from tuner.core.launch import CURRENT, ENGINE_DEFAULT, LaunchResult, LaunchSpec
from tuner.core.options import BASE_OPTIONS, Value
from tuner.core.outcome import MEASURED, Kind, Phase
from tuner.core.quality import BOUND_NATS, Quality
from tuner.prompts.passages import filler
from tuner.runs.quality_gate import QualityGate, is_plain, reference_probe
from tuner.runs.trial_folder import TrialFolder
from tuner.runs.works.benchmark import Benchmark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tuner.core.quality import NextToken, Probe
    from tuner.core.trial import TrialRecord
    from tuner.core.workload import Prompt, Workload

WORKLOAD = workload("one", "two", "three")
SAMPLED = workload("one", "two", "three", temperature=0.8)
PLAIN: dict[str, Value] = {
    **BASE_OPTIONS,
    "split-mode": "layer",
    "cache-type-k": "f16",
    "cache-type-v": "f16",
}


def of(**options: Value) -> LaunchSpec:
    """A candidate; the plain one where nothing is said."""
    changes = {name.replace("_", "-"): value for name, value in options.items()}
    return LaunchSpec(Candidate.of({**PLAIN, **changes}))


DEFAULT, USERS = LaunchSpec(None, ENGINE_DEFAULT), LaunchSpec(None, CURRENT)
TENSOR, SMALL_CACHE = of(split_mode="tensor"), of(cache_type_k="q4_0", cache_type_v="q4_0")


@dataclass
class Study:
    """Launches of played servers through one gate after the other."""

    folder: Path
    workload: Workload = WORKLOAD
    seconds: float | None = 600.0
    records: list[TrialRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate = QualityGate(self.seconds, self.workload, self.folder)

    def resume(self) -> None:
        """As another process would."""
        self.__post_init__()
        self.gate.begin_with(self.records)

    def launch(self, spec: LaunchSpec, server: PlayedServer | None = None) -> LaunchResult:
        """As the run does it: measure, look, judge, record."""
        look = self.gate.look(spec)
        work = Benchmark(self.workload, Asked(None, None, None), lambda _sample: None, look)
        outcome = work.do(server or PlayedServer()) or MEASURED
        return self.keep(
            spec,
            lambda folder: self.gate.examined(
                LaunchResult(outcome, samples=tuple(work.samples)), folder, spec, look
            ),
        )

    def keep(self, spec: LaunchSpec, result_of: Callable[[TrialFolder], LaunchResult]) -> LaunchResult:
        number = len(self.records)
        folder = TrialFolder.of(self.folder, number)
        folder.path.mkdir(parents=True)
        result = result_of(folder)
        folder.record_result(result, 10.0)
        self.records.append(a_record(number, spec.candidate, result, reference=spec.reference))
        return result


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path)


def quality_of(result: LaunchResult) -> Quality:
    assert result.quality is not None
    return result.quality


def nats_of(result: LaunchResult) -> float:
    found = quality_of(result).loss
    assert found is not None
    return found.judged_nats


def objected(result: LaunchResult) -> str:
    """What is against it; it is measured and may not win."""
    objection = quality_of(result).objection
    assert objection is not None
    assert result.outcome.evidence == objection
    assert (result.outcome.kind, result.outcome.phase) == (Kind.DEGRADED, Phase.BENCHMARK)
    assert result.outcome.policy.measured
    assert not result.outcome.policy.may_win
    assert result.samples
    return objection


def passed(result: LaunchResult) -> bool:
    return result.outcome == MEASURED and quality_of(result).objection is None


def loops(prompt: Prompt) -> str:
    return f"{prompt.id[0]}" * 80


def other_words(prompt: Prompt) -> str:
    return f"Something else is said of {prompt.id}, and it has nothing to do with the question."


# --- who is the reference


def test_the_engines_own_choice_becomes_the_reference_and_is_looked_at_twice(study: Study) -> None:
    server = PlayedServer()
    first = study.launch(DEFAULT, server)
    assert passed(first)
    assert quality_of(first).loss is None
    assert quality_of(first).bound_nats == BOUND_NATS
    assert quality_of(first).noise_floor_nats == 0.0
    assert quality_of(first).answers_alike is None
    assert len(server.read) == 2 * len(set(server.read))
    assert (study.folder / "trials" / "0" / "probe.json").exists()


def test_later_launches_are_looked_at_once_and_compared(study: Study) -> None:
    study.launch(DEFAULT)
    server = PlayedServer()
    second = study.launch(of(), server)
    assert passed(second)
    assert len(server.read) == len(set(server.read))
    assert nats_of(second) == 0.0
    assert quality_of(second).answers_alike == 1.0
    found = quality_of(second).loss
    assert found is not None
    assert found.positions == len(server.read) - sum(filler(len(text)) == text for text in server.read)
    assert found.deepest_tokens > 7000
    assert found.top1 == 1.0
    assert not (study.folder / "trials" / "1" / "probe.json").exists()


def test_a_reference_that_is_not_itself_when_asked_again_allows_more(study: Study) -> None:
    class Unsteady(PlayedServer):
        def next_token(self, text: str) -> NextToken | None:
            self.off_nats = 0.01 if text in self.read else 0.0
            return super().next_token(text)

    first = study.launch(DEFAULT, Unsteady())
    assert quality_of(first).noise_floor_nats == pytest.approx(0.01, rel=0.01)
    assert quality_of(first).bound_nats == pytest.approx(0.04, rel=0.01)
    assert passed(study.launch(TENSOR, PlayedServer(off_nats=0.03)))


@pytest.mark.parametrize(
    ("spec", "plain"),
    [
        (DEFAULT, True),
        (USERS, False),
        (of(), True),
        (of(split_mode="none", cache_type_k="bf16"), True),
        (of(cache_type_k="f32", cache_type_v="f32"), True),
        (of(spec_type="none"), True),
        (TENSOR, False),
        (of(split_mode="row"), False),
        (SMALL_CACHE, False),
        (of(cache_type_v="q8_0"), False),
        (of(spec_type="ngram-mod"), False),
        (LaunchSpec(Candidate.of({**PLAIN, "GGML_CUDA_ALLREDUCE": "nccl"})), False),
        (LaunchSpec(Candidate.of({"split-mode": "layer"})), False),
    ],
)
def test_plain_is_what_changes_nothing_about_the_answers(spec: LaunchSpec, *, plain: bool) -> None:
    assert is_plain(spec) is plain


def test_what_came_before_the_reference_is_not_compared(study: Study) -> None:
    for spec in (USERS, TENSOR):
        result = study.launch(spec, PlayedServer(off_nats=1.0))
        assert passed(result)
        assert quality_of(result).loss is None
    assert passed(study.launch(of()))
    assert "nats off" in objected(study.launch(TENSOR, PlayedServer(off_nats=1.0)))


def test_without_the_engines_own_choice_a_plain_candidate_is_the_reference(study: Study) -> None:
    study.launch(of())
    assert passed(study.launch(DEFAULT))
    assert quality_of(study.launch(DEFAULT)).loss is not None


def test_a_reference_that_says_garbage_is_degraded_and_is_none(study: Study) -> None:
    said = objected(study.launch(DEFAULT, PlayedServer(says=loops)))
    assert said == "3 of 3 answers are no language: it repeats itself"
    assert not (study.folder / "trials" / "0" / "probe.json").exists()
    second = study.launch(of())
    assert passed(second)
    assert quality_of(second).loss is None
    assert (study.folder / "trials" / "1" / "probe.json").exists()


def test_garbage_is_seen_without_a_reference_too(study: Study) -> None:
    objected(study.launch(TENSOR, PlayedServer(says=loops)))


def test_a_server_that_does_not_tell_is_no_reference(study: Study) -> None:
    assert passed(study.launch(DEFAULT, PlayedServer(tells=False)))
    assert quality_of(study.launch(of())).loss is None


@pytest.mark.parametrize("kind", [kind for kind in Kind if not ended(kind).outcome.policy.measured])
def test_a_launch_that_was_not_measured_is_not_judged(study: Study, kind: Kind) -> None:
    failed = ended(kind)
    folder = TrialFolder.of(study.folder, 0)
    assert study.gate.examined(failed, folder, DEFAULT, study.gate.look(DEFAULT)) is failed
    assert passed(study.launch(DEFAULT))


# --- who is too far off


def test_tensor_mode_with_a_full_cache_passes(study: Study) -> None:
    study.launch(DEFAULT)
    result = study.launch(TENSOR, PlayedServer(off_nats=2e-3))
    assert passed(result)
    assert nats_of(result) == pytest.approx(2e-3, rel=0.01)


@pytest.mark.parametrize("spec", [TENSOR, SMALL_CACHE, of(), USERS])
def test_who_is_beyond_the_bound_is_measured_and_may_not_win(study: Study, spec: LaunchSpec) -> None:
    study.launch(DEFAULT)
    said = objected(study.launch(spec, PlayedServer(off_nats=0.02)))
    assert said == (
        "its next tokens are 0.02 nats off the plain reference's, at most 0.01 are allowed (104 places)"
    )


def test_a_fault_that_only_shows_in_a_long_context_is_found(study: Study) -> None:
    study.launch(DEFAULT)
    result = study.launch(TENSOR, PlayedServer(deep_off_nats=0.5))
    assert "0.5 nats off" in objected(result)
    found = quality_of(result).loss
    assert found is not None
    assert found.kl_nats == 0.0


@pytest.mark.parametrize("spec", [TENSOR, USERS])
def test_nonsense_may_not_win_even_where_next_tokens_are_alike(study: Study, spec: LaunchSpec) -> None:
    study.launch(DEFAULT)
    result = study.launch(spec, PlayedServer(says=loops))
    assert "are no language" in objected(result)
    assert nats_of(result) == 0.0


def test_greedy_answers_have_to_begin_alike(study: Study) -> None:
    study.launch(DEFAULT)
    result = study.launch(TENSOR, PlayedServer(says=other_words))
    assert objected(result) == "none of 3 answers begins as the reference's"
    assert quality_of(result).answers_alike == 0.0


def test_sampled_answers_may_begin_as_they_like(tmp_path: Path) -> None:
    study = Study(tmp_path, SAMPLED)
    study.launch(DEFAULT)
    result = study.launch(TENSOR, PlayedServer(says=other_words))
    assert passed(result)
    assert quality_of(result).answers_alike is None


def test_who_does_not_tell_is_judged_by_its_answers_alone(study: Study) -> None:
    study.launch(DEFAULT)
    result = study.launch(TENSOR, PlayedServer(tells=False))
    assert passed(result)
    assert quality_of(result).loss is None
    assert quality_of(result).answers_alike == 1.0
    objected(study.launch(TENSOR, PlayedServer(tells=False, says=loops)))


# --- the reference launched again


def test_the_reference_launched_again_raises_the_floor_and_thereby_the_bound(study: Study) -> None:
    study.launch(DEFAULT)
    again = study.launch(DEFAULT, PlayedServer(off_nats=0.02))
    assert passed(again)
    assert quality_of(again).noise_floor_nats == pytest.approx(0.02, rel=0.01)
    assert quality_of(again).bound_nats == pytest.approx(0.08, rel=0.01)
    assert passed(study.launch(TENSOR, PlayedServer(off_nats=0.07)))
    objected(study.launch(TENSOR, PlayedServer(off_nats=0.09)))


def test_the_floor_does_not_fall(study: Study) -> None:
    study.launch(DEFAULT)
    study.launch(DEFAULT, PlayedServer(off_nats=0.02))
    assert quality_of(study.launch(DEFAULT)).noise_floor_nats == pytest.approx(0.02, rel=0.01)


def test_another_plain_launch_raises_no_floor(study: Study) -> None:
    study.launch(DEFAULT)
    objected(study.launch(of(), PlayedServer(off_nats=0.02)))
    assert quality_of(study.launch(TENSOR)).noise_floor_nats == 0.0


@pytest.mark.parametrize("resumed", [False, True])
def test_a_reference_that_once_says_garbage_excuses_nobody(study: Study, *, resumed: bool) -> None:
    study.launch(DEFAULT)
    objected(study.launch(DEFAULT, PlayedServer(says=loops, off_nats=3.0)))
    if resumed:
        study.resume()
    objected(study.launch(TENSOR, PlayedServer(off_nats=0.02)))


# --- a study that goes on


def test_a_resumed_study_judges_the_same(study: Study) -> None:
    study.launch(DEFAULT)
    study.launch(DEFAULT, PlayedServer(off_nats=0.004))
    servers = [
        PlayedServer(off_nats=0.005),
        PlayedServer(off_nats=0.03),
        PlayedServer(says=loops),
        PlayedServer(says=other_words),
        PlayedServer(deep_off_nats=0.2),
    ]
    before = [study.launch(TENSOR, replace(server, read=[], asked=[])) for server in servers]
    study.resume()
    after = [study.launch(TENSOR, replace(server, read=[], asked=[])) for server in servers]
    for one, other in zip(before, after, strict=True):
        assert one.outcome == other.outcome
        assert quality_of(one).bound_nats == pytest.approx(quality_of(other).bound_nats)
        assert nats_of(one) == pytest.approx(nats_of(other), abs=1e-4)
    assert [one.outcome.kind for one in after] == [Kind.NONE] + [Kind.DEGRADED] * 4


def test_a_resumed_study_keeps_its_reference_and_asks_as_deep(study: Study) -> None:
    study.launch(DEFAULT, PlayedServer(slot_context=4096))
    study.resume()
    server = PlayedServer()
    result = study.launch(TENSOR, server)
    assert len(server.read) == len(set(server.read))
    found = quality_of(result).loss
    assert found is not None
    assert found.deep_kl_nats == pytest.approx(0.0, abs=1e-4)
    assert 3000 < found.deepest_tokens < 4096


def test_answers_are_compared_as_before_where_no_text_of_them_is_kept(study: Study) -> None:
    def nearly(prompt: Prompt) -> str:
        return f"The answer to {prompt.id} is a sentence of ninety words and more."

    study.launch(DEFAULT)
    before = study.launch(TENSOR, PlayedServer(says=nearly))
    for number in range(2):
        folder = TrialFolder.of(study.folder, number)
        found = folder.result()
        assert found is not None
        folder.record_result(found[0].without_text(), found[1])
    study.resume()
    after = study.launch(TENSOR, PlayedServer(says=nearly))
    assert quality_of(before).answers_alike == quality_of(after).answers_alike == pytest.approx(8 / 10)
    assert objected(study.launch(TENSOR, PlayedServer(says=other_words)))


def test_what_is_kept_of_the_references_answers_is_not_their_text(study: Study) -> None:
    result = study.launch(DEFAULT)
    kept = (study.folder / "trials" / "0" / "answers.json").read_text(encoding="utf-8")
    for sample in result.samples:
        assert sample.prompt_id in kept
        assert "sentence" in sample.text
    assert "sentence" not in kept


@pytest.mark.parametrize("name", ["probe.json", "answers.json"])
def test_a_reference_whose_file_is_lost_makes_way_for_the_next(study: Study, name: str) -> None:
    study.launch(DEFAULT)
    for text in ("", "{", "[]", '{"positions": null}'):
        (study.folder / "trials" / "0" / name).write_text(text, encoding="utf-8")
        study.resume()
        look = study.gate.look(of())
        assert look is not None
        assert look.twice
    assert quality_of(study.launch(of())).loss is None
    assert quality_of(study.launch(TENSOR)).loss is not None


def test_launches_from_before_there_was_a_gate_are_skipped(study: Study) -> None:
    study.keep(DEFAULT, lambda _folder: measured(50.0))
    study.keep(of(), lambda _folder: ended(Kind.OUT_OF_MEMORY))
    study.records.append(a_record(2, of().candidate, None))
    study.resume()
    study.records.pop()
    assert quality_of(study.launch(DEFAULT)).loss is None
    study.resume()
    assert quality_of(study.launch(of())).loss is not None


def test_a_degraded_first_launch_is_no_reference_for_a_resumed_study_either(study: Study) -> None:
    objected(study.launch(DEFAULT, PlayedServer(says=loops)))
    study.resume()
    assert quality_of(study.launch(of())).loss is None


# --- off


def test_a_gate_that_is_off_neither_looks_nor_judges(tmp_path: Path) -> None:
    study = Study(tmp_path, seconds=None)
    for spec in (DEFAULT, TENSOR):
        server = PlayedServer(says=loops, off_nats=2.0)
        assert study.gate.look(spec) is None
        result = study.launch(spec, server)
        assert result.outcome == MEASURED
        assert result.quality is None
        assert server.read == []


def test_an_untouched_result_is_the_same_object(tmp_path: Path) -> None:
    result = measured(50.0)
    gate = QualityGate(None, WORKLOAD, tmp_path)
    assert gate.examined(result, TrialFolder.of(tmp_path, 0), DEFAULT, None) is result


def test_a_look_that_was_cut_off_before_it_began_compares_no_place(study: Study) -> None:
    study.launch(DEFAULT)
    result = study.gate.examined(
        replace(measured(50.0, Kind.DEGRADED)),
        TrialFolder.of(study.folder, 9),
        TENSOR,
        study.gate.look(TENSOR),
    )
    assert result.outcome.kind is Kind.DEGRADED
    assert quality_of(result).loss is None
    assert quality_of(result).seconds == 0


# --- the largest of several files


def largest(folder: Path, server: PlayedServer | None = None) -> Probe:
    """What another study's plain reference says."""
    folder.mkdir()
    other = Study(folder)
    other.launch(DEFAULT, server)
    probe = reference_probe(other.records, folder)
    assert probe is not None
    return probe


def test_every_launch_is_compared_with_the_largest_file_too_and_judged_by_its_own_reference(
    tmp_path: Path, study: Study
) -> None:
    study.gate = QualityGate(600.0, WORKLOAD, tmp_path, largest=largest(tmp_path / "largest"))
    smaller = study.launch(DEFAULT, PlayedServer(off_nats=0.05))
    with_small_cache = study.launch(TENSOR, PlayedServer(off_nats=0.05))
    for result in (smaller, with_small_cache):
        assert passed(result)  # 0.05 nats off the largest file are what the file costs
        found = quality_of(result).to_largest
        assert found is not None
        assert found.judged_nats == pytest.approx(0.05, rel=0.01)
    assert quality_of(smaller).loss is None
    assert nats_of(with_small_cache) == 0.0


def test_it_is_asked_as_deep_as_the_largest_file_was(tmp_path: Path, study: Study) -> None:
    """However much faster or slower it reads: deep places behind another text could not be compared."""
    probe = largest(tmp_path / "largest", PlayedServer(prompt_tok_s=20.0))
    assert probe.deep_characters > 0
    study.gate = QualityGate(600.0, WORKLOAD, tmp_path, largest=probe)
    result = study.launch(DEFAULT, PlayedServer(prompt_tok_s=2000.0, deep_off_nats=0.2))
    found = quality_of(result).to_largest
    assert found is not None
    assert found.deep_kl_nats == pytest.approx(0.2, rel=0.01)
    own = reference_probe(study.records, tmp_path)
    assert own is not None
    assert own.deep_characters == probe.deep_characters


def test_without_a_reference_there_is_nothing_to_compare_with(study: Study) -> None:
    study.launch(TENSOR)
    assert reference_probe(study.records, study.folder) is None
    first = quality_of(study.launch(DEFAULT))
    assert first.to_largest is None
