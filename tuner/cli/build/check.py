"""What a command would do here, worked out without launching it."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.cli.build.checked_memory import CheckedMemory, DeviceRow, public
from tuner.cli.option_values import by_device
from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.checkup.fits import Room
from tuner.core.memory.holdings import HOST
from tuner.core.reserve import default_reserve_mib
from tuner.core.rig import Device, Rig
from tuner.engine.build_facts import read_build
from tuner.engine.changed_command import set_options, words_of
from tuner.engine.checked_command import read_command
from tuner.engine.command_findings import findings_of
from tuner.engine.environment import server_environment
from tuner.engine.findings.asked import asked_of
from tuner.engine.gguf import read_model
from tuner.engine.probe import list_devices, probe
from tuner.errors import EngineError, ModelError, RigError
from tuner.report.best import shell_command
from tuner.rig.match import match_devices
from tuner.rig.nvml import read_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.model import ModelFile
    from tuner.engine.checked_command import CheckedCommand
    from tuner.engine.probe import Engine

#: A pair that only builds with all FlashAttention kernels have.
_MIXED_PAIR = ("q8_0", "q4_0")


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The options of `tuner check`."""

    command: str
    server: Path | None
    settings: tuple[str, ...]
    """`NAME=VALUE` in the place of what the command has."""
    device_memory: str | None
    reserve: str | None
    facts: Path | None


@dataclass(frozen=True, slots=True)
class Checked:
    """What a command would do."""

    command: str
    """As it was checked, settings applied."""
    engine: Engine
    rows: tuple[DeviceRow, ...]
    """Empty where model or devices are not known."""
    host_holds: str | None
    host_mib: float | None
    source: str | None
    """Who worked the memory out: `tuner` or `llama-fit-params`."""
    checks: tuple[Check, ...]
    works: str | None
    """A command that fits, where this one does not."""
    works_by: str
    """What is different about it."""

    @property
    def found(self) -> bool:
        """Whether there is anything to say against it."""
        return any(check.level in {Level.PROBLEM, Level.WARNING} for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "command": self.command,
            "engine": {"path": str(self.engine.path), "version": self.engine.version},
            "memory_source": self.source,
            "devices": [
                {
                    "name": row.name,
                    "description": row.description,
                    "holds": row.holds,
                    "weights_mib": round(row.need.weights, 1),
                    "kv_mib": round(row.need.kv, 1),
                    "recurrent_mib": round(row.need.recurrent, 1),
                    "compute_mib": round(row.need.compute, 1),
                    "draft_mib": round(row.need.draft + row.need.projector, 1),
                    "runtime_mib": round(row.need.runtime, 1),
                    "total_mib": round(row.need.total, 1),
                    "sigma_mib": round(row.need.sigma, 1),
                    "free_mib": row.room.free_mib,
                    "reserve_mib": row.room.reserve_mib,
                    "over_mib": round(row.need.total - row.room.usable_mib, 1),
                    "fits_probability": round(row.chance, 4),
                    "fails_at": row.fails_at,
                }
                for row in self.rows
            ],
            "host": None
            if self.host_mib is None
            else {"holds": self.host_holds, "total_mib": round(self.host_mib, 1)},
            "findings": [
                {
                    "topic": check.topic.value,
                    "subject": check.subject,
                    "level": check.level.value,
                    "text": check.text,
                    "remedy": check.remedy,
                }
                for check in self.checks
            ],
            "works": None if self.works is None else {"command": self.works, "change": self.works_by},
        }


