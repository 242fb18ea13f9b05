"""What lies on each card while the winner runs, part by part, and what stays free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.core.memory.words import size
from tuner.report.headline import winning
from tuner.report.view.table import Table, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.report.view.inputs import ReportInputs

#: Parts from the bottom of a stack up, each with the parts of `DeviceNeed` that it is made of.
PARTS: dict[str, tuple[str, ...]] = {
    "model": ("weights",),
    "KV cache": ("kv", "recurrent"),
    "compute": ("compute",),
    "draft": ("draft", "projector"),
    "overhead": ("runtime",),
}
RESERVE, FREE = "reserve", "free"


@dataclass(frozen=True, slots=True)
class CardMemory:
    """One card."""

    device: str
    description: str
    parts_mib: Mapping[str, float]
    """By the names of `PARTS`, then `reserve` and `free` where they are known."""
    available_mib: int | None
    """Free before the first launch; None where the study does not say."""
    used_mib: float | None
    """What the launch took at its height, by the driver; None where it does not say."""
    left_mib: int | None
    """The least that was left free in the winner's launches, by the driver."""

    @property
    def asked_mib(self) -> float:
        """What the winner was expected to take."""
        return sum(self.parts_mib[part] for part in PARTS)


@dataclass(frozen=True, slots=True)
class MemoryStacks:
    """The section."""

    cards: tuple[CardMemory, ...]
    sentences: tuple[str, ...]
    alt: str


def memory_stacks(inputs: ReportInputs) -> MemoryStacks | None:
    """The section; None where it is not known what the winner's memory is made of."""
    winner = winning(inputs.records, inputs.confirmation)
    if winner is None:
        return None
    launches = [record for record in inputs.records if record.key == winner.key]
    said = [inputs.needs[record.number] for record in launches if record.number in inputs.needs]
    if not said:
        return None
    room = inputs.facts.get("memory") or {"free_mib": {}, "reserve_mib": {}}
    cards = []
    for device in inputs.facts["devices"]:
        name = device["name"]
        need = said[-1].get(name)
        if need is None:
            continue
        parts = {part: sum(need.get(one, 0.0) for one in names) for part, names in PARTS.items()}
        available = room["free_mib"].get(name)
        reserve = room["reserve_mib"].get(name)
        if reserve is not None:
            parts[RESERVE] = float(reserve)
        if available is not None:
            parts[FREE] = max(available - sum(parts.values()), 0.0)
        free = [
            record.result.free_mib[name]
            for record in launches
            if record.result is not None and name in record.result.free_mib
        ]
        left = min(free, default=None)
        used = None if left is None or available is None else float(available - left)
        cards.append(CardMemory(name, device["description"], parts, available, used, left))
    if not cards:
        return None
    return MemoryStacks(tuple(cards), tuple(map(_sentence, cards)), _alt(cards))


def memory_table(section: MemoryStacks) -> Table:
    """The stacks as figures, MiB."""
    rows = [
        (
            card.device,
            *(f"{card.parts_mib[part]:,.0f}" for part in PARTS),
            f"{card.asked_mib:,.0f}",
            _amount(card.used_mib),
            _amount(card.parts_mib.get(RESERVE)),
            _amount(card.available_mib),
        )
        for card in section.cards
    ]
    heads = "|".join(f">{part}" for part in PARTS)
    return table(f"MiB|{heads}|>in all, predicted|>taken, by the driver|>to stay free|>there was", rows)


def _amount(mib: float | None) -> str:
    return "not known" if mib is None else f"{mib:,.0f}"


def _sentence(card: CardMemory) -> str:
    text = f"{card.device} ({card.description}): {size(card.asked_mib)} predicted"
    if card.available_mib is not None:
        text += f" of {size(card.available_mib)} that were free"
    if card.left_mib is not None:
        text += f"; {size(card.left_mib)} were left at its height, by the driver"
    return f"{text}."


def _alt(cards: list[CardMemory]) -> str:
    rows = [
        f"{card.device}: "
        + ", ".join(f"{part} {mib:,.0f} MiB" for part, mib in card.parts_mib.items() if round(mib))
        for card in cards
    ]
    return f"Memory of each card while the winner runs. {'; '.join(rows)}."
