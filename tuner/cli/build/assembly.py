"""Everything that a run needs, checked and put together."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from tuner.cli.build.devices import build_rig, free_reader
from tuner.cli.build.facts import build_facts, build_identity
from tuner.cli.build.imposed import beyond_training, imposed_options
from tuner.cli.build.launches import (
    candidate_specs,
    engine_default,
    users_command,
)
from tuner.cli.build.memory import build_knowledge
from tuner.cli.build.offload import host_room_mib, offload_of, offload_starts
from tuner.cli.build.recorded import recorded
from tuner.cli.build.telling import refuse_telling
from tuner.cli.build.workload import build_workload
from tuner.cli.option_values import by_device
from tuner.cli.space_files import load_space
from tuner.core.assignment.splits import Splits
from tuner.core.cards import decode_bandwidth
from tuner.core.reserve import default_reserve_mib
from tuner.core.restriction import Abilities, restrict
from tuner.core.slots import parallel_of, slot_context
from tuner.core.space import InRam, broken_rule
from tuner.engine.command_line import can_take, can_write
from tuner.engine.device_watch import DeviceWatch
from tuner.engine.environment import noted, server_environment
from tuner.engine.gguf import read_model
from tuner.engine.launcher import Launcher
from tuner.engine.probe import probe
from tuner.engine.user_command import (
    parse_command,
    parse_extra,
)
from tuner.errors import EngineError, SpaceError
from tuner.rig.host_facts import available_memory_mib, host_cores
from tuner.rig.kernel_oom import OomCounter
from tuner.runs.budget import Budget
from tuner.runs.launching import LaunchRules
from tuner.runs.proving import Proof
from tuner.runs.tune import TunePlan
from tuner.runs.works.soaking import GAPS_S
from tuner.search.coordinates import BoundSpace, complete
from tuner.search.memory_gate import MemoryGate
from tuner.search.queue import propose
from tuner.search.starts import starting_candidates
from tuner.search.strategy import Search
from tuner.search.ways_out import ways_out
from tuner.study import TpeSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tuner.cli.build.options import TuneOptions
    from tuner.core.candidate import Candidate
    from tuner.core.cards import Bandwidth
    from tuner.core.identity import StudyIdentity
    from tuner.core.model import ModelFile
    from tuner.core.rig import Rig
    from tuner.core.trial import TrialRecord
    from tuner.engine.command_line import UserFlag
    from tuner.engine.probe import Engine
    from tuner.rig.memory_facts import MemoryFacts
    from tuner.search.strategy import Enough


@dataclass(frozen=True, slots=True)
class Assembly:
    """Everything that a run needs."""

    engine: Engine
    model: ModelFile
    rig: Rig
    launcher: Launcher
    plan: TunePlan
    identity: StudyIdentity
    facts: Mapping[str, Any]
    study_folder: Path
    context: int
    memory_facts: MemoryFacts
    """Where what launches teach about the rig's memory is kept."""
    notes: tuple[str, ...]
    """What was dropped or decided, a sentence each."""


