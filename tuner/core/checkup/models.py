"""Checks of a model: what it is, in which split modes it runs, and where it fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.reserve import default_reserve_mib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.checkup.facts import EngineFacts
    from tuner.core.model import ModelFile
    from tuner.core.rig import Device

#: The context that is reckoned with, as far as the model was trained for it.
CONTEXT = 16_384
_KV_BITS = {"f16": 16.0, "q8_0": 8.5}
_MIB = 2**20


def model_checks(model: ModelFile, devices: Sequence[Device], engine: EngineFacts | None) -> list[Check]:
    """What it is, its split modes and drafts, and what fits; the engine's part is left out without one."""
    checks = [Check(Topic.MODEL, model.name, Level.OK, _shape(model))]
    checks.append(_tensor_check(model))
    if model.n_mtp_layers:
        checks.append(_mtp_check(engine))
    return checks + (_fit_checks(model, devices) if devices else [])


def _shape(model: ModelFile) -> str:
    mtp = f" ({model.n_mtp_layers} of them MTP)" if model.n_mtp_layers else ""
    heads = sorted({count for count in model.n_head_kv if count})
    cached = sum(count > 0 for count in model.n_head_kv)
    if not heads:
        cache = "no KV cache"
    else:
        range_ = f"{heads[0]}" if len(heads) == 1 else f"{heads[0]} to {heads[-1]}"
        where = "each layer" if cached == model.n_layers else f"each of {cached} layers"
        cache = f"{range_} KV heads in {where}"
    return (
        f"{model.architecture}, {model.n_layers} layers{mtp}, {cache}, {model.size_bytes / 2**30:.2f} GiB, "
        f"trained for {model.n_ctx_train:,} tokens"
    )


def _tensor_check(model: ModelFile) -> Check:
    if model.allows_tensor_split:
        return Check(Topic.MODEL, "", Level.OK, f"-sm tensor: allowed for {model.architecture}")
    text = f"-sm tensor: refused by llama.cpp for {model.architecture}; only layer mode can be searched"
    return Check(Topic.MODEL, "", Level.OK, text)


def _mtp_check(engine: EngineFacts | None) -> Check:
    if engine is not None and "draft-mtp" not in engine.spec_types:
        return Check(
            Topic.MODEL,
            "",
            Level.WARNING,
            "it has MTP layers, and this engine has no draft-mtp to draft with them",
            "use a newer llama.cpp",
        )
    return Check(Topic.MODEL, "", Level.OK, "MTP layers: it can draft without a second model")


def _fit_checks(model: ModelFile, devices: Sequence[Device]) -> list[Check]:
    """Weights and cache against what is free, less what is to stay free; buffers only a launch shows."""
    context = min(CONTEXT, model.n_ctx_train) if model.n_ctx_train else CONTEXT
    weights_mib = model.offloaded_bytes / _MIB
    cache_mib = {name: model.kv_bytes(context, bits, bits) / _MIB for name, bits in _KV_BITS.items()}
    usable_mib = {device.name: device.free_mib - default_reserve_mib(device) for device in devices}
    need = (
        f"weights {weights_mib:,.0f} MiB and KV of {context:,} tokens {cache_mib['f16']:,.0f} MiB (f16) or "
        f"{cache_mib['q8_0']:,.0f} (q8_0)"
    )
    checks = [_whole_check(need, weights_mib, cache_mib, sum(usable_mib.values()))]
    if len(devices) > 1:
        checks += [
            Check(Topic.FIT, name, Level.OK, _alone(weights_mib, cache_mib, mib))
            for name, mib in usable_mib.items()
        ]
    return checks


def _whole_check(need: str, weights_mib: float, cache_mib: dict[str, float], usable_mib: float) -> Check:
    of = f"{need}, of {usable_mib:,.0f} MiB to use, and buffers"
    if weights_mib + cache_mib["f16"] <= usable_mib:
        return Check(Topic.FIT, "all devices", Level.OK, of)
    if weights_mib + cache_mib["q8_0"] <= usable_mib:
        return Check(
            Topic.FIT,
            "all devices",
            Level.WARNING,
            f"with KV as q8_0 only: {of}",
            "give a smaller --context, or free memory",
        )
    if weights_mib <= usable_mib:
        return Check(
            Topic.FIT,
            "all devices",
            Level.WARNING,
            f"not with this context: {of}",
            "give a smaller --context, free memory, or use a smaller quantisation",
        )
    return Check(
        Topic.FIT,
        "all devices",
        Level.PROBLEM,
        f"the weights alone do not fit: {of}",
        "use a smaller quantisation, free memory, or add devices (-- --rpc host:port)",
    )


def _alone(weights_mib: float, cache_mib: dict[str, float], usable_mib: float) -> str:
    for name in _KV_BITS:
        spare_mib = usable_mib - weights_mib - cache_mib[name]
        if spare_mib >= 0:
            return f"fits alone with KV as {name}, {spare_mib:,.0f} MiB to spare for buffers"
    return f"not alone: {weights_mib + cache_mib['q8_0'] - usable_mib:,.0f} MiB too little with KV as q8_0"
