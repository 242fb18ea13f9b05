"""The figures that NVML has of one card, each asked in the ways that its driver knows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pynvml

from tuner.core.telemetry import GpuReading, Throttle

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_BYTES_PER_MIB = 2**20
_KIB_PER_MIB = 1024
_MILLI_PER_UNIT = 1000

#: Bits of NVML's `nvmlClocksEventReason...`.
_THROTTLE_BITS = {
    0x001: Throttle.IDLE,
    0x002: Throttle.APPLICATIONS_CLOCKS,
    0x004: Throttle.SW_POWER_CAP,
    0x008: Throttle.HW_SLOWDOWN,
    0x010: Throttle.SYNC_BOOST,
    0x020: Throttle.SW_THERMAL,
    0x040: Throttle.HW_THERMAL,
    0x080: Throttle.HW_POWER_BRAKE,
    0x100: Throttle.DISPLAY_CLOCK,
}

#: This driver or this card will never answer; any other refusal is of the moment.
_REFUSED = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
_LOST = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})

#: Errors after which a card computes nothing more: memory that cannot be corrected, a halted controller, fallen
#: off the bus, a system processor that is silent. Most others are the doing of the program that ran.
_FATAL_XIDS = frozenset({48, 62, 79, 95, 119, 120, 140})
_MAX_XIDS = 16
"""So many are read at a time: a card that reports without end must not keep the reader."""


class GpuLostError(Exception):
    """A card has gone; a sign between the modules that read it, which never reaches a run."""


class GpuFigures:
    """One card, asked again and again.

    A query that the driver refuses costs that field alone, and is not asked again.

    Args:
        nvml: The `pynvml` module, started.
        uuid: The card.
        device: The engine's name of it.
        make_call: Makes each call into the driver; may raise instead, which ends the reading.

    Raises:
        pynvml.NVMLError: There is no such card.
        GpuLostError: The card has gone.
    """

    def __init__(
        self, nvml: ModuleType, uuid: str, device: str, make_call: Callable[[Callable[[], Any]], Any]
    ) -> None:
        self._device = device
        self._make_call = make_call
        try:
            card = make_call(partial(nvml.nvmlDeviceGetHandleByUUID, uuid))
        except pynvml.NVMLError as error:
            _raise_if_lost(error)
            raise
        self._memory = self._query(
            # Version 2 keeps the driver's reserve out of `used`; drivers before 510 know only version 1.
            partial(nvml.nvmlDeviceGetMemoryInfo, card, version=nvml.nvmlMemory_v2),
            partial(nvml.nvmlDeviceGetMemoryInfo, card),
        )
        self._utilisation = self._query(partial(nvml.nvmlDeviceGetUtilizationRates, card))
        self._power_mw = self._query(partial(nvml.nvmlDeviceGetPowerUsage, card))
        self._temperature_c = self._query(
            partial(nvml.nvmlDeviceGetTemperature, card, nvml.NVML_TEMPERATURE_GPU)
        )
        self._sm_clock_mhz = self._query(partial(nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_SM))
        self._mem_clock_mhz = self._query(partial(nvml.nvmlDeviceGetClockInfo, card, nvml.NVML_CLOCK_MEM))
        self._throttle_bits = self._query(
            partial(nvml.nvmlDeviceGetCurrentClocksEventReasons, card),
            partial(nvml.nvmlDeviceGetCurrentClocksThrottleReasons, card),  # its name in older drivers
        )
        self._pcie_gen = self._query(partial(nvml.nvmlDeviceGetCurrPcieLinkGeneration, card))
        self._pcie_width = self._query(partial(nvml.nvmlDeviceGetCurrPcieLinkWidth, card))
        self._tx_kib_s = self._query(
            partial(nvml.nvmlDeviceGetPcieThroughput, card, nvml.NVML_PCIE_UTIL_TX_BYTES)
        )
        self._rx_kib_s = self._query(
            partial(nvml.nvmlDeviceGetPcieThroughput, card, nvml.NVML_PCIE_UTIL_RX_BYTES)
        )
        self._energy_mj = self._query(partial(nvml.nvmlDeviceGetTotalEnergyConsumption, card))
        self._xid = self._query()
        self._end_of_xids = self._query()
        self._listen_for_xids(nvml, card)

    def read(self, time_s: float, *, with_traffic: bool) -> GpuReading:
        """All figures now.

        Args:
            time_s: The time to put on it.
            with_traffic: Whether to ask for the link's traffic too, which the driver counts for 20 ms in each
                direction before it answers.

        Raises:
            GpuLostError: The card has gone.
        """
        memory = self._memory.ask()
        utilisation = self._utilisation.ask()
        throttle_bits = self._throttle_bits.ask()
        return GpuReading(
            device=self._device,
            time_s=time_s,
            used_mib=None if memory is None else memory.used // _BYTES_PER_MIB,
            utilisation_pct=None if utilisation is None else utilisation.gpu,
            memory_utilisation_pct=None if utilisation is None else utilisation.memory,
            power_w=_divided(self._power_mw.ask(), _MILLI_PER_UNIT),
            temperature_c=self._temperature_c.ask(),
            sm_clock_mhz=self._sm_clock_mhz.ask(),
            mem_clock_mhz=self._mem_clock_mhz.ask(),
            throttle=None if throttle_bits is None else _reasons(throttle_bits),
            pcie_gen=self._pcie_gen.ask(),
            pcie_width=self._pcie_width.ask(),
            pcie_tx_mib_s=_divided(self._tx_kib_s.ask(), _KIB_PER_MIB) if with_traffic else None,
            pcie_rx_mib_s=_divided(self._rx_kib_s.ask(), _KIB_PER_MIB) if with_traffic else None,
            energy_j=_divided(self._energy_mj.ask(), _MILLI_PER_UNIT),
        )

    def new_xids(self) -> list[int]:
        """The driver's error numbers (XID) since the last call, whichever process they were for.

        Raises:
            GpuLostError: One of them is the end of the card.
        """
        xids: list[int] = []
        while len(xids) < _MAX_XIDS and (event := self._xid.ask()) is not None:
            if event.eventData in _FATAL_XIDS:
                raise GpuLostError(f"XID {event.eventData}")
            xids.append(event.eventData)
        return xids

    def close(self) -> None:
        """Give back what the driver keeps for the reader.

        Raises:
            GpuLostError: The card has gone.
        """
        self._end_of_xids.ask()

    def _listen_for_xids(self, nvml: ModuleType, card: object) -> None:
        events = self._query(nvml.nvmlEventSetCreate).ask()
        if events is None:
            return
        self._end_of_xids = self._query(partial(nvml.nvmlEventSetFree, events))
        register = self._query(
            partial(nvml.nvmlDeviceRegisterEvents, card, nvml.nvmlEventTypeXidCriticalError, events)
        )
        register.ask()
        if not register.refused:
            # Without waiting: where there is no event it is a timeout, which is None.
            self._xid = self._query(partial(nvml.nvmlEventSetWait_v2, events, 0))

    def _query(self, *ways: Callable[[], Any]) -> _Query:
        return _Query(self._make_call, *ways)


class _Query:
    """One question, with the ways to ask it, the best first."""

    def __init__(self, make_call: Callable[[Callable[[], Any]], Any], *ways: Callable[[], Any]) -> None:
        self._make_call = make_call
        self._ways = list(ways)

    @property
    def refused(self) -> bool:
        """Whether no way is left."""
        return not self._ways

    def ask(self) -> Any:  # noqa: ANN401 - pynvml has no types
        """The answer; None where there is none now, or never will be."""
        while self._ways:
            try:
                return self._make_call(self._ways[0])
            except pynvml.NVMLError as error:
                _raise_if_lost(error)
                if error.value not in _REFUSED:
                    return None
                del self._ways[0]
        return None


def _raise_if_lost(error: pynvml.NVMLError) -> None:
    if error.value in _LOST:
        raise GpuLostError(str(error)) from error


def _divided(amount: int | None, by: int) -> float | None:
    return None if amount is None else amount / by


def _reasons(bits: int) -> frozenset[str]:
    return frozenset(reason for bit, reason in _THROTTLE_BITS.items() if bits & bit)
