"""Plays back what NVML has said on another machine, and records what it says on this one.

`python -m tests.support.played_nvml > tests/fixtures/nvml/NAME.json` writes a recording of this machine's cards.
A recording holds the answers by function; one that is not in it was refused as not supported.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from itertools import combinations
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pynvml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FOLDER = Path(__file__).parents[1] / "fixtures" / "nvml"

SYSTEM = ("nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2")
CARD = (
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetGpuMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetPersistenceMode",
)
PAIR = ("nvmlDeviceGetTopologyCommonAncestor",)
PEER = "nvmlDeviceGetP2PStatus"
PEER_KINDS = (0, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
ERROR = "error"


def play(name: str) -> ModuleType:
    """A `pynvml` that answers as in the recording of that name."""
    return play_recording(json.loads((_FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def play_recording(recording: Mapping[str, Any]) -> ModuleType:
    """A `pynvml` that answers so; its errors and constants are the real module's."""
    cards: list[dict[str, Any]] = recording.get("cards", [])
    module = ModuleType("played_pynvml")
    vars(module).update({name: value for name, value in vars(pynvml).items() if name.startswith("NVML")})
    vars(module).update(
        nvmlMemory_v2=pynvml.nvmlMemory_v2,
        nvmlInit=lambda: _answer({"nvmlInit": None, **recording}, "nvmlInit"),
        nvmlDeviceGetCount=lambda: len(cards),
        nvmlDeviceGetHandleByIndex=lambda index: cards[index],
        **{name: _system_function(recording, name) for name in SYSTEM},
        **{name: _card_function(name) for name in CARD},
        **{name: _pair_function(recording, cards, name) for name in PAIR},
    )

    def peer_status(first: dict[str, Any], second: dict[str, Any], kind: int) -> Any:  # noqa: ANN401 - NVML's
        return _answer(_pair(recording, cards, first, second), f"{PEER} {kind}")

    vars(module)[PEER] = peer_status
    return module


def record(nvml: ModuleType = pynvml) -> dict[str, Any]:
    """What the driver of this machine says now."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return {"nvmlInit": {ERROR: error.value}}
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    pairs = []
    for (i, one), (j, two) in combinations(enumerate(handles), 2):
        said = _recorded({name: (getattr(nvml, name), (one, two)) for name in PAIR})
        said |= _recorded({f"{PEER} {kind}": (getattr(nvml, PEER), (one, two, kind)) for kind in PEER_KINDS})
        pairs.append({"cards": [i, j], **said})
    return {
        **_recorded({name: (getattr(nvml, name), ()) for name in SYSTEM}),
        "cards": [_recorded({name: (_asker(nvml, name), (card,)) for name in CARD}) for card in handles],
        "pairs": pairs,
    }


def _asker(nvml: ModuleType, name: str) -> Callable[..., Any]:
    """The function of that name; memory as version 2 tells it, without the driver's own."""
    ask: Callable[..., Any] = getattr(nvml, name)
    if name == "nvmlDeviceGetMemoryInfo":
        return partial(ask, version=nvml.nvmlMemory_v2)
    return ask


def _recorded(questions: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for name, (ask, arguments) in questions.items():
        try:
            said[name] = _plain(ask(*arguments))
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_NOT_SUPPORTED:
                said[name] = {ERROR: error.value}
    return said


def _plain(value: Any) -> Any:  # noqa: ANN401 - whatever NVML answers
    """A structure as a dictionary of its fields."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    fields = getattr(value, "_fields_", None)
    if fields is None:
        return value if isinstance(value, int | str | float | None) else vars(value)
    return {name: getattr(value, name) for name, *_ in fields if not isinstance(getattr(value, name), bytes)}


def _answer(said: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - whatever NVML answers
    value = said.get(name, {ERROR: pynvml.NVML_ERROR_NOT_SUPPORTED})
    if isinstance(value, dict) and ERROR in value:
        raise pynvml.NVMLError(value[ERROR])
    if isinstance(value, list):
        return [SimpleNamespace(**one) if isinstance(one, dict) else one for one in value]
    return SimpleNamespace(**value) if isinstance(value, dict) else value


def _system_function(recording: Mapping[str, Any], name: str) -> Callable[[], Any]:
    return lambda: _answer(recording, name)


def _card_function(name: str) -> Callable[..., Any]:
    # a version that NVML is asked for makes no difference to what was recorded
    return lambda card, **_: _answer(card, name)


def _pair_function(
    recording: Mapping[str, Any], cards: list[dict[str, Any]], name: str
) -> Callable[..., Any]:
    return lambda first, second: _answer(_pair(recording, cards, first, second), name)


def _pair(
    recording: Mapping[str, Any], cards: list[dict[str, Any]], first: dict[str, Any], second: dict[str, Any]
) -> dict[str, Any]:
    places = [next(i for i, card in enumerate(cards) if card is one) for one in (first, second)]
    return next((pair for pair in recording.get("pairs", []) if pair["cards"] == sorted(places)), {})


if __name__ == "__main__":
    json.dump(record(), sys.stdout, indent=1)
