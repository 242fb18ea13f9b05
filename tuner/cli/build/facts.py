"""What a study is made with: its identity, and the facts that its readers need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.cli.build.prompts import prompt_facts
from tuner.core.identity import Part, StudyIdentity, digest_of
from tuner.core.objective import GENERATION, Objective
from tuner.engine.client import stated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.model import ModelFile
    from tuner.core.rig import Rig
    from tuner.core.workload import Workload
    from tuner.engine.command_line import UserFlag
    from tuner.engine.probe import Engine
    from tuner.search.coordinates import BoundSpace


def build_identity(
    engine: Engine,
    model: ModelFile,
    rig: Rig,
    *,
    bound: BoundSpace,
    workload: Workload,
    extra: tuple[UserFlag, ...],
    draft_fingerprint: str | None,
) -> StudyIdentity:
    """Everything that has to be equal for a study to go on. Ports of RPC servers are no part of it."""
    space = bound.space
    flags = [flag.tokens for flag in extra if flag.name != "rpc"]
    devices = [(d.identity, d.total_mib if d.stated else None) for d in rig.devices]
    imposed = {name: value for name, value in bound.imposed.items() if name != "spec-draft-model"}
    return StudyIdentity(
        {
            "model": Part(model.fingerprint, f"{model.name} ({model.size_bytes / 2**30:.1f} GiB)"),
            "engine": Part(engine.digest, f"{engine.version}, {engine.digest[:12]}"),
            "devices": Part(digest_of(devices), ", ".join(f"{d.name} {d.description}" for d in rig.devices)),
            "space": Part(
                digest_of(
                    [repr(space.parameters), repr(space.rules), repr(space.caps), dict(space.fixed), imposed]
                ),
                f"{space.name} at {bound.imposed['ctx-size']:,} tokens",
            ),
            "workload": Part(digest_of(_workload_key(workload)), _workload_label(workload)),
            "flags": Part(
                digest_of([flags, draft_fingerprint]), " ".join(" ".join(f) for f in flags) or "none"
            ),
        }
    )


def build_facts(
    engine: Engine,
    model: ModelFile,
    rig: Rig,
    *,
    study: Mapping[str, Any],
    workload: Workload,
    context: int,
) -> dict[str, Any]:
    """What best.json says beside the trials, in plain JSON."""
    return {
        "study": dict(study),
        "engine": {"path": str(engine.path), "digest": engine.digest, "version": engine.version},
        "devices": [
            {
                "name": device.name,
                "description": device.description,
                "total_mib": device.total_mib,
                "uuid": device.uuid,
                "bus_id": device.bus_id,
                "memory_stated": device.stated,
            }
            for device in rig.devices
        ],
        "model": {
            "path": model.path,
            "name": model.name,
            "architecture": model.architecture,
            "size_bytes": model.size_bytes,
            "fingerprint": model.fingerprint,
        },
        "workload": {
            "prompts": workload.prompt_set.name,
            "prompt_set": prompt_facts(workload.prompt_set),
            "digest": digest_of(_workload_key(workload)),
            "requests": workload.n_requests,
            "max_tokens": workload.max_tokens,
            "ctx_size": context,
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
        },
    }


def _workload_key(workload: Workload) -> list[Any]:
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


def _workload_label(workload: Workload) -> str:
    prompts = workload.prompt_set
    sampling = ", ".join(f"{name} {value}" for name, value in workload.sampling.values.items()) or "greedy"
    asked = f"{len(prompts.prompts)} prompts of {prompts.name}"
    if workload.session is not None:
        agents = len(workload.session.rounds[0])
        asked = f"a session of {agents} agent{'' if agents == 1 else 's'}, {workload.n_requests} requests"
    return f"{asked}, {workload.max_tokens} tokens each, {sampling}{_goal_label(workload)}"


def _goal_label(workload: Workload) -> str:
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
