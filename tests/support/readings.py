"""Strategies for what a driver says of its cards."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.support.strategies import DEVICE_NAMES
from tuner.core.telemetry import GpuReading, Throttle

_whole = st.none() | st.integers(0, 100_000)
_amount = st.none() | st.floats(0, 1e6)

readings: st.SearchStrategy[GpuReading] = st.builds(
    GpuReading,
    device=st.sampled_from(DEVICE_NAMES[:3]),
    time_s=st.floats(0, 1e5),
    used_mib=_whole,
    utilisation_pct=st.none() | st.integers(0, 100),
    memory_utilisation_pct=st.none() | st.integers(0, 100),
    power_w=_amount,
    temperature_c=st.none() | st.integers(0, 110),
    sm_clock_mhz=_whole,
    mem_clock_mhz=_whole,
    throttle=st.none() | st.frozensets(st.sampled_from([reason.value for reason in Throttle])),
    pcie_gen=st.none() | st.integers(1, 6),
    pcie_width=st.none() | st.sampled_from([1, 4, 8, 16]),
    pcie_tx_mib_s=_amount,
    pcie_rx_mib_s=_amount,
    energy_j=_amount,
)