def assemble(
    options: TuneOptions,
    environ: Mapping[str, str],
    config_home: Path,
    *,
    created: str,
    rig: Rig | None = None,
    before: Sequence[TrialRecord] = (),
    starts: Sequence[tuple[str, Candidate]] = (),
    rates: Mapping[str, Bandwidth] = MappingProxyType({}),
    by_class: bool = False,
) -> Assembly:
    """Check every option, ask the engine and the driver, cut the space to what is possible.

    Args:
        options: As typed.
        environ: The user's environment.
        config_home: An empty folder for the servers.
        created: The date for a new study, ISO 8601.
        rig: The devices as they were seen before; None to look at them.
        before: Trials at other contexts, as if they had been made at this one.
        starts: What to try before the space's own starting candidates, with a word on why.
        rates: What devices are known to reach with this engine, by name.
        by_class: Whether like devices of other machines are the same to the study.

    Raises:
        TunerError: The first thing that makes the run impossible.
    """
    options.check()
    notes: list[str] = []
    space = load_space(options.space, host_cores())
    model = read_model(options.model)
    draft = None if options.draft_model is None else read_model(options.draft_model)
    environment = server_environment(environ, config_home, allow_p2p=options.allow_p2p)
    engine = probe(_server_path(options.server), environment)
    extra = parse_extra(engine.help, list(options.flags))
    current = None if options.current is None else parse_command(engine.help, options.current)
    if current is not None:
        notes += [
            f"--current: {flag} is left out: the tuner sets its own, or it is a secret"
            for flag in current.left_out
        ]
    if rig is None:
        rig = build_rig(options, engine, environment, _value_of(extra, "rpc"))
    imposed = imposed_options(options, extra, current, space, model)
    context = cast("int", imposed["ctx-size"])
    splits = Splits(model)
    notes += beyond_training(context, extra, model)
    abilities = _abilities(options, engine, model, rig, extra)
    left, dropped = restrict(space, abilities)
    if space.parameter("ctx-size") is not None:
        notes.append(f"ctx-size: not searched, every candidate has {context:,} tokens; see --context")
    bound = BoundSpace(left, rig.names, splits, MappingProxyType(imposed))
    reserve = {device.name: default_reserve_mib(device) for device in rig.devices}
    if options.reserve is not None:
        reserve |= by_device("--reserve", options.reserve, rig.names)
    knowledge = build_knowledge(
        engine,
        splits,
        rig,
        draft=None if draft is None else Splits(draft),
        flags=extra,
        environment=environment,
        facts_folder=options.facts,
    )
    memory = MemoryGate(
        knowledge.predictor,
        rig.devices,
        reserve_mib=reserve,
        source=knowledge.source,
        oracle=knowledge.oracle,
        host_room_mib=host_room_mib(available_memory_mib()),
    )
    memory.learn(())
    offload = offload_of(
        bound,
        memory,
        engine,
        asked=options.offload,
        whole_space=space,
        cores=host_cores(),
        user_options=abilities.user_options,
    )
    if offload is not None:
        space, notes = offload.space, [*notes, *offload.notes]
        left, dropped = restrict(space, abilities)
        bound = replace(bound, space=left)
    in_ram = isinstance(left.parameter("override-tensor"), InRam)
    starts_in_ram = in_ram and (offload is None or offload.must)
    notes += dropped
    settled = {**left.fixed, **imposed}
    workload = build_workload(
        options,
        current,
        model,
        n_ctx_slot=slot_context(settled, context),
        n_slots=parallel_of(settled),
        note=notes.append,
    )
    if workload.session is not None:
        bound = replace(bound, least_slot_context=workload.session.needed_tokens(options.max_tokens))
    refuse_telling(options, workload, extra, current)
    default = engine_default(
        engine.help,
        context=context,
        parallel=parallel_of(settled),
        devices=rig.names if options.devices is not None else None,
    )
    name = options.study_folder.name
    notes += ways_out(bound, memory.predictor, memory.room_mib)
    return Assembly(
        engine=engine,
        model=model,
        rig=rig,
        launcher=Launcher(
            engine=engine,
            model=model,
            watch=DeviceWatch(rig, free_reader(rig), kernel_watch),
            environment=MappingProxyType(environment),
            extra_flags=tuple(token for flag in extra for token in flag.tokens),
            extra_names=frozenset(flag.name for flag in extra if flag.name is not None),
        ),
        plan=TunePlan(
            rules=LaunchRules(
                bound=bound,
                workload=workload,
                devices=rig.devices,
                reserve_mib=MappingProxyType(reserve),
                memory=memory,
                noted_environment=MappingProxyType(noted(environment)),
                keep_text=options.keep_text,
            ),
            references=(default,) if current is None else (users_command(current, extra), default),
            starts=(
                *starts,
                *(offload_starts(bound, memory, knowledge) if starts_in_ram else ()),
                *_starts(bound, rig, options.seed),
            ),
            candidate_spec=candidate_specs(context, model.n_units),
            budget=Budget(options.budget_s, options.launches),
            search=make_search(bound, memory, rig, streams=workload.streams, before=before, rates=rates),
            worthwhile=options.worthwhile,
            seed=options.seed,
            quality_s=options.quality_s,
            proof=Proof(
                confirm_blocks=options.confirm_blocks,
                soak=options.soak,
                endure_s=options.endure_s,
                gaps_s=GAPS_S,
            ),
        ),
        identity=build_identity(
            engine,
            model,
            rig,
            bound=bound,
            workload=workload,
            extra=extra,
            draft_fingerprint=None if draft is None else draft.fingerprint,
            by_class=by_class,
        ),
        facts=MappingProxyType(
            build_facts(
                engine,
                model,
                rig,
                study={
                    "name": name,
                    "space": space.name,
                    "seed": options.seed,
                    "created": created,
                    "options": recorded(options, current),
                },
                workload=workload,
                context=context,
                reserve_mib=reserve,
            )
        ),
        study_folder=options.study_folder,
        context=context,
        memory_facts=knowledge.facts,
        notes=tuple(notes),
    )


