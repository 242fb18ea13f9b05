"""A `pynvml` whose cards say what a test wants of telemetry, with the real module's errors and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pynvml

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 2**20

Answers = dict[str, Any]
"""By function, and by second argument where one function has several answers. An exception is raised, and what
can be called is called."""


def all_answers() -> Answers:
    """What a card at work says."""
    return {
        "nvmlDeviceGetMemoryInfo v2": SimpleNamespace(used=20_000 * MIB),
        "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=20_400 * MIB),
        "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=61),
        "nvmlDeviceGetPowerUsage": 351_250,
        "nvmlDeviceGetTemperature": 71,
        "nvmlDeviceGetClockInfo sm": 1695,
        "nvmlDeviceGetClockInfo mem": 9501,
        "nvmlDeviceGetCurrentClocksEventReasons": 0x4 | 0x20,
        "nvmlDeviceGetCurrentClocksThrottleReasons": 0x1,
        "nvmlDeviceGetCurrPcieLinkGeneration": 4,
        "nvmlDeviceGetCurrPcieLinkWidth": 8,
        "nvmlDeviceGetPcieThroughput tx": 2048,
        "nvmlDeviceGetPcieThroughput rx": 512,
        "nvmlDeviceGetTotalEnergyConsumption": 1_234_567,
        "nvmlDeviceRegisterEvents": None,
    }


@dataclass
class PlayedCard:
    """A card; it counts how often each question is asked."""

    uuid: str = "GPU-a"
    answers: Answers = field(default_factory=all_answers)
    xids: list[int] = field(default_factory=list)
    gone: Exception | None = None
    """What every question is answered with."""
    asked: dict[str, int] = field(default_factory=dict)

    def answer(self, question: str) -> Any:  # noqa: ANN401 - as pynvml
        self.asked[question] = self.asked.get(question, 0) + 1
        found = self.gone or self.answers[question]
        if isinstance(found, Exception):
            raise found
        return found() if callable(found) else found


@dataclass
class PlayedEvents:
    """An event set, which is one card's here."""

    card: PlayedCard | None = None
    freed: bool = False


@dataclass
class PlayedDriver:
    """A driver with these cards."""

    cards: tuple[PlayedCard, ...]
    init: Callable[[], object] = lambda: None
    event_sets: list[PlayedEvents] = field(default_factory=list)

    def by_uuid(self, uuid: str) -> PlayedCard:
        for card in self.cards:
            if card.uuid == uuid:
                if card.gone is not None:
                    raise card.gone
                return card
        raise pynvml.NVMLError_NotFound

    def make_events(self) -> PlayedEvents:
        self.event_sets.append(PlayedEvents())
        return self.event_sets[-1]

    @property
    def module(self) -> ModuleType:
        """A `pynvml` on top of this driver."""
        module = ModuleType("played_pynvml")
        constants = {
            name: value
            for name, value in vars(pynvml).items()
            if name.startswith(("NVML_", "NVMLError", "nvmlMemory_v2", "nvmlEventType"))
        }
        vars(module).update(constants | self.functions())
        return module

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Everything that telemetry calls."""
        plain = {name: partial(_answer, name) for name in all_answers() if " " not in name}
        return plain | {
            "nvmlInit": self.init,
            "nvmlDeviceGetHandleByUUID": self.by_uuid,
            "nvmlDeviceGetMemoryInfo": _memory,
            "nvmlDeviceGetClockInfo": _clock,
            "nvmlDeviceGetPcieThroughput": _traffic,
            "nvmlEventSetCreate": self.make_events,
            "nvmlDeviceRegisterEvents": _register,
            "nvmlEventSetWait_v2": _wait,
            "nvmlEventSetFree": _free,
        }


def _answer(question: str, card: PlayedCard, *_: object) -> Any:  # noqa: ANN401 - as pynvml
    return card.answer(question)


def _memory(card: PlayedCard, version: int | None = None) -> Any:  # noqa: ANN401 - as pynvml
    return card.answer("nvmlDeviceGetMemoryInfo" + ("" if version is None else " v2"))


def _clock(card: PlayedCard, kind: int) -> Any:  # noqa: ANN401 - as pynvml
    which = {pynvml.NVML_CLOCK_SM: "sm", pynvml.NVML_CLOCK_MEM: "mem"}[kind]
    return card.answer(f"nvmlDeviceGetClockInfo {which}")


def _traffic(card: PlayedCard, counter: int) -> Any:  # noqa: ANN401 - as pynvml
    which = {pynvml.NVML_PCIE_UTIL_TX_BYTES: "tx", pynvml.NVML_PCIE_UTIL_RX_BYTES: "rx"}[counter]
    return card.answer(f"nvmlDeviceGetPcieThroughput {which}")


def _register(card: PlayedCard, wanted: int, events: PlayedEvents) -> None:
    assert wanted == pynvml.nvmlEventTypeXidCriticalError
    card.answer("nvmlDeviceRegisterEvents")
    events.card = card


def _wait(events: PlayedEvents, timeout_ms: int) -> SimpleNamespace:
    assert timeout_ms == 0
    assert not events.freed
    assert events.card is not None
    if not events.card.xids:
        raise pynvml.NVMLError_Timeout
    return SimpleNamespace(eventData=events.card.xids.pop(0))


def _free(events: PlayedEvents) -> None:
    events.freed = True
