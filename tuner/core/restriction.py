"""A search space cut down to what this engine, this model and this rig can do; what goes is said."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.candidate import format_value
from tuner.core.experts import CPU, ExpertRun
from tuner.core.options import (
    KV_BITS,
    NEEDS_DRAFT_MODEL,
    OPTIONS,
    OVERRIDES,
    Value,
    is_environment,
    is_foreign,
)
from tuner.core.space import Cap, Choice, Condition, InRam, Parameter, SearchSpace, Split, Start
from tuner.errors import SpaceError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PEER_ACCESS = "GGML_CUDA_P2P"


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the engine, the model and the rig can do, and what the user has decided."""

    can_write: Callable[[str], bool]
    """Whether the engine has a flag for an option."""
    can_take: Callable[[str, str], bool]
    """Whether the engine takes a value for an option, as far as its help says."""
    architecture: str
    allows_tensor_split: bool
    has_mtp_layers: bool
    has_draft_model: bool
    device_names: tuple[str, ...]
    user_options: frozenset[str]
    """Options that the user's own flags set on every launch."""
    allow_p2p: bool
    least_kv: str = "q4_0"
    """The smallest type that the KV cache may have."""

    @property
    def has_cuda(self) -> bool:
        """Whether any device is an NVIDIA card."""
        return any(name.startswith("CUDA") for name in self.device_names)


def restrict(space: SearchSpace, abilities: Abilities) -> tuple[SearchSpace, tuple[str, ...]]:
    """Drop what cannot be or was decided by the user.

    Returns:
        The space that is left, and a sentence for each thing dropped.

    Raises:
        SpaceError: No value of a parameter is left, a fixed one cannot be had, or peer access was not given.
    """
    notes: list[str] = []
    _check_peer_access(space, abilities)
    fixed: dict[str, Value] = {}
    for name, value in space.fixed.items():
        why = _no_option(name, abilities)
        needed = (
            name in OVERRIDES and name not in abilities.user_options
        )  # without it all is asked of the cards
        if (why is None or needed) and (why := why or _no_value(name, value, abilities)) is not None:
            raise SpaceError(f"{space.name}: fixed.{name}: {format_value(name, value)} cannot be had: {why}")
        if why is None:
            fixed[name] = value
        else:
            notes.append(f"{name}: left out, {why}")
    parameters: list[Parameter] = []
    for parameter in space.parameters:
        why = _no_option(parameter.name, abilities)
        if isinstance(parameter, InRam) and set(OVERRIDES) & abilities.user_options:
            why = "your own flags set it"
        if why is None and isinstance(parameter, Split) and len(abilities.device_names) < 2:
            why = "there is one device"
        if why is not None:
            notes.append(f"{parameter.name}: not searched, {why}")
            continue
        parameters.append(
            _fewer_choices(space, parameter, abilities, notes) if isinstance(parameter, Choice) else parameter
        )
    parameters = [p for p in parameters if _can_hold(p.when, parameters, fixed)]
    left = replace(space, fixed=MappingProxyType(fixed), parameters=tuple(parameters))
    starts = tuple(
        adapted for start in space.starts if (adapted := _adapted(start, left, abilities, notes)) is not None
    )
    rules = tuple(rule for rule in space.rules if rule.left not in abilities.user_options)
    caps = tuple(cap for cap in space.caps if _counts(cap, left))
    return replace(left, starts=starts, rules=rules, caps=caps), tuple(notes)


def _check_peer_access(space: SearchSpace, abilities: Abilities) -> None:
    uses = (
        _PEER_ACCESS in space.fixed
        or space.parameter(_PEER_ACCESS) is not None
        or any(_PEER_ACCESS in start.options for start in space.starts)
    )
    if uses and not abilities.allow_p2p:
        raise SpaceError(
            f"{space.name}: {_PEER_ACCESS}: peer access between cards can hang the machine or corrupt what "
            "it computes; add --allow-p2p if that is what you want to try"
        )


def _no_option(name: str, abilities: Abilities) -> str | None:
    """Why an option is out of the question; None where it is not."""
    if name.removeprefix("--") in abilities.user_options:
        return "your own flags set it"
    if is_environment(name):
        needs_cuda = name.startswith(("GGML_CUDA", "CUDA_", "NCCL_"))
        return "there is no CUDA device" if needs_cuda and not abilities.has_cuda else None
    if not abilities.can_write(name):
        return "this llama-server has no such flag"
    return None


