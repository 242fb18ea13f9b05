"""What is launched: the references in their own words, and candidates with what they can be asked back."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.asked import Asked
from tuner.core.launch import CURRENT, ENGINE_DEFAULT, LaunchSpec
from tuner.core.slots import parallel_of, slot_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tuner.core.candidate import Candidate
    from tuner.core.options import Value
    from tuner.engine.command_line import UserFlag
    from tuner.engine.help_text import HelpText
    from tuner.engine.user_command import UserCommand


def engine_default(
    help_text: HelpText, *, context: int, parallel: int, devices: tuple[str, ...] | None
) -> LaunchSpec:
    """The engine's own choice at the same context and slots, and nothing else.

    Args:
        help_text: How this engine spells its flags.
        context: Tokens, all slots together.
        parallel: Slots.
        devices: The devices that the user has chosen; None for all that the engine sees.
    """
    wanted = {"fit": "on", "ctx-size": str(context), "parallel": str(parallel)}
    if devices is not None:
        wanted["device"] = ",".join(devices)
    spelled = {name: help_text.spelling(name) for name in wanted}
    return LaunchSpec(
        candidate=None,
        reference=ENGINE_DEFAULT,
        flags=tuple(
            word for name, flag in spelled.items() if flag is not None for word in (flag, wanted[name])
        ),
        asked=Asked(n_ctx_slot=context // parallel, n_parallel=parallel, drafts=None),
    )


def users_command(current: UserCommand, extra: tuple[UserFlag, ...]) -> LaunchSpec:
    """The user's command as it is, with those of the extra flags that it does not hold."""
    held = {flag.name or flag.tokens[0] for flag in current.flags}
    missing = [token for flag in extra if (flag.name or flag.tokens[0]) not in held for token in flag.tokens]
    return LaunchSpec(
        candidate=None,
        reference=CURRENT,
        flags=(*missing, *current.argv),
        environment=MappingProxyType(dict(current.environment)),
        takes_extra=False,
    )


def candidate_specs(context: int, n_units: int) -> Callable[[Candidate], LaunchSpec]:
    """How a candidate is launched at that context, for a model of so many units."""

    def spec(candidate: Candidate) -> LaunchSpec:
        options = candidate.options
        return LaunchSpec(
            candidate=candidate,
            asked=Asked(
                n_ctx_slot=slot_context(options, context),
                n_parallel=parallel_of(options),
                drafts=options.get("spec-type", "none") != "none",
                drafted_tokens=_always_drafts(options),
                devices=candidate.devices,
                every_layer=_at_least(options.get("gpu-layers"), n_units),
                cache_types=(str(options.get("cache-type-k")), str(options.get("cache-type-v"))),
            ),
        )

    return spec


def _always_drafts(options: Mapping[str, Value]) -> bool:
    """Whether every answer of some length has drafts: n-grams may never match, a high p-min may stop all."""
    kinds = str(options.get("spec-type", "none")).split(",")
    return any(kind.startswith("draft-") for kind in kinds) and not options.get("spec-draft-p-min")


def _at_least(value: Value | None, least: int) -> bool:
    return isinstance(value, int) and value >= least
