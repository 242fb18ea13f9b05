"""What a form of export is, and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tuner.core.pinning import VISIBLE, pins
from tuner.core.serving import MODEL, Serving, value_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tuner.engine.help_text import HelpText

_DEVICE = ("--device", "-dev")


@dataclass(frozen=True, slots=True)
class UsedDevice:
    """A device that the command runs on."""

    name: str
    """The engine's, such as `CUDA0`."""
    description: str
    """What the engine says of it: a product name, or `host:port` of an RPC server."""
    uuid: str | None


@dataclass(frozen=True, slots=True)
class Served:
    """The winner's command, ready to be written in any form."""

    document: Mapping[str, Any]
    """best.json."""
    program: str
    """Path of the llama-server that was measured."""
    words: tuple[str, ...]
    """What follows the program: as measured, and with what the owner sets."""
    environment: Mapping[str, str]
    """Variables that belong to the command; those that pin its cards are among them."""
    devices: tuple[UsedDevice, ...]
    pinned: tuple[str, ...]
    """UUIDs of the cards that have to be there for the names to hold; empty where nothing holds them."""
    serving: Serving
    ask_help: Callable[[], HelpText]
    """The engine's help text; raises an `EngineError` where the engine is not there."""

    @property
    def model_path(self) -> str:
        """Where the model lies, as the command has it."""
        return value_of(self.words, MODEL) or self.document["model"]["path"]


class Form(Protocol):
    """One form of export."""

    def write(self, served: Served) -> str:
        """The whole text of the file.

        Raises:
            ExportError: The form cannot hold this command as it was measured.
            EngineError: The engine has to be asked, and is not there.
        """
        ...


def served(document: Mapping[str, Any], serving: Serving, ask_help: Callable[[], HelpText]) -> Served:
    """The winner's command out of best.json.

    Args:
        document: best.json; it satisfies the schema.
        serving: What the owner sets.
        ask_help: Asks the engine for its help text.
    """
    winner = document["winner"]
    program, *words = winner["argv"]
    devices = _used(document["devices"], words)
    uuids = {one["name"]: one["uuid"] for one in (*document["devices"], *document.get("other_devices", ()))}
    pinned = pins([device.name for device in devices], uuids)
    return Served(
        document=document,
        program=program,
        words=serving.applied(words),
        environment={**winner["environment"], **pinned},
        devices=devices,
        pinned=tuple(pinned[VISIBLE].split(",")) if pinned else (),
        serving=serving,
        ask_help=ask_help,
    )


def _used(rows: list[dict[str, Any]], words: list[str]) -> tuple[UsedDevice, ...]:
    """The study's devices, or those of them that the command names, in its order."""
    listed = {row["name"]: UsedDevice(row["name"], row["description"], row["uuid"]) for row in rows}
    named = value_of(words, _DEVICE)
    if named is None:
        return tuple(listed.values())
    return tuple(listed[name] for name in named.split(",") if name in listed)