def _no_value(name: str, value: Value, abilities: Abilities) -> str | None:
    """Why a value cannot be had; None where it can."""
    against = {
        "split-mode": _no_split_mode,
        "spec-type": _no_spec_type,
        "cache-type-k": _no_kv_type,
        "cache-type-v": _no_kv_type,
        "override-tensor": _no_place,
    }
    why = against.get(name, _nothing_against)(value, abilities)
    if why is not None:
        return why
    if name == "spec-draft-device" and value not in abilities.device_names:
        return "there is no such device"
    if (
        (name in OPTIONS or is_foreign(name))
        and isinstance(value, str)
        and not abilities.can_take(name, value)
    ):
        return "this llama-server's help does not list it"
    return None


def _no_split_mode(value: Value, abilities: Abilities) -> str | None:
    if value == "tensor" and not abilities.allows_tensor_split:
        return f"llama.cpp does not split the architecture {abilities.architecture} by tensor"
    if value != "none" and len(abilities.device_names) < 2:
        return "there is one device"
    return None


def _no_spec_type(value: Value, abilities: Abilities) -> str | None:
    for part in str(value).split(","):
        if part == "draft-mtp" and not abilities.has_mtp_layers:
            return "the model has no MTP layers"
        if part in NEEDS_DRAFT_MODEL and not abilities.has_draft_model:
            return "no draft model was given (--draft-model)"
    return None


def _no_kv_type(value: Value, abilities: Abilities) -> str | None:
    if KV_BITS.get(str(value), KV_BITS["f32"]) >= KV_BITS[abilities.least_kv]:
        return None
    return f"it is below --min-kv {abilities.least_kv}: what it costs the answers has to be wanted"


def _no_place(value: Value, abilities: Abilities) -> str | None:
    runs = [ExpertRun.read(entry) for entry in _names(value)]
    places = {run.place for run in runs if run is not None} - {CPU}
    return None if places <= set(abilities.device_names) else "it names other devices"


def _nothing_against(_value: Value, _abilities: Abilities) -> str | None:
    return None


def _fewer_choices(space: SearchSpace, parameter: Choice, abilities: Abilities, notes: list[str]) -> Choice:
    kept: list[Value] = []
    reasons: list[str] = []
    for choice in parameter.choices:
        why = _no_value(parameter.name, choice, abilities)
        if why is None:
            kept.append(choice)
        else:
            reasons.append(f"{parameter.name} {format_value(parameter.name, choice)}: dropped, {why}")
    if not kept:
        raise SpaceError(
            f"{space.name}: parameters.{parameter.name}: no value is left ({'; '.join(reasons)})"
        )
    notes.extend(reasons)
    default = parameter.default if parameter.default in kept else kept[0]
    return replace(parameter, choices=tuple(kept), default=default)


def _can_hold(condition: Condition, parameters: list[Parameter], fixed: Mapping[str, Value]) -> bool:
    """Whether a condition can still come true with what is left."""
    by_name = {parameter.name: parameter for parameter in parameters}
    for name, allowed in condition:
        parameter = by_name.get(name)
        if isinstance(parameter, Choice) and not set(parameter.choices) & set(allowed):
            return False
        if parameter is None and name in fixed and fixed[name] not in allowed:
            return False
    return True


def _adapted(start: Start, space: SearchSpace, abilities: Abilities, notes: list[str]) -> Start | None:
    """A starting candidate without what cannot be had; None where its split does not suit the rig."""
    what = start.about or "a starting candidate"
    options: dict[str, Value] = {}
    for name, value in start.options.items():
        why = _no_option(name, abilities) or _no_value(name, value, abilities)
        if why is None and name == "device" and not set(_names(value)) <= set(abilities.device_names):
            why = "it names other devices"
        if why is None and name == "tensor-split" and "device" not in start.options:
            n_parts = len(value) if isinstance(value, tuple) else 0
            if n_parts != len(abilities.device_names):
                notes.append(f"{what}: not tried, it splits over {n_parts} devices")
                return None
        if why is None:
            options[name] = value
        elif name == "split-mode" or name in OVERRIDES:
            notes.append(f"{what}: not tried, {why}")
            return None
        elif space.parameter(name) is not None:
            notes.append(f"{what}: tried without {name} {format_value(name, value)}, {why}")
    return Start(start.about, MappingProxyType(options)) if options else None


def _counts(cap: Cap, space: SearchSpace) -> bool:
    return _can_hold(cap.when, list(space.parameters), space.fixed)


def _names(value: Value) -> tuple[str, ...]:
    return tuple(str(part) for part in value) if isinstance(value, tuple) else (str(value),)
