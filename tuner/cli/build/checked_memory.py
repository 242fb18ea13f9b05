"""What a command needs of each device, and a command that fits where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.build.checked_experts import CheckedExperts
from tuner.cli.build.memory import build_knowledge
from tuner.core.assignment.splits import Splits
from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.checkup.fits import Room, fit_checks, split_check
from tuner.core.memory.holdings import holdings
from tuner.core.memory.need import chance_to_fit, tightest
from tuner.core.memory.oracle import sharpened
from tuner.core.memory.repair import GOOD_CHANCE, Repair, other_order, repair
from tuner.engine.changed_command import changed, words_of
from tuner.engine.effective_options import effective_options, fit_decides
from tuner.engine.gguf import read_model
from tuner.errors import ModelError
from tuner.report.best import shell_command

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.memory.need import DeviceNeed, Prediction
    from tuner.core.memory.predict import Predictor
    from tuner.core.memory.query import MemoryQuery
    from tuner.core.model import ModelFile
    from tuner.core.options import Value
    from tuner.core.rig import Rig
    from tuner.engine.checked_command import CheckedCommand
    from tuner.engine.findings.asked import Asked
    from tuner.engine.probe import Engine


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """What lies on a device."""

    name: str
    description: str
    holds: str
    need: DeviceNeed
    room: Room
    chance: float
    """The probability that it fits, from 0 to 1."""

    @property
    def fails_at(self) -> str | None:
        """The load step at which the memory runs out; None where it is not expected to."""
        step = self.need.breaks_at(self.room.free_mib)
        return None if step is None else step.value


@dataclass(frozen=True, slots=True)
class CheckedMemory:
    """What a command needs here."""

    asked: Asked
    splits: Splits
    rig: Rig
    rooms: Mapping[str, Room]
    options: Mapping[str, Value]
    query: MemoryQuery
    split: tuple[int, ...]
    prediction: Prediction
    holds: Mapping[str, str]
    predictor: Predictor
    fit_decides: bool
    experts: CheckedExperts

    @classmethod
    def of(
        cls,
        engine: Engine,
        model: ModelFile,
        rig: Rig,
        asked: Asked,
        environment: Mapping[str, str],
        *,
        rooms: Mapping[str, Room],
        facts_folder: Path | None,
    ) -> CheckedMemory:
        """Work it out."""
        splits = Splits(model)
        draft = asked.value("spec-draft-model")
        try:
            draft_splits = None if draft is None else Splits(read_model(Path(draft).expanduser()))
        except ModelError:
            draft_splits = None  # the engine will say so; its own finding is about flags
        knowledge = build_knowledge(
            engine,
            splits,
            rig,
            draft=draft_splits,
            flags=asked.command.flags,
            environment=environment,
            facts_folder=facts_folder,
        )
        settled = effective_options(asked, model)
        query = knowledge.predictor.query(settled)
        split = knowledge.predictor.split_of(query)
        prediction = knowledge.predictor.predict_query(query)
        rows = None if knowledge.oracle is None else knowledge.oracle.ask(query, split)
        if rows is not None:
            prediction = sharpened(prediction, rows)
        slicer = splits.slicer(max(query.n_devices, 1))
        room_mib = {name: room.usable_mib for name, room in rooms.items()}
        return cls(
            asked=asked,
            splits=splits,
            rig=rig,
            rooms=rooms,
            options=settled,
            query=query,
            split=split,
            prediction=prediction,
            holds=holdings(model, query, prediction, slicer, split),
            predictor=knowledge.predictor,
            fit_decides=fit_decides(asked),
            experts=CheckedExperts(settled, knowledge.predictor, splits, prediction, room_mib),
        )

    @property
    def room_mib(self) -> dict[str, float]:
        """What may be used of each device."""
        return {name: room.usable_mib for name, room in self.rooms.items()}

    def rows(self) -> tuple[DeviceRow, ...]:
        """What lies on each device of the command."""
        descriptions = {device.name: device.description for device in self.rig.devices}
        return tuple(
            DeviceRow(
                name,
                descriptions.get(name, ""),
                self.holds.get(name, ""),
                need,
                self.rooms[name],
                need.chance_to_fit(self.rooms[name].usable_mib),
            )
            for name, need in self.prediction.devices.items()
            if name in self.rooms
        )

    def checks(self) -> list[Check]:
        """What the split really is, what is exceeded, and whether another order would do."""
        labels = {device.name: f"{device.name} ({device.description})" for device in self.rig.devices}
        written = self.asked.value("tensor-split") or ""
        split = split_check(self.query, self.splits, self.split, written=written)
        experts = self.experts.check()
        checks = [one for one in (split, experts) if one is not None]
        checks += fit_checks(self.prediction, self.rooms, labels, fit_decides=self.fit_decides)
        if chance_to_fit(self.prediction, self.room_mib) < GOOD_CHANCE:
            order = other_order(self.options, self.predictor, self.room_mib)
            if order is not None:
                text = f"in the other order of the devices ({', '.join(order)}) the same command fits"
                remedy = f"write --device {','.join(order)}, and do not rely on the order of today"
                checks.append(Check(Topic.FIT, "order", Level.WARNING, text, remedy))
        return checks

    def mended(self, command: CheckedCommand, engine: Engine) -> tuple[str | None, str]:
        """A command that fits and what it changes, where this one does not or leaves layers on the host."""
        found = self._repaired()
        if found is None or not found.changes:
            return None, ""
        changes = {**found.changes, **({"fit": "off"} if engine.help.option("fit") is not None else {})}
        better = changed(command, engine.help, changes)
        words = (command.program or "llama-server", *words_of(better))
        return shell_command(words, public(command)), found.why

    def _repaired(self) -> Repair | None:
        """What to change; where experts lie in RAM, which of them before anything else."""
        if self.experts.in_ram:
            return self.experts.repair()
        worst = tightest(self.prediction, self.room_mib)
        on_host = self.query.gpu_layers < self.splits.n_units
        if worst is None or (worst.chance >= GOOD_CHANCE and not on_host):
            return None
        found = repair(self.options, self.predictor, self.splits, self.room_mib)
        return found or self.experts.repair()


def public(command: CheckedCommand) -> dict[str, str]:
    """The command's variables; one that holds a key is not repeated."""
    return {
        name: value
        for name, value in command.environment.items()
        if "KEY" not in name and "TOKEN" not in name
    }