def make_search(
    bound: BoundSpace,
    memory: MemoryGate,
    rig: Rig,
    *,
    streams: int,
    before: Sequence[TrialRecord] = (),
    enough: Enough | None = None,
    rates: Mapping[str, Bandwidth] = MappingProxyType({}),
) -> Search:
    """The search of a study; see `Search`."""
    return Search(
        bound,
        memory,
        bandwidths={
            device.name: rates.get(device.name) or decode_bandwidth(device.description)
            for device in rig.devices
        },
        streams=streams,
        before=before,
        enough=enough,
    )


def _starts(bound: BoundSpace, rig: Rig, seed: int) -> tuple[tuple[str, Candidate], ...]:
    """What to try first; where a space has nothing to begin with, it has to have something to propose."""
    starts = tuple(starting_candidates(bound, rig.devices))
    if not starts:
        found = propose(
            TpeSampler([], seed=seed), bound, lambda one: broken_rule(bound.space, one.options) is not None
        )
        if found is None:
            rule = broken_rule(bound.space, complete(bound, {}).options)
            raise SpaceError(
                f"{bound.space.name}: no combination of its values was found that keeps its rules "
                f"(the defaults break {rule}); relax a rule or add values"
            )
    return starts


def kernel_watch() -> Callable[[], bool | None]:
    """Says, when it is asked, whether the kernel has ended a process for lack of memory since this call."""
    before = OomCounter.read()
    return lambda: OomCounter.read().killed_since(before)


def _server_path(given: Path | None) -> Path:
    if given is not None:
        return given
    found = shutil.which("llama-server")
    if found is None:
        raise EngineError("no llama-server on the PATH; give its path: --server /path/to/llama-server")
    return Path(found)


def _abilities(
    options: TuneOptions, engine: Engine, model: ModelFile, rig: Rig, extra: tuple[UserFlag, ...]
) -> Abilities:
    return Abilities(
        can_write=lambda name: can_write(engine.help, name),
        can_take=lambda name, value: can_take(engine.help, name, value),
        architecture=model.architecture,
        allows_tensor_split=model.allows_tensor_split,
        has_mtp_layers=model.n_mtp_layers > 0,
        has_draft_model=options.draft_model is not None or _value_of(extra, "spec-draft-model") is not None,
        device_names=rig.names,
        user_options=frozenset(flag.name for flag in extra if flag.name is not None),
        allow_p2p=options.allow_p2p,
        least_kv=options.min_kv,
    )


def _value_of(flags: tuple[UserFlag, ...], name: str) -> str | None:
    return next((flag.value for flag in reversed(flags) if flag.name == name), None)
