"""Slots: how many requests a server serves at once, and what each of them holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.options import Value


def parallel_of(options: Mapping[str, Value]) -> int:
    """Slots."""
    value = options.get("parallel", 1)
    return value if isinstance(value, int) else 1


def slot_context(options: Mapping[str, Value], context: int) -> int:
    """Tokens that one slot has: all of them where the cache is unified."""
    return context if options.get("kv-unified") is True else context // max(parallel_of(options), 1)
