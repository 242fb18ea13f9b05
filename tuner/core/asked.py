"""Whether a running server is what was asked for; if not, it measured something else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.core.outcome import Kind, Outcome, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.measurement import Sample

#: The server's own generation time may be this much shorter than ours; beyond it one of the clocks is wrong.
CLOCK_TOLERANCE = 0.5
CLOCK_SLACK_S = 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """What a launch was asked for, as far as the server can be asked back; None where it was left to it."""

    n_ctx_slot: int | None
    n_parallel: int | None
    drafts: bool | None
    drafted_tokens: bool = False
    """Whether an answer without a drafted token means that the drafts are not there."""
    devices: tuple[str, ...] = ()
    """Devices that have to be used; empty where it was left to the engine."""
    every_layer: bool = False
    """Whether no layer may stay on the processor."""
    cache_types: tuple[str, str] | None = None
    """Types of the K and the V cache."""


# llama.cpp:306, llama-model.cpp, llama-kv-cache.cpp: at `-lv 4` from build 9246 on
_USING_DEVICE = re.compile(r"using device (\S+) \(")
_OFFLOADED = re.compile(r"offloaded (\d{1,9})/(\d{1,9}) layers to GPU")
_CACHE_TYPES = re.compile(r"K \((\w+)\): .*V \((\w+)\):")
_META_DEVICE = "Meta()"


def server_difference(
    asked: Asked, props: Mapping[str, Any], slots: Sequence[Mapping[str, Any]]
) -> Outcome | None:
    """What `/props` and `/slots` say that differs from what was asked; None where nothing does."""
    if props.get("role") == "router":
        return _not_as_asked("the server is a router without a model of its own")
    total = props.get("total_slots")
    if asked.n_parallel is not None and total is not None and total != asked.n_parallel:
        return _not_as_asked(f"{asked.n_parallel} slots asked for, {total} got")
    settings = props.get("default_generation_settings")
    n_ctx = settings.get("n_ctx") if isinstance(settings, dict) else None
    if asked.n_ctx_slot is not None and n_ctx is not None and n_ctx < asked.n_ctx_slot:
        return _not_as_asked(f"{asked.n_ctx_slot} tokens of context a slot asked for, {n_ctx} got")
    speculative = [slot["speculative"] for slot in slots if isinstance(slot.get("speculative"), bool)]
    if asked.drafts is not None and speculative and speculative[0] != asked.drafts:
        if asked.drafts:
            return Outcome(
                Kind.DRAFT_UNAVAILABLE,
                phase=Phase.LOAD,
                evidence="/slots says that the server does not draft",
            )
        return _not_as_asked("/slots says that the server drafts, and no drafts were asked for")
    return None


def alias_difference(alias: str | None, props: Mapping[str, Any]) -> Outcome | None:
    """Whether another server answers on our port; None where it is ours, or cannot be told."""
    theirs = props.get("model_alias")
    if alias is None or not isinstance(theirs, str) or theirs == alias:
        return None
    if props.get("role") == "router":  # its name is the program's, whatever it was told
        return None
    return Outcome(
        Kind.PORT_IN_USE,
        phase=Phase.LOAD,
        evidence=f"another server answers on our port: its model is {theirs!r}",
    )


def log_difference(asked: Asked, log: str) -> Outcome | None:
    """What a loaded server's log says that differs from what was asked; None where nothing does.

    A line that is not printed says nothing: it depends on the build and on its verbosity.
    """
    if "no usable GPU found" in log and asked.devices:
        return _not_as_asked("the log says: no usable GPU found")
    used = set(_USING_DEVICE.findall(log))
    missing = [name for name in asked.devices if name not in used]
    if missing and used and _META_DEVICE not in used:
        return _not_as_asked(f"{', '.join(missing)} asked for and not used, only {', '.join(sorted(used))}")
    offloaded = _OFFLOADED.search(log)
    if asked.every_layer and offloaded is not None and int(offloaded[1]) < int(offloaded[2]):
        left = int(offloaded[2]) - int(offloaded[1])
        return _not_as_asked(f"{left} of {offloaded[2]} layers stayed on the processor")
    types = _CACHE_TYPES.search(log)
    if asked.cache_types is not None and types is not None and types.groups() != asked.cache_types:
        return _not_as_asked(
            f"caches of {'/'.join(asked.cache_types)} asked for, {'/'.join(types.groups())} got"
        )
    return None


def draft_difference(asked: Asked, samples: Sequence[Sample]) -> Outcome | None:
    """Whether drafts that were asked for never came; None where they did, or may be rare."""
    if not asked.drafted_tokens or not samples or any(sample.draft_n for sample in samples):
        return None
    return Outcome(
        Kind.DRAFT_UNAVAILABLE,
        phase=Phase.BENCHMARK,
        evidence=f"no token was drafted in {len(samples)} requests",
    )


def sample_difference(sample: Sample, max_tokens: int, *, reuses: bool = False) -> Outcome | None:
    """What an answer's timings say that cannot be; None where they make sense.

    Args:
        sample: The answer.
        max_tokens: How many tokens were asked for.
        reuses: Whether the server may have read the beginning of the prompt before.
    """
    if sample.cache_n > 0 and not reuses:
        return _not_as_asked(f"{sample.cache_n} tokens of a fresh prompt came from a cache", Phase.BENCHMARK)
    if sample.predicted_n < max_tokens:
        return _not_as_asked(
            f"{max_tokens} tokens asked for, {sample.predicted_n} generated", Phase.BENCHMARK
        )
    ours_s = sample.wall_s - sample.ttft_s
    theirs_s = sample.predicted_ms / 1000
    if theirs_s < ours_s * (1 - CLOCK_TOLERANCE) - CLOCK_SLACK_S:
        return _not_as_asked(
            f"the server says {theirs_s:.2f} s for what took {ours_s:.2f} s by our clock", Phase.BENCHMARK
        )
    if theirs_s > sample.wall_s + CLOCK_SLACK_S:
        return _not_as_asked(
            f"the server says {theirs_s:.2f} s, the whole request took {sample.wall_s:.2f} s by our clock",
            Phase.BENCHMARK,
        )
    return None


def _not_as_asked(evidence: str, phase: Phase = Phase.LOAD) -> Outcome:
    return Outcome(Kind.NOT_AS_ASKED, phase=phase, evidence=evidence)