def check_command(options: CheckOptions, environ: Mapping[str, str], config_home: Path) -> Checked:
    """Look at a command.

    Args:
        options: As typed.
        environ: The user's environment.
        config_home: An empty folder for the engine's config files.

    Raises:
        UsageError: The command cannot be read, or an option is wrong.
        EngineError: There is no engine to ask.
    """
    engine = probe(_engine_path(options), server_environment(environ, config_home, allow_p2p=True))
    command = read_command(engine.help, options.command)
    if options.settings:
        command = set_options(command, engine.help, options.settings)
    environment = server_environment({**environ, **command.environment}, config_home, allow_p2p=True)
    rig, checks = _rig(options, engine, command, environment)
    model, unread = _model(command)
    pairs = read_build(engine.path, environment).fast_kv_pairs
    asked = asked_of(
        command,
        engine.help,
        model=model,
        n_devices=len(rig.devices) or None,
        fa_all_quants=None if pairs is None else _MIXED_PAIR in pairs,
        device_names=rig.names,
    )
    checks += [*unread, *findings_of(asked)]
    shown = shell_command((command.program or "llama-server", *words_of(command)), public(command))
    nothing = Checked(shown, engine, (), None, None, None, tuple(checks), None, "")
    if model is None or not rig.devices:
        return nothing
    memory = CheckedMemory.of(
        engine, model, rig, asked, environment, rooms=_rooms(options, rig), facts_folder=options.facts
    )
    works, works_by = memory.mended(command, engine)
    return replace(
        nothing,
        rows=memory.rows(),
        host_holds=memory.holds.get(HOST),
        host_mib=memory.prediction.host_total_mib,
        source=memory.prediction.source,
        checks=(*checks, *memory.checks()),
        works=works,
        works_by=works_by,
    )


def _engine_path(options: CheckOptions) -> Path:
    if options.server is not None:
        return options.server
    words = options.command.split()
    named = next((word for word in words if word.rpartition("/")[2].startswith("llama-server")), None)
    for name in (named, "llama-server"):
        found = None if name is None else shutil.which(os.path.expanduser(name))  # noqa: PTH111 - as the shell does
        if found is not None:
            return Path(found)
    raise EngineError("no llama-server on the PATH; give its path: --server /path/to/llama-server")


def _rig(
    options: CheckOptions, engine: Engine, command: CheckedCommand, environment: Mapping[str, str]
) -> tuple[Rig, list[Check]]:
    """The devices under the command's own environment, and those whose memory the user states."""
    checks: list[Check] = []
    reading = read_gpus()
    devices: tuple[Device, ...] = ()
    try:
        devices = match_devices(list_devices(engine, environment, command.value("rpc")), reading, environment)
    except (EngineError, RigError) as error:
        text, _, remedy = str(error).rpartition("; ")
        checks.append(Check(Topic.DEVICES, "", Level.PROBLEM, text or str(error), remedy))
    if options.device_memory is not None:
        devices = _with_stated(devices, options.device_memory)
    if not devices and not checks:
        text = "this llama-server sees no device here, so what lies where cannot be said"
        remedy = "state them: --device-memory CUDA0=15900,CUDA1=24100 (free MiB)"
        checks.append(Check(Topic.DEVICES, "", Level.UNKNOWN, text, remedy))
    return Rig(devices, driver=reading.driver), checks


def _with_stated(devices: tuple[Device, ...], text: str) -> tuple[Device, ...]:
    """Devices with the free memory that is stated; those that the engine does not see are added."""
    names = [part.partition("=")[0].strip() for part in text.split(",")]
    seen = [device.name for device in devices]
    new = [name for name in names if name and not name.isdecimal() and name not in seen]
    stated = by_device("--device-memory", text, [*seen, *new])
    known = tuple(
        replace(device, total_mib=stated[device.name], free_mib=stated[device.name], stated=True)
        if device.name in stated
        else device
        for device in devices
    )
    return (*known, *(Device(name, "stated", stated[name], stated[name], stated=True) for name in new))


def _rooms(options: CheckOptions, rig: Rig) -> dict[str, Room]:
    reserve = {device.name: default_reserve_mib(device) for device in rig.devices}
    if options.reserve is not None:
        reserve |= by_device("--reserve", options.reserve, rig.names)
    return {device.name: Room(device.free_mib, reserve[device.name]) for device in rig.devices}


def _model(command: CheckedCommand) -> tuple[ModelFile | None, list[Check]]:
    path = command.value("model")
    if path is None:
        return None, []
    try:
        return read_model(Path(path).expanduser()), []
    except ModelError as error:
        text, _, remedy = str(error).rpartition("; ")
        check = Check(Topic.MODEL, "", Level.PROBLEM, text or str(error), remedy)
        return None, [check]
