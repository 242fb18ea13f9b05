"""Works out what a command would do here, without launching it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.build.checked import Checked
from tuner.cli.build.checked_memory import CheckedMemory, public
from tuner.cli.build.checked_translation import for_newest, is_taken, source_of, translated
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
from tuner.engine.known_builds import newest_build
from tuner.engine.probe import list_devices, probe
from tuner.errors import EngineError, ModelError, RigError
from tuner.report.best import shell_command
from tuner.rig.match import match_devices
from tuner.rig.nvml import read_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.cli.build.checked import CheckOptions
    from tuner.core.model import ModelFile
    from tuner.engine.checked_command import CheckedCommand
    from tuner.engine.findings.asked import Asked
    from tuner.engine.help_text import HelpText
    from tuner.engine.probe import Engine

#: A pair that only builds with all FlashAttention kernels have.
_MIXED_PAIR = ("q8_0", "q4_0")


def check_command(options: CheckOptions, environ: Mapping[str, str], config_home: Path) -> Checked:
    """Look at a command.

    Args:
        options: As typed.
        environ: The user's environment.
        config_home: An empty folder for the engine's config files.

    Raises:
        UsageError: The command cannot be read, or an option is wrong.
        EngineError: A llama-server that is named cannot be asked, or memory is asked about and there is none.
    """
    asking = server_environment(environ, config_home, allow_p2p=True)
    path = _engine_path(options)
    if path is None:
        return _by_newest_help(options, asking)
    engine = probe(path, asking)
    command = _command(options, engine.help)
    source = source_of(command, engine.help, given=options.source, engine=engine, environment=asking)
    program = None if options.server is None else str(options.server)
    translation = translated(command, source, engine.help, "this llama-server", program=program)
    run = command if translation is None else translation.command
    environment = server_environment({**environ, **run.environment}, config_home, allow_p2p=True)
    rig, checks = _rig(options, engine, run, environment)
    model, unread = _model(command)
    pairs = read_build(engine.path, environment).fast_kv_pairs

    def asked(one: CheckedCommand) -> Asked:
        return asked_of(
            one,
            engine.help,
            model=model,
            n_devices=len(rig.devices) or None,
            fa_all_quants=None if pairs is None else _MIXED_PAIR in pairs,
            device_names=rig.names,
        )

    checks += [*unread, *findings_of(asked(command))]
    if translation is None and options.server is None and is_taken(command, engine.help):
        translation = for_newest(command, engine)
    nothing = Checked(_shown(command), engine, (), None, None, None, tuple(checks), None, "", translation)
    if model is None or not rig.devices:
        return nothing
    memory = CheckedMemory.of(
        engine, model, rig, asked(run), environment, rooms=_rooms(options, rig), facts_folder=options.facts
    )
    works, works_by = memory.mended(run, engine)
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


def _by_newest_help(options: CheckOptions, asking: Mapping[str, str]) -> Checked:
    """What can be said of a command where there is no llama-server: its flags, and what they are today."""
    build = newest_build()
    command = _command(options, build.help)
    source = source_of(command, build.help, given=options.source, engine=None, environment=asking)
    translation = translated(command, source, build.help, f"build {build.number}, the newest known here")
    model, unread = _model(command)
    asked = asked_of(command, build.help, model=model, n_devices=None, fa_all_quants=None, device_names=())
    text = f"no llama-server here, so only flags are checked, by the help of build {build.number}"
    missing = Check(Topic.ENGINE, "", Level.UNKNOWN, text, "give its path: --server /path/to/llama-server")
    checks = (missing, *unread, *findings_of(asked))
    return Checked(_shown(command), None, (), None, None, None, checks, None, "", translation)


def _command(options: CheckOptions, help_text: HelpText) -> CheckedCommand:
    command = read_command(help_text, options.command)
    return set_options(command, help_text, options.settings) if options.settings else command


def _shown(command: CheckedCommand) -> str:
    return shell_command((command.program or "llama-server", *words_of(command)), public(command))


def _engine_path(options: CheckOptions) -> Path | None:
    """The engine to ask; None where there is none and flags alone can be looked at."""
    given = options.server or options.measured_with
    if given is not None:
        return given
    words = options.command.split()
    named = next((word for word in words if word.rpartition("/")[2].startswith("llama-server")), None)
    for name in (named, "llama-server"):
        found = None if name is None else shutil.which(os.path.expanduser(name))  # noqa: PTH111 - as the shell does
        if found is not None:
            return Path(found)
    if options.device_memory is None and options.reserve is None:
        return None
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
