"""What the command line and the rule say about keeping prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.fake_llama.arguments import Arguments
    from tests.support.fake_llama.plan import Plan
    from tests.support.fake_llama.rules import Behaviour

_RAM_MIB = 8192
_SIMILARITY = 0.1
_CHECKPOINTS = 32


@dataclass(frozen=True, slots=True)
class Caching:
    """How slots are chosen by what they hold, and what becomes of that."""

    by_default: bool
    """Whether requests that do not say so use what a slot holds."""
    similarity: float
    """A slot is chosen for its prompt if more than this part of the request is the same; 0 for never."""
    ram_mib: int
    """For displaced prompts: 0 for none, negative for no limit."""
    token_mib: float
    saves_idle: bool
    """Whether a request that begins has the idle slots saved as well."""
    clears_idle: bool
    """And cleared, to leave the shared context to it."""
    hybrid: bool
    checkpoints: int


def read_caching(arguments: Arguments, plan: Plan, told: Behaviour) -> Caching:
    ram_mib = arguments.integer("cache-ram", _RAM_MIB)
    saves_idle = ram_mib != 0 and arguments.is_on("cache-idle-slots", default=True)
    return Caching(
        by_default=arguments.is_on("cache-prompt", default=True),
        similarity=arguments.number("slot-prompt-similarity", _SIMILARITY),
        ram_mib=ram_mib,
        token_mib=plan.kv_mib / plan.n_ctx_total,
        saves_idle=saves_idle,
        clears_idle=saves_idle and plan.unified,
        hybrid=told.hybrid,
        checkpoints=arguments.integer("ctx-checkpoints", _CHECKPOINTS) if told.hybrid else 0,
    )
