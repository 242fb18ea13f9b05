"""A checkup of engine, devices, host and model: everything is looked at, and no server is started."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.option_values import device_name
from tuner.core.checkup.cards import card_checks
from tuner.core.checkup.check import Check, Level, Topic, in_order
from tuner.core.checkup.devices import device_checks, driver_check
from tuner.core.checkup.engines import build_checks, engine_checks
from tuner.core.checkup.hosts import host_checks
from tuner.core.checkup.models import model_checks
from tuner.core.rig import Device
from tuner.engine.build_facts import engine_facts, read_build
from tuner.engine.environment import server_environment
from tuner.engine.gguf import read_model
from tuner.engine.probe import list_devices, probe
from tuner.engine.user_command import parse_extra
from tuner.errors import EngineError, RigError
from tuner.rig.doctor_facts import read_driver
from tuner.rig.host_facts import read_host
from tuner.rig.match import match_devices
from tuner.rig.nvml import read_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.checkup.facts import DriverFacts, EngineFacts
    from tuner.engine.probe import Engine
    from tuner.rig.nvml import NvmlReading

_SELECTION = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """The options of `tuner doctor`."""

    model: Path | None
    server: Path | None
    devices: str | None
    results: Path
    flags: tuple[str, ...]


def examine(options: DoctorOptions, environ: Mapping[str, str], config_home: Path) -> list[Check]:
    """Look at everything; what is wrong with the engine is a check, and the rest is looked at all the same.

    Args:
        options: As typed.
        environ: The user's environment.
        config_home: An empty folder for the engine's config files.

    Raises:
        ModelError: The model cannot be read.
        RigError: `--devices` names one that does not exist.
        UsageError: The flags after `--` are none of this engine's.
    """
    model = None if options.model is None else read_model(options.model)
    environment = server_environment(environ, config_home, allow_p2p=False)
    engine, checks = _find_engine(options.server, environment)
    reading = read_gpus()  # before the engine is asked: it holds memory on every card for a moment
    devices, hidden_by = _cards_as_devices(reading), None
    if engine is not None:
        try:
            devices = match_devices(
                list_devices(engine, environment, _rpc(engine, options.flags)), reading, environment
            )
        except (EngineError, RigError) as error:
            checks.append(_from_error(Topic.DEVICES, error))
        else:
            devices, hidden_by = _chosen(devices, options.devices, environment)
    driver = _named(read_driver(reading), devices)
    facts: EngineFacts | None = None
    if engine is not None:
        facts, build = engine_facts(engine), read_build(engine.path, environment)
        checks += [*engine_checks(facts, build), *build_checks(build, driver)]
    checks += [
        driver_check(driver),
        *device_checks(devices, driver, hidden_by=hidden_by),
        *card_checks(driver),
    ]
    paths: Sequence[Path] = ()
    if model is not None:
        checks += model_checks(model, devices, facts)
        paths = [Path(path) for path in model.paths]
    checks += host_checks(read_host(paths, options.results), model)
    return in_order(checks)


def _find_engine(given: Path | None, environment: Mapping[str, str]) -> tuple[Engine | None, list[Check]]:
    found = shutil.which("llama-server") if given is None else str(given)
    if found is None:
        text, remedy = "no llama-server on the PATH", "give its path: --server /path/to/llama-server"
        return None, [Check(Topic.ENGINE, "", Level.PROBLEM, text, remedy)]
    try:
        return probe(Path(found), environment), []
    except EngineError as error:
        return None, [_from_error(Topic.ENGINE, error)]


def _from_error(topic: Topic, error: Exception) -> Check:
    """An error's message as a check: what is to be done stands behind its last semicolon, where it has one."""
    message = " ".join(str(error).split())
    text, _, remedy = message.rpartition("; ")
    if not text:
        text, remedy = message, "run it by hand, or give another llama-server with --server"
    return Check(topic, "", Level.PROBLEM, text, remedy)


def _rpc(engine: Engine, flags: tuple[str, ...]) -> str | None:
    extra = parse_extra(engine.help, list(flags))
    return next((flag.value for flag in reversed(extra) if flag.name == "rpc"), None)


def _cards_as_devices(reading: NvmlReading) -> tuple[Device, ...]:
    """The driver's cards, where no engine says how it orders and names them."""
    return tuple(
        Device(
            name=f"GPU {gpu.index}",
            description=gpu.name or "unknown card",
            total_mib=gpu.total_mib or 0,
            free_mib=gpu.free_mib or 0,
            uuid=gpu.uuid,
            bus_id=gpu.bus_id,
            users=gpu.users,
            used_by_others_mib=gpu.used_mib or 0,
        )
        for gpu in reading.gpus
    )


def _chosen(
    devices: tuple[Device, ...], words: str | None, environment: Mapping[str, str]
) -> tuple[tuple[Device, ...], str | None]:
    """The devices that the user names, in that order, and what leaves others out."""
    if words is None:
        selection = environment.get(_SELECTION)
        return devices, None if selection is None else f"{_SELECTION}={selection}"
    by_name = {device.name: device for device in devices}
    names = [device_name("--devices", word.strip(), tuple(by_name)) for word in words.split(",")]
    return tuple(by_name[name] for name in names), f"--devices {words}"


def _named(driver: DriverFacts, devices: tuple[Device, ...]) -> DriverFacts:
    """The driver's cards with the names of the devices that they are, and in the devices' order."""
    names = {device.uuid: device.name for device in devices if device.uuid is not None}
    places = {device.name: place for place, device in enumerate(devices)}
    cards = [
        replace(card, device=None if card.uuid is None else names.get(card.uuid)) for card in driver.cards
    ]
    cards.sort(key=lambda card: places.get(card.label, len(places)))
    return replace(driver, cards=tuple(cards))
