"""The devices that a log speaks of."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_META = "Meta()"
#: Host memory, by the names that buffers and devices have.
_HOST = re.compile(r"CPU(?:_\w+)?|\w+_Host")
HOST = "CPU"

# llama.cpp:306 (trace), and in tensor mode the list before it; the list at start; ggml_cuda_init
_USING = re.compile(r"using device (\S+) \((.*?)\) \(([^()]*)\) - (\d{1,18}) MiB free")
_USING_OLD = re.compile(r"using device (\S+) \(([^()]*)\) - (\d{1,18}) MiB free")
_OF_META = re.compile(r" - device \d+: (\S+) \((.*)\)")
_LISTED = re.compile(r" - ([A-Za-z]+\d+) *: (.*) \(\d+ MiB, (\d{1,18}) MiB free\)")
_CAPABILITY = re.compile(r"Device (\d{1,9}): (.+?), (?:compute capability (\d{1,9})\.(\d{1,9})|(gfx\w+))")
_FOUND = re.compile(r"found \d+ (CUDA|ROCm|MUSA) devices")
_NAMED = re.compile(r"\b(CUDA|ROCm|MUSA|Vulkan|SYCL)\d")
_CURRENT = re.compile(r"current device: (\d+)")
_ENDPOINT = re.compile(r"\S+:\d+")


@dataclass(frozen=True, slots=True)
class LogDevice:
    """A device as a log describes it."""

    name: str
    """The engine's name: CUDA0, ROCm1, Vulkan0, RPC0."""
    description: str = ""
    bus_id: str | None = None
    free_mib: int | None = None
    """Free before anything was loaded."""
    architecture: str | None = None
    """What a build has to be compiled for: `86` of compute capability 8.6, or `gfx1100`."""

    @property
    def back_end(self) -> str:
        """The back end that drives it: CUDA, ROCm, Vulkan, RPC."""
        return self.name.rstrip("0123456789")

    def words(self) -> str:
        """What people call it."""
        parts = [self.description or "no description in the log"]
        if self.bus_id is not None:
            parts.append(f"at {self.bus_id}")
        if self.free_mib is not None:
            parts.append(f"with {self.free_mib:,} MiB free at the start")
        return f"{self.name}: {' '.join(parts)}"


def devices(log: str) -> tuple[LogDevice, ...]:
    """The devices that are used, in their order; those that are there where the log does not say so much."""
    known = {device.name: device for device in _listed(log)}
    used: dict[str, LogDevice] = {}
    for match in _OF_META.finditer(log):
        used[match[1]] = LogDevice(match[1], match[2])
    for match in _USING.finditer(log):
        bus_id = match[3] if ":" in match[3] else None
        used[match[1]] = LogDevice(match[1], match[2], bus_id, int(match[4]))
    if not used:
        used = {m[1]: LogDevice(m[1], m[2], None, int(m[3])) for m in _USING_OLD.finditer(log)}
    used.pop(_META, None)
    if not used:
        return tuple(known.values())
    return tuple(
        replace(
            device,
            free_mib=device.free_mib if device.free_mib is not None else known[name].free_mib,
            architecture=known[name].architecture,
        )
        if name in known
        else device
        for name, device in used.items()
    )


def _listed(log: str) -> list[LogDevice]:
    found = {m[1]: LogDevice(m[1], m[2], None, int(m[3])) for m in _LISTED.finditer(log)}
    for match in _CAPABILITY.finditer(log):
        name = f"{gpu_back_end(log)}{match[1]}"
        architecture = match[5] or f"{match[3]}{match[4]}"
        found[name] = replace(found.get(name, LogDevice(name, match[2])), architecture=architecture)
    return [device for name, device in found.items() if not is_host(name)]


def gpu_back_end(log: str) -> str:
    """What the numbers of `device N` count: CUDA, unless only ROCm or MUSA is spoken of."""
    spoken_of = {match[1] for match in (*_FOUND.finditer(log), *_NAMED.finditer(log))}
    spoken_of |= {name for name in ("CUDA", "ROCm", "MUSA") if f"{name} error" in log}
    return next((name for name in ("CUDA", "ROCm", "MUSA") if name in spoken_of), "CUDA")


def current_device(log: str) -> str | None:
    """The device that a CUDA or ROCm error happened on: it stands on the line after the error."""
    match = _CURRENT.search(log)
    if match is None:
        return None
    back_end = next((name for name in ("CUDA", "ROCm", "MUSA") if f"{name} error" in log), None)
    return f"{back_end or gpu_back_end(log)}{match[1]}"


def is_host(name: str) -> bool:
    """Whether a buffer or device of that name is host memory."""
    return _HOST.fullmatch(name) is not None


def endpoints(log: str) -> dict[str, str]:
    """`host:port` of RPC servers to the names of their devices."""
    return {
        device.description: device.name
        for device in devices(log)
        if _ENDPOINT.fullmatch(device.description) is not None
    }
