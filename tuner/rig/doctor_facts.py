"""What NVIDIA's driver says of how cards are built in: links, memory windows, ways between them, power."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, TypeVar

import pynvml

from tuner.core.checkup.facts import CardFacts, CardPair, DriverFacts, PeerAccess, Topology

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from tuner.rig.nvml import NvidiaGpu, NvmlReading

_BYTES_PER_MIB = 2**20
_MW_PER_W = 1000
#: pynvml's own constant is a tuple by a stray comma.
_PEER_READ = 0

_TOPOLOGY = {
    pynvml.NVML_TOPOLOGY_INTERNAL: Topology.BOARD,
    pynvml.NVML_TOPOLOGY_SINGLE: Topology.SWITCH,
    pynvml.NVML_TOPOLOGY_MULTIPLE: Topology.SWITCHES,
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: Topology.BRIDGE,
    pynvml.NVML_TOPOLOGY_NODE: Topology.NODE,
    pynvml.NVML_TOPOLOGY_SYSTEM: Topology.SYSTEM,
}
_ACCESS = {
    pynvml.NVML_P2P_STATUS_OK: PeerAccess.POSSIBLE,
    pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED: PeerAccess.CHIPSET,
    pynvml.NVML_P2P_STATUS_GPU_NOT_SUPPORTED: PeerAccess.CARD,
    pynvml.NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED: PeerAccess.TOPOLOGY,
    pynvml.NVML_P2P_STATUS_DISABLED_BY_REGKEY: PeerAccess.DISABLED,
    pynvml.NVML_P2P_STATUS_NOT_SUPPORTED: PeerAccess.NO,
}

_Answer = TypeVar("_Answer")


def read_driver(reading: NvmlReading, *, nvml: ModuleType = pynvml) -> DriverFacts:
    """Ask about every card of a reading, and about every pair of them.

    Any question may be refused (not supported, no permission, too old): it costs that fact alone.

    Args:
        reading: What `read_gpus` has found; it has also started NVML.
        nvml: The `pynvml` module.
    """
    if not reading.gpus:
        return DriverFacts(version=reading.driver)
    cuda = _ask(nvml, nvml.nvmlSystemGetCudaDriverVersion_v2)
    handles = {gpu.index: _open(nvml, gpu) for gpu in reading.gpus}
    return DriverFacts(
        version=reading.driver,
        cuda=None if cuda is None else (cuda // 1000, cuda % 1000 // 10),
        cards=tuple(_read_card(nvml, gpu, handles[gpu.index]) for gpu in reading.gpus),
        pairs=tuple(_read_pair(nvml, one, two, handles) for one, two in combinations(handles, 2)),
    )


def _ask(nvml: ModuleType, question: Callable[..., _Answer], *about: object) -> _Answer | None:
    """The answer; None if it is refused, or if a card that it is about could not be opened."""
    if None in about:
        return None
    try:
        return question(*about)
    except nvml.NVMLError:
        return None


def _open(nvml: ModuleType, gpu: NvidiaGpu) -> object:
    return _ask(nvml, nvml.nvmlDeviceGetHandleByIndex, gpu.index)


def _read_card(nvml: ModuleType, gpu: NvidiaGpu, handle: object) -> CardFacts:
    def ask(question: Callable[[object], _Answer]) -> _Answer | None:
        return _ask(nvml, question, handle)

    capability = ask(nvml.nvmlDeviceGetCudaComputeCapability)
    generation = ask(nvml.nvmlDeviceGetCurrPcieLinkGeneration)
    width = ask(nvml.nvmlDeviceGetCurrPcieLinkWidth)
    bar1 = ask(nvml.nvmlDeviceGetBAR1MemoryInfo)
    range_mw = ask(nvml.nvmlDeviceGetPowerManagementLimitConstraints)
    persistence = ask(nvml.nvmlDeviceGetPersistenceMode)
    return CardFacts(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        bus_id=gpu.bus_id,
        total_mib=gpu.total_mib,
        capability=None if capability is None else (capability[0], capability[1]),
        pcie_max_generation=ask(nvml.nvmlDeviceGetMaxPcieLinkGeneration),
        pcie_card_generation=ask(nvml.nvmlDeviceGetGpuMaxPcieLinkGeneration),
        pcie_max_width=ask(nvml.nvmlDeviceGetMaxPcieLinkWidth),
        pcie_now=None if generation is None or width is None else (generation, width),
        pcie_replays=ask(nvml.nvmlDeviceGetPcieReplayCounter),
        bar1_mib=None if bar1 is None else bar1.bar1Total // _BYTES_PER_MIB,
        power_limit_w=_watts(ask(nvml.nvmlDeviceGetPowerManagementLimit)),
        power_default_w=_watts(ask(nvml.nvmlDeviceGetPowerManagementDefaultLimit)),
        power_max_w=None if range_mw is None else _watts(range_mw[1]),
        persistence=None if persistence is None else bool(persistence),
    )


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / _MW_PER_W


def _read_pair(nvml: ModuleType, one: int, two: int, handles: dict[int, object]) -> CardPair:
    pair = handles[one], handles[two]
    level = _ask(nvml, nvml.nvmlDeviceGetTopologyCommonAncestor, *pair)
    access = _ask(nvml, nvml.nvmlDeviceGetP2PStatus, *pair, _PEER_READ)
    nvlink = _ask(nvml, nvml.nvmlDeviceGetP2PStatus, *pair, nvml.NVML_P2P_CAPS_INDEX_NVLINK)
    return CardPair(
        first=one,
        second=two,
        topology=None if level is None else _TOPOLOGY.get(level),
        access=None if access is None else _ACCESS.get(access),
        nvlink=None if nvlink is None else nvlink == nvml.NVML_P2P_STATUS_OK,
    )
