"""Engine, devices and model as they are now, to hold a best.json against."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.core.rig import device_identity
from tuner.core.serving import value_of
from tuner.engine.gguf import read_model
from tuner.engine.probe import list_devices, probe
from tuner.rig.lock import RigLock
from tuner.rig.match import match_devices
from tuner.rig.nvml import read_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.report.exports.form import Served


def as_it_is(winner: Served, environment: Mapping[str, str]) -> dict[str, Any]:
    """Engine, devices and model as they are, in best.json's form.

    Raises:
        TunerError: One of them cannot be read, or a tuner is at work on these devices.
    """
    with RigLock(
        tuple(device_identity(device.uuid, device.name, device.description) for device in winner.devices)
    ):
        pass  # beside a server that serves a tuner would measure neither
    model = read_model(Path(winner.model_path))
    engine = probe(Path(winner.program), environment)
    reading = read_gpus()
    devices = match_devices(
        list_devices(engine, environment, value_of(winner.words, ("--rpc",))), reading, environment
    )
    return {
        "engine": {"digest": engine.digest, "version": engine.version},
        "devices": [
            {
                "name": device.name,
                "description": device.description,
                "total_mib": device.total_mib,
                "uuid": device.uuid,
            }
            for device in devices
        ],
        "model": {
            "fingerprint": model.fingerprint,
            "name": model.name,
            "size_bytes": model.size_bytes,
        },
    }
