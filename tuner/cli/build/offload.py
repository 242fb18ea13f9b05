"""Whether what of the layers may lie in host memory is searched, and what such a run starts with."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from tuner.cli.space_files import DEFAULT_SPACE, load_space
from tuner.core.memory.host_fit import fewest_in_ram
from tuner.core.options import OVERRIDES
from tuner.core.space import InRam, widened
from tuner.engine.command_line import can_write
from tuner.errors import UsageError
from tuner.search.coordinates import complete
from tuner.search.in_ram_starts import starts_in_ram
from tuner.search.largest import most_modest
from tuner.search.memory_gate import LEAST_CHANCE

if TYPE_CHECKING:
    from collections.abc import Collection

    from tuner.cli.build.memory import MemoryKnowledge
    from tuner.core.assignment.splits import Splits
    from tuner.core.candidate import Candidate
    from tuner.core.space import SearchSpace
    from tuner.core.space_document import Cores
    from tuner.engine.probe import Engine
    from tuner.search.coordinates import BoundSpace
    from tuner.search.memory_gate import MemoryGate

SPACE = "offload"
_COSTS = "What that costs: prompts go through one card after the other, without pipeline parallelism"
#: What is left of host memory to everything else.
HOST_RESERVE_MIB = 1024


@dataclass(frozen=True, slots=True)
class Offload:
    """The space that is searched instead, and why, in sentences."""

    space: SearchSpace
    notes: tuple[str, ...]
    must: bool
    """Whether something has to lie in host memory, or is wanted there: then such candidates are tried first."""


def offload_of(
    bound: BoundSpace,
    gate: MemoryGate,
    engine: Engine,
    *,
    asked: bool,
    whole_space: SearchSpace,
    cores: Cores | None,
    user_options: Collection[str],
) -> Offload | None:
    """The space for a model that does not fit; None where it fits, or nothing of it can leave its layer.

    Args:
        bound: The space as it was asked for, on the rig.
        gate: Predicts memory.
        engine: Has to have the flags.
        asked: Whether the user wants it, whatever fits.
        whole_space: The space as it was asked for, nothing dropped.
        cores: The host's; None where they are not known.
        user_options: Options that the user's own flags set.

    Raises:
        UsageError: It is asked for and cannot be had.
    """
    if isinstance(whole_space.parameter("override-tensor"), InRam):
        return None  # it is searched anyway
    why_not = _why_not(bound.splits, engine, user_options, whole_space)
    if asked and why_not is not None:
        raise UsageError(f"--offload: {why_not}")
    if why_not is not None:
        return None
    fits = most_modest(bound, gate.predict, gate.room_mib)[1] >= LEAST_CHANCE
    if not asked and fits and (bound.splits.host_parts.is_dense or _fits_plainly(bound, gate)):
        return None
    more = load_space(SPACE, cores)
    replaces = not fits and whole_space.name == DEFAULT_SPACE
    tokens = bound.imposed.get("ctx-size")
    if asked:
        reason = "--offload"
    elif fits:
        reason = f"With {tokens:,} tokens of context the model fits on the devices barely"
    else:
        reason = f"The model does not fit on the devices with {tokens:,} tokens of context"
    what = bound.splits.host_parts.what
    return Offload(
        more if replaces else widened(whole_space, more),
        (
            f"{reason}: which layers keep their {what} in host memory is searched as well.",
            _COSTS + ("; tensor mode is not searched." if replaces else "."),
        ),
        must=asked or not fits,
    )


def _fits_plainly(bound: BoundSpace, gate: MemoryGate) -> bool:
    """Whether it fits by layers with nothing in host memory, and caches and batches as they are by default."""
    best = fewest_in_ram(
        {**complete(bound, {}).options, "device": bound.devices}, gate.predictor, bound.splits, gate.room_mib
    )
    return best is not None and not best.host_layers


def offload_starts(
    bound: BoundSpace, gate: MemoryGate, knowledge: MemoryKnowledge
) -> tuple[tuple[str, Candidate], ...]:
    """What is tried first where something has to lie in host memory."""
    proposal = None if knowledge.oracle is None else knowledge.oracle.propose(bound, gate)
    return starts_in_ram(bound, gate, proposal)


def host_room_mib(available_mib: int | None) -> float:
    """What a server may have of the host's memory; anything where nobody knows."""
    return inf if available_mib is None else float(max(available_mib - HOST_RESERVE_MIB, 0))


def _why_not(splits: Splits, engine: Engine, user_options: Collection[str], space: SearchSpace) -> str | None:
    parts = splits.host_parts
    said = next((name for name in OVERRIDES if name in user_options or name in space.fixed), None)
    if said is not None:
        return f"{said} is set already; leave it out, or search without --offload"
    if not parts.sizes:
        return "the model has neither experts nor feed-forward parts that could lie in host memory"
    needed = "n-cpu-ffn" if parts.is_dense else "override-tensor"
    if not can_write(engine.help, needed):
        return f"this llama-server has no --{needed}; a newer build has"
    return None
