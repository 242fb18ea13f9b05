"""Context, slots, batches and the KV cache of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.engine.findings.asked import DEFAULT_SLOTS, NO, problem, unknown, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuner.core.checkup.check import Check
    from tuner.engine.findings.asked import Asked

_DEFAULT_BATCH = 2048
_DEFAULT_FIT_CTX = 4096
_PLAIN = frozenset({"f32", "f16", "bf16"})
#: Types that a CUDA build has kernels for only where it was built for all pairs.
_EXTRA_TYPES = frozenset({"q4_1", "q5_0", "q5_1", "iq4_nl"})
#: No build has a kernel for these.
_NEVER_FAST = frozenset({"iq4_nl"})
_ALL_QUANTS = "build llama.cpp with -DGGML_CUDA_FA_ALL_QUANTS=ON"
#: With one of these a longer context than the trained one is meant.
_STRETCHED = (
    "rope-scaling",
    "rope-scale",
    "rope-freq-base",
    "rope-freq-scale",
    "yarn-orig-ctx",
    "override-kv",
)


def memory_findings(asked: Asked) -> list[Check]:
    """What of context and cache is not what it looks like, in the order of a command line."""
    return [*_context(asked), *_slots(asked), *_batch(asked), *_cache(asked)]


def _context(asked: Asked) -> Iterator[Check]:
    trained = asked.model.n_ctx_train if asked.model is not None else 0
    if not asked.has("ctx-size"):
        if not asked.has("kv-unified-per-slot"):
            yield _unset(asked, trained)
        return
    context = asked.number("ctx-size")
    if not context or not trained or any(asked.has(name) for name in _STRETCHED):
        return
    # a pool that several slots share may be larger than any one of them
    n_slots = max(asked.number("parallel") or 1, 1)
    if context > trained * n_slots:
        text = (
            f"the model was trained for {trained:,} tokens: a longer context costs memory and gives nothing"
        )
        yield warning(asked.written("ctx-size"), text, f"write -c {trained * n_slots}")


def _unset(asked: Asked, trained: int) -> Check:
    whole = (
        f"all {trained:,} tokens that the model was trained for are"
        if trained
        else "the model's whole context is"
    )
    text = f"not given: {whole} asked for"
    if asked.value("fit") not in NO:
        least = asked.number("fit-ctx") or _DEFAULT_FIT_CTX
        text += f", or what --fit leaves of it, down to {least:,}, by the memory that is free at each start"
    return warning("-c", text, "write -c with the tokens that you need, such as -c 32768")


def _slots(asked: Asked) -> Iterator[Check]:
    count = asked.number("parallel")
    if count == 0:
        yield problem(asked.written("parallel"), "no slots, and the server does not start", "write -np 1")
        return
    if count is None or count < 0:
        text = f"not given: the server takes {DEFAULT_SLOTS} slots that share one KV cache"
        yield warning("-np", text, "write -np 1 if one request runs at a time")
        return
    if count < 2 or asked.is_on("kv-unified") or asked.has("kv-unified-per-slot"):
        return
    context = asked.number("ctx-size") or (asked.model.n_ctx_train if asked.model is not None else 0)
    if not context:
        text = f"{count} slots: each gets a part of the context, {count} times smaller"
        yield warning(asked.written("parallel"), text, "add --kv-unified to let them share it")
        return
    text = f"{count} slots of {context // count:,} tokens: without --kv-unified each gets its part of {context:,}"
    remedy = f"add --kv-unified to let them share it, or write -c {context * count}"
    yield warning(asked.written("parallel"), text, remedy)


def _batch(asked: Asked) -> Iterator[Check]:
    ubatch, batch = asked.number("ubatch-size"), asked.number("batch-size")
    batch = _DEFAULT_BATCH if batch is None else batch
    if ubatch is not None and 0 < batch < ubatch:
        text = f"cut to {batch}: a batch holds no more (-b, {_DEFAULT_BATCH} by default)"
        yield warning(asked.written("ubatch-size"), text, f"write -b {ubatch} too")


def _cache(asked: Asked) -> Iterator[Check]:
    k, v = asked.value("cache-type-k") or "f16", asked.value("cache-type-v") or "f16"
    if not (asked.help_text.allows("cache-type-k", k) and asked.help_text.allows("cache-type-v", v)):
        return  # no type of this engine: that is said already
    shown = " ".join(asked.written(name) for name in ("cache-type-k", "cache-type-v") if asked.has(name))
    if v not in _PLAIN and asked.value("flash-attn") in NO:
        text = "refused with -fa off: a quantised V cache needs FlashAttention"
        yield problem(asked.written("cache-type-v"), text, "write -fa on")
        return
    if asked.model is not None and asked.model.head_dim_v == 0 and any(asked.model.n_head_kv) and k != v:
        text = f"refused for {asked.model.architecture}: K and V are one there and need one type"
        yield problem(shown, text, f"write -ctk {k} -ctv {k}")
        return
    if asked.split_mode == "tensor" and {k, v} - _PLAIN and _is_before_10001(asked):
        text = "refused with -sm tensor by builds before 10001, which this one seems to be"
        yield warning(shown, text, "write -ctk f16 -ctv f16, or use a newer llama.cpp")
    if asked.value("flash-attn") not in NO and asked.is_on("kv-offload") is not False:
        yield from _pair(asked, shown, k, v)


def _is_before_10001(asked: Asked) -> bool:
    return asked.help_text.option("checkpoint-min-step") is None


def _pair(asked: Asked, shown: str, k: str, v: str) -> Iterator[Check]:
    """A pair of types without a FlashAttention kernel on CUDA."""
    is_slow = k != v or k in _EXTRA_TYPES
    if not is_slow or asked.fa_all_quants or not any(name.startswith("CUDA") for name in asked.devices):
        return
    better = f"write {_fast_pair(k, v)}"
    if not {k, v} & _NEVER_FAST:
        better += f", or {_ALL_QUANTS}"
    if asked.fa_all_quants is None:
        text = f"whether this build has a FlashAttention kernel for K as {k} and V as {v} is not known"
        yield unknown(shown, f"{text}; most have none, and are far slower then", better)
    elif asked.help_text.option("spec-draft-sampling") is not None:  # builds of that age convert
        text = f"this build has no FlashAttention kernel for K as {k} and V as {v}: it converts both to f16 each time"
        yield warning(shown, f"{text}, which is slow", better)
    else:
        text = f"this build has no FlashAttention kernel for K as {k} and V as {v}: attention runs on the CPU"
        yield problem(shown, f"{text}, up to 8 times slower, and nothing says so", better)


def _fast_pair(k: str, v: str) -> str:
    """The nearest pair that every CUDA build has a kernel for, not worse than what is asked for."""
    types = {k, v}
    for better in ("f16", "bf16"):
        if types <= {better, "f32"}:
            return f"-ctk {better} -ctv {better}"
    best = "q4_0" if types <= {"q4_0", "iq4_nl"} else "q8_0"
    return f"-ctk {best} -ctv {best}"
