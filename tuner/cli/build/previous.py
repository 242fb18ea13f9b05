"""What was best before, as it was: its own engine and model, where both are still there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.cli.build.assembly import kernel_watch
from tuner.cli.build.devices import free_reader
from tuner.core.freshness.change import Freshness
from tuner.core.launch import PREVIOUS, LaunchSpec
from tuner.core.rig import Rig
from tuner.engine.device_watch import DeviceWatch
from tuner.engine.environment import server_environment
from tuner.engine.gguf import read_model
from tuner.engine.launcher import Launcher
from tuner.engine.probe import list_devices, probe
from tuner.errors import TunerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.cli.build.changed import Changed, RetuneOptions
    from tuner.core.asked import Asked

_RPC = "--rpc"


@dataclass(frozen=True, slots=True)
class Previous:
    """What was best, as it was: how it is launched, or why it cannot be."""

    spec: LaunchSpec | None
    launcher: Launcher | None
    why_not: str = ""


def previous_side(
    changed: Changed, options: RetuneOptions, asked: Asked, environ: Mapping[str, str], config_home: Path
) -> Previous:
    """What was best, as it was, where engine and model of then are still there."""
    best, facts = changed.best.document, changed.assembly.facts
    same = all(
        best[part][key] == facts[part][key] for part, key in (("engine", "digest"), ("model", "fingerprint"))
    )
    moved = [one for one in changed.changes if one.part in {"driver", "devices", "power", "link"}]
    if same and any(one.state is not Freshness.FRESH for one in moved):
        return Previous(None, None, "the machine is not as it was")
    path = changed.old_engine
    if path is None:
        place = options.old_server or best["engine"]["path"]
        return Previous(None, None, f"the engine of then is not at {place}; --old-server says where it is")
    environment = server_environment(environ, config_home, allow_p2p=_allows_p2p(changed))
    argv = _with_rpc(best["winner"]["argv"], options.old_rpc)
    try:
        engine, model = probe(path, environment), read_model(Path(best["model"]["path"]))
        devices = list_devices(engine, environment, _value(argv, _RPC))
    except TunerError as error:
        return Previous(None, None, str(error))
    if model.fingerprint != best["model"]["fingerprint"]:
        return Previous(None, None, f"{best['model']['path']} is not the file of then")
    rig = Rig(devices)
    return Previous(
        LaunchSpec(
            candidate=None,
            reference=PREVIOUS,
            flags=tuple(argv[3:]),
            environment=MappingProxyType(dict(best["winner"]["environment"])),
            takes_extra=False,
            asked=asked,
        ),
        Launcher(
            engine=engine,
            model=model,
            watch=DeviceWatch(rig, free_reader(changed.assembly.rig), kernel_watch),
            environment=MappingProxyType(environment),
        ),
    )


def _allows_p2p(changed: Changed) -> bool:
    return bool(changed.best.document["study"]["options"].get("allow_p2p"))


def _with_rpc(argv: Sequence[str], endpoints: str | None) -> list[str]:
    """A command with other RPC servers."""
    words = list(argv)
    if endpoints is not None and _RPC in words:
        words[words.index(_RPC) + 1] = endpoints
    return words


def without_rpc(words: Sequence[str]) -> list[str]:
    """The words of a command without its RPC servers, whose ports change."""
    kept = list(words)
    if _RPC in kept:
        at = kept.index(_RPC)
        del kept[at : at + 2]
    return kept


def _value(words: Sequence[str], flag: str) -> str | None:
    return words[words.index(flag) + 1] if flag in words[:-1] else None
