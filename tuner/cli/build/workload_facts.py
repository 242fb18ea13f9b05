"""What a study's readers are told of its workload, and what makes two workloads the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.cli.build.prompts import prompt_facts
from tuner.core.identity import digest_of
from tuner.core.objective import GENERATION, Objective
from tuner.engine.client import stated

if TYPE_CHECKING:
    from tuner.core.workload import Workload


def workload_facts(workload: Workload) -> dict[str, Any]:
    """What best.json says of it, in plain JSON; never what prompts say."""
    return {
        "prompts": workload.prompt_set.name,
        "prompt_set": prompt_facts(workload.prompt_set),
        "digest": digest_of(workload_key(workload)),
        "requests": workload.n_requests,
        "max_tokens": workload.max_tokens,
        "seed": workload.seed,
        "thinking": workload.thinking.value,
        "sampling": stated(workload.sampling),
        "sampling_source": workload.sampling.source,
        "goal": workload.goal.to_json(),
        "streams": workload.streams,
        "session": None
        if workload.session is None
        else {
            "agents": len(workload.session.rounds[0]),
            "digest": workload.session.digest,
            "longest_tokens": workload.session.longest_tokens,
        },
    }


def workload_key(workload: Workload) -> list[Any]:
    """Everything that has to be equal for two rates to be comparable."""
    key: list[Any] = [
        workload.prompt_set.digest,
        [prompt.id for prompt in workload.prompt_set.prompts],
        workload.max_tokens,
        sorted(stated(workload.sampling).items()),
        workload.thinking.value,
        workload.seed,
    ]
    if workload.goal != GENERATION or workload.streams > 1:  # studies of before had no goal, and go on
        key += [workload.goal.to_json(), workload.streams]
    if workload.session is not None:
        key.append(workload.session.digest)
    return key


def workload_label(workload: Workload) -> str:
    """One line for people."""
    sampling = ", ".join(f"{name} {value}" for name, value in workload.sampling.values.items()) or "greedy"
    return f"{asked_label(workload)}, {sampling}{goal_label(workload)}"


def asked_label(workload: Workload) -> str:
    """What is asked."""
    asked = f"{len(workload.prompt_set.prompts)} prompts of {workload.prompt_set.name}"
    if workload.session is not None:
        agents = len(workload.session.rounds[0])
        asked = f"a session of {agents} agent{'' if agents == 1 else 's'}, {workload.n_requests} requests"
    return f"{asked}, {workload.max_tokens} tokens each"


def goal_label(workload: Workload) -> str:
    """What is made the most of, where that is not generation alone."""
    goal, said = workload.goal, []
    if goal.objective is not Objective.GENERATION:
        many = f" of {workload.streams} at once" if workload.streams > 1 else ""
        said.append(f"for {goal.objective}{many}")
    if goal.weights:
        said.append("weights " + ", ".join(f"{name}={weight:g}" for name, weight in goal.weights.items()))
    if goal.first_token is not None:
        said.append(f"first token within {goal.first_token}")
    return "".join(f"; {one}" for one in said)
