"""What is known of a server that has ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.outcome import Phase

SIGINT, SIGILL, SIGABRT, SIGKILL, SIGTERM = 2, 4, 6, 9, 15

#: A device with less than this part of its memory free was at its wall: what counts where no MiB are known.
WALL_FRACTION = 0.02
#: The same in MiB, for whatever a decode asks for: 2 % of a card of 24 GiB.
WALL_MIB = 512


@dataclass(frozen=True, slots=True)
class Death:
    """Everything that is known when a server has ended by itself or had to be ended."""

    log: str
    exit_code: int | None
    """As `subprocess` gives it, negative for a signal; None where it is not known, or the server lived."""
    phase: Phase
    endpoints: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """`host:port` of an RPC server to the engine's name of that device; what the log says is used too."""
    free_fraction: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """Part of a device's memory that was free at death, where the driver says."""
    free_mib: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """MiB of it; where they are known, they count and not the fraction."""
    killed_by_kernel: bool | None = None
    """Whether the kernel's out-of-memory killer ended it; None where nobody can say."""

    @property
    def memory_is_known(self) -> bool:
        """Whether anything is known about what was free."""
        return bool(self.free_mib or self.free_fraction)

    def fullest(self, below_mib: int = WALL_MIB) -> str | None:
        """The device that was at its wall, the fullest of several; None where none was.

        Args:
            below_mib: With less MiB than this free it was. NCCL's buffers need more than others.
        """
        full: dict[str, float] = {name: mib for name, mib in self.free_mib.items() if mib < below_mib}
        if not full:
            full = {
                name: fraction
                for name, fraction in self.free_fraction.items()
                if fraction < WALL_FRACTION and name not in self.free_mib
            }
        return min(full, key=lambda name: full[name]) if full else None

    def free_words(self, device: str) -> str:
        """What was free on a device, for people."""
        if device in self.free_mib:
            return f"{self.free_mib[device]:,} MiB of {device} free"
        return f"{self.free_fraction[device]:.1%} of {device} free"
