"""What a study is made with: its identity, and the facts that its readers need."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from tuner.cli.build.workload_facts import workload_facts, workload_key, workload_label
from tuner.core.identity import Part, StudyIdentity, digest_of
from tuner.engine.capabilities import capabilities

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
    by_class: bool = False,
) -> StudyIdentity:
    """Everything that has to be equal for a study to go on. Ports of RPC servers are no part of it.

    Args:
        engine: The engine.
        model: The model.
        rig: The devices.
        bound: The space on the rig.
        workload: What each launch is asked.
        extra: The user's own flags.
        draft_fingerprint: A draft model's; None where there is none.
        by_class: Whether like devices of other machines are the same.
    """
    space = bound.space
    flags = [flag.tokens for flag in extra if flag.name != "rpc"]
    devices: list[tuple[object, ...]] = [(d.identity, d.total_mib if d.stated else None) for d in rig.devices]
    said = [f"{d.name} {d.description}" for d in rig.devices]
    if by_class:
        devices = [(d.name, d.kind, d.total_mib) for d in rig.devices]
        said = [f"{d.name} {d.kind} of {d.total_mib} MiB" for d in rig.devices]
    imposed = {name: value for name, value in bound.imposed.items() if name != "spec-draft-model"}
    return StudyIdentity(
        {
            "model": Part(model.fingerprint, f"{model.name} ({model.size_bytes / 2**30:.1f} GiB)"),
            "engine": Part(engine.digest, f"{engine.version}, {engine.digest[:12]}"),
            "devices": Part(digest_of(devices), ", ".join(said)),
            "space": Part(
                digest_of(
                    [repr(space.parameters), repr(space.rules), repr(space.caps), dict(space.fixed), imposed]
                ),
                f"{space.name} at {bound.imposed['ctx-size']:,} tokens",
            ),
            "workload": Part(digest_of(workload_key(workload)), workload_label(workload)),
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
    reserve_mib: Mapping[str, int],
) -> dict[str, Any]:
    """What the study's readers need beside its trials, in plain JSON; best.json has most of it.

    Args:
        engine: The engine.
        model: The model.
        rig: The devices, as they were before the first launch.
        study: Name, space, seed and date.
        workload: What each launch is asked.
        context: Tokens.
        reserve_mib: What is to stay free, by device.
    """
    return {
        "study": dict(study),
        "engine": {
            "path": str(engine.path),
            "digest": engine.digest,
            "version": engine.version,
            "files": dict(engine.files),
            "capabilities": capabilities(engine.help),
            "help": hashlib.sha256(engine.help.text.encode()).hexdigest(),
        },
        "driver": rig.driver,
        "devices": [
            {
                "name": device.name,
                "description": device.description,
                "total_mib": device.total_mib,
                "uuid": device.uuid,
                "bus_id": device.bus_id,
                "memory_stated": device.stated,
                "power_limit_w": device.power_limit_w,
                "pcie_generation": device.pcie_generation,
                "pcie_width": device.pcie_width,
            }
            for device in rig.devices
        ],
        "other_devices": [{"name": device.name, "uuid": device.uuid} for device in rig.others],
        "model": {
            "path": model.path,
            "name": model.name,
            "architecture": model.architecture,
            "size_bytes": model.size_bytes,
            "fingerprint": model.fingerprint,
            "shape": shape_digest(model),
            "weights_type": weights_type(model),
        },
        "workload": {**workload_facts(workload), "ctx_size": context},
        "memory": {
            "free_mib": {device.name: device.free_mib for device in rig.devices},
            "reserve_mib": dict(reserve_mib),
        },
    }


def shape_digest(model: ModelFile) -> str:
    """Equal for files of the same tensors, whatever types these have."""
    rows = [(tensor.name, tensor.shape) for tensor in model.tensors]
    return digest_of([model.architecture, model.n_layers, model.n_mtp_layers, sorted(rows)])


def weights_type(model: ModelFile) -> str:
    """The type that most of the weights have, by their bytes."""
    sizes: dict[str, int] = {}
    for tensor in model.tensors:
        sizes[tensor.type_name] = sizes.get(tensor.type_name, 0) + tensor.size_bytes
    return max(sizes, key=lambda name: (sizes[name], name))
