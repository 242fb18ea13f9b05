"""What a retune needs, put together: the old best as it is now and as it was, and what is known of before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tuner.cli.build.assembly import make_search
from tuner.cli.build.previous import previous_side, without_rpc
from tuner.core.candidate import Candidate
from tuner.core.freshness.change import Freshness
from tuner.core.freshness.engines import new_capabilities
from tuner.core.launch import CURRENT, ENGINE_DEFAULT, LaunchSpec, trial_key
from tuner.errors import StudyError
from tuner.runs.across import plain_probe
from tuner.runs.retune_plan import Before, RetunePlan
from tuner.search.canary.arms import least_launches
from tuner.search.canary.claim import claim_of
from tuner.search.novelties import candidate_of, novelties
from tuner.search.queue import refusal
from tuner.search.strategy import RETUNED
from tuner.study import TpeSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tuner.cli.build.changed import Changed, RetuneOptions
    from tuner.cli.build.previous import Previous
    from tuner.core.quality import Probe
    from tuner.core.trial import TrialRecord
    from tuner.search.canary.claim import Claim


#: Launches a side that measure a claim at most, where they differ much.
MOST_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class RetuneAssembly:
    """Everything that a retune needs."""

    changed: Changed
    plan: RetunePlan
    previous: Previous


def assemble_retune(
    changed: Changed, options: RetuneOptions, environ: Mapping[str, str], config_home: Path
) -> RetuneAssembly:
    """The plan of a retune.

    Args:
        changed: The best.json against what there is now.
        options: As typed.
        environ: The user's environment.
        config_home: An empty folder for the engine's config files.

    Raises:
        StudyError: The old best cannot even be tried: a device of it is gone, or the model is another one.
    """
    _refuse_what_cannot_be(changed)
    tune, bound = changed.assembly.plan, changed.assembly.plan.rules.bound
    references = _claimed_first(tune.references, changed.best.document)
    spec_of = _spec_of(changed)
    own = _winner(changed, references, spec_of)
    previous = previous_side(changed, options, own.asked, environ, config_home)
    known = _records(changed)
    possible = _possible(changed, known, own)
    runner_up = _runner_up(changed)
    beside = [(why, spec_of(one)) for why, one in possible]
    if runner_up is not None:
        beside.append(("the runner-up", spec_of(runner_up)))
    plan = RetunePlan(
        rules=tune.rules,
        best=own,
        previous=previous.spec,
        references=references,
        beside=tuple(
            {spec.key: (why, spec) for why, spec in reversed(beside) if spec.key != own.key}.values()
        )[::-1],
        starts=tuple(possible),
        candidate_spec=spec_of,
        search=lambda before: make_search(
            bound,
            tune.rules.memory,
            changed.assembly.rig,
            streams=tune.rules.workload.streams,
            before=before,
            enough=RETUNED,
        ),
        before=Before(
            scores=MappingProxyType(_scores(changed, own.key)),
            records=tuple(known),
            plain=_plain(changed),
        ),
        renews=_renews(changed, own),
        launches=options.launches,
        seconds=options.seconds,
        blocks=options.blocks,
        worthwhile=tune.worthwhile,
        seed=tune.seed,
        quality_s=tune.quality_s,
        same_answers=_is_same_model(changed),
        refused="; ".join(changed.lost),
    )
    least = least_launches(plan.arms)
    if options.launches < least:
        raise StudyError(f"--launches {options.launches}: at least {least} are needed to compare anything")
    return RetuneAssembly(changed, plan, previous)


def assemble_measure(changed: Changed, options: RetuneOptions, claim: Claim) -> RetunePlan:
    """The plan of measuring a claim: the winner and the reference, and nothing beside them.

    Args:
        changed: The best.json against what there is now.
        options: As typed.
        claim: What is to be known.

    Raises:
        StudyError: There is nothing to measure.
    """
    _refuse_what_cannot_be(changed)
    tune = changed.assembly.plan
    references = _claimed_first(tune.references, changed.best.document)[:1]
    own = _winner(changed, references, _spec_of(changed))
    blocks = max(options.blocks, MOST_BLOCKS)
    return RetunePlan(
        rules=tune.rules,
        best=own,
        previous=None,
        references=references,
        beside=(),
        starts=(),
        candidate_spec=tune.candidate_spec,
        search=lambda _before: tune.search,
        before=Before(MappingProxyType(_scores(changed, own.key))),
        renews=False,
        launches=2 * blocks + 1,
        seconds=options.seconds,
        blocks=blocks,
        worthwhile=tune.worthwhile,
        seed=tune.seed,
        quality_s=tune.quality_s,
        claim=claim,
        refused="; ".join(changed.lost),
    )


def _refuse_what_cannot_be(changed: Changed) -> None:
    for change in changed.changes:
        gone = change.part == "devices" and change.what.endswith(" is gone")
        if change.state is Freshness.STALE and (change.part in {"model", "objective", "context"} or gone):
            raise StudyError(
                f"{changed.best.path}: {change.part}: {change.what}; tune again, with tuner tune"
            )


def _claimed_first(references: Sequence[LaunchSpec], best: Mapping[str, Any]) -> tuple[LaunchSpec, ...]:
    """The references, that of the claim first."""
    claim = claim_of(best)
    name = ENGINE_DEFAULT if claim is None else claim.reference
    return tuple(sorted(references, key=lambda spec: spec.reference != name))


def _winner(
    changed: Changed, references: Sequence[LaunchSpec], spec_of: Callable[[Candidate], LaunchSpec]
) -> LaunchSpec:
    """What was best, as it is launched now."""
    winner = changed.best.document["winner"]
    if winner["reference"] is None:
        then = Candidate.from_json(winner["parameters"])
        candidate = changed.as_now(then)
        if candidate is None and changed.lost:
            return spec_of(then)  # it is not launched, but named
        if candidate is None:
            raise StudyError(
                f"{changed.best.path}: a device of the winner is gone; tune again, with tuner tune"
            )
        return spec_of(candidate)
    for spec in references:
        if spec.reference == winner["reference"]:
            return spec
    raise StudyError(
        f"{changed.best.path}: its winner, {winner['reference']}, cannot be launched again; tune again"
    )


def _spec_of(changed: Changed) -> Callable[[Candidate], LaunchSpec]:
    """How a candidate is launched: with what has to be said now for a default of then to hold."""
    pins, plain = changed.pins, changed.assembly.plan.candidate_spec
    return lambda candidate: replace(plain(candidate), flags=pins)


def _runner_up(changed: Changed) -> Candidate | None:
    row = changed.best.document.get("runner_up")
    return None if not row else changed.as_now(Candidate.from_json(row["parameters"]))


def _records(changed: Changed) -> list[TrialRecord]:
    """The trials of before, as they are written now; none where the study is gone."""
    store = changed.best.store()
    found = []
    for record in [] if store is None else store.records():
        if record.candidate is None:
            found.append(record)
        elif (candidate := changed.as_now(record.candidate)) is not None:
            found.append(replace(record, candidate=candidate))
    return found


def _possible(
    changed: Changed, records: Sequence[TrialRecord], own: LaunchSpec
) -> list[tuple[str, Candidate]]:
    """What has become possible, with a word on why; nothing where the engine is the same."""
    then, now = changed.best.document["engine"], changed.assembly.facts["engine"]
    if then["digest"] == now["digest"] or own.candidate is None:
        return []
    tune, best = changed.assembly.plan, own.candidate
    bound, memory = tune.rules.bound, tune.rules.memory
    new = new_capabilities(then["capabilities"], now["capabilities"]) if then.get("capabilities") else {}
    search = make_search(
        bound,
        memory,
        changed.assembly.rig,
        streams=tune.rules.workload.streams,
        before=[record for record in records if record.candidate is not None and record.may_win],
    )

    def propose(refuses: Callable[[Candidate], bool]) -> Candidate | None:
        found = search.propose(
            (),
            lambda one: refuses(one) or refusal(bound, one, ()) is not None,
            lambda one: memory.excess(one) is not None,
            lambda: TpeSampler([], seed=tune.seed),
        )
        return None if found is None else found.candidate

    rows = []
    for novelty in novelties(bound, new, records):
        candidate = candidate_of(novelty, bound, best, propose)
        if candidate is not None and candidate != best:
            rows.append((novelty.why, candidate))
    return list({candidate.key(): (why, candidate) for why, candidate in reversed(rows)}.values())[::-1]


def _scores(changed: Changed, own: str) -> dict[str, tuple[float, ...]]:
    """What each launch made that compared them, by the keys of now."""
    best = changed.best.document
    confirmation = best.get("confirmation") or {}
    found: dict[str, tuple[float, ...]] = {}
    if best["winner"].get("score_tok_s"):
        found[own] = (best["winner"]["score_tok_s"],)
    for row in best["references"]:
        if row.get("score_tok_s"):
            found.setdefault(trial_key(None, row["name"]), (row["score_tok_s"],))
    for row in confirmation.get("leaders", ()):
        candidate = changed.as_now(Candidate.from_json(row["parameters"])) if row["parameters"] else None
        if candidate is not None and row.get("scores_tok_s"):
            found[candidate.key()] = tuple(row["scores_tok_s"])
    for row in confirmation.get("references", ()):
        if row["name"] in {ENGINE_DEFAULT, CURRENT} and row.get("scores_tok_s"):
            found[trial_key(None, row["name"])] = tuple(row["scores_tok_s"])
    return found


def _is_same_model(changed: Changed) -> bool:
    then, now = changed.best.document["model"], changed.assembly.facts["model"]
    return bool(then["fingerprint"] == now["fingerprint"])


def _plain(changed: Changed) -> Probe | None:
    """What the engine's own choice said with the same model; None where nobody knows."""
    store = changed.best.store()
    if not _is_same_model(changed) or store is None or changed.best.study is None:
        return None
    return plain_probe(changed.best.study, store.records())


def _renews(changed: Changed, own: LaunchSpec) -> bool:
    """Whether the old file does not serve any more: another command, more that is possible, another model."""
    best, facts = changed.best.document, changed.assembly.facts
    words = changed.assembly.launcher.portable_argv(own)
    return (
        best["engine"].get("capabilities") != facts["engine"]["capabilities"]
        or not _is_same_model(changed)
        or without_rpc(words[3:]) != without_rpc(best["winner"]["argv"][3:])
    )
