"""One look at the rig for a whole run: ready before a launch, watched during it, compared after it."""

from __future__ import annotations

import contextlib
import os
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.disturbance import others_mib, usual_others_mib
from tuner.core.monitoring import RigReport
from tuner.core.readiness import Settled
from tuner.core.telemetry import summarise
from tuner.errors import ResultsError
from tuner.rig.cool_down import read_temperatures_c, wait_until_cool
from tuner.rig.guarded import Guarded
from tuner.rig.memory_settle import read_holders, wait_until_back
from tuner.rig.nvml import free_mib_by_uuid
from tuner.rig.rpc_endpoints import wait_until_accepting
from tuner.rig.telemetry import TelemetrySampler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tuner.core.rig import DeviceUser, Rig


class RigMonitor:
    """Watches the cards that the driver knows; of others nothing is known, and nothing is waited for.

    Args:
        rig: The devices, as they were before the first launch.
        cool_to_c: Temperature that every card has to be down to before a launch; None for no wait.
    """

    def __init__(self, rig: Rig, *, cool_to_c: int | None = None) -> None:
        self._names = {device.uuid: device.name for device in rig.devices if device.uuid is not None}
        self._endpoints = {d.description: d.name for d in rig.devices if d.name.startswith("RPC")}
        self._cool_to_c = cool_to_c
        # a driver may hang in any call: each kind of question has one thread that it can keep, and no more
        self._free_mib: Guarded[Mapping[str, int]] = Guarded(self._read_free_mib, otherwise={})
        self._temperatures_c: Guarded[Mapping[str, int]] = Guarded(
            lambda: read_temperatures_c(self._names), otherwise={}
        )
        self._holders: Guarded[Mapping[str, tuple[DeviceUser, ...]]] = Guarded(
            lambda: read_holders(self._names, [os.getpid()]), otherwise={}
        )
        self._baseline_mib = self._free_mib()
        self._others_before_mib: Mapping[str, int] = self._others_mib(None)
        self._others_in_trials: list[Mapping[str, int]] = []
        self._sampler: TelemetrySampler | None = None

    def ready(self, sleep: Callable[[float], object]) -> list[str]:
        """Wait until servers accept, memory is back, cards are cool; sentences on what is not so all the same.

        What does not come back in time is the state of the rig from then on: it is said once, and is no reason
        to lose the rest of a night.

        Args:
            sleep: Waits some seconds; may raise to end the wait.
        """
        sentences = [
            f"the RPC server of {name} does not accept connections; start its ggml-rpc-server again"
            for name in wait_until_accepting(self._endpoints, sleep=sleep)
        ]
        settled = wait_until_back(self._baseline_mib, self._free_mib, holders=self._holders, sleep=sleep)
        if not isinstance(settled, Settled):
            sentences.append(settled.message)
            self._baseline_mib = self._free_mib()
        if self._cool_to_c is not None and self._names:
            cool = wait_until_cool(self._temperatures_c, self._cool_to_c, sleep=sleep)
            if not isinstance(cool, Settled):
                sentences.append(cool.message)
        return sentences

    def begin(self) -> None:
        """A launch begins."""
        self._sampler = TelemetrySampler(self._names)
        self._sampler.start()

    def end(self, *, since_s: float, until_s: float, own_pid: int | None, raw: Path) -> RigReport:
        """A launch has ended.

        Args:
            since_s: When its measuring began, in seconds after `begin`.
            until_s: When it ended.
            own_pid: The server's.
            raw: Where the series goes; nothing is written where there is none.
        """
        sampler = self._sampler
        if sampler is None or not self._names:
            return RigReport()
        sampler.stop()
        with contextlib.suppress(ResultsError):  # a full disk ends the run where something is lost by it
            sampler.write(raw)
        before_mib = self._others_before_mib
        now_mib = self._others_mib(own_pid)
        self._others_in_trials.append(now_mib)
        self._others_before_mib = usual_others_mib(before_mib, self._others_in_trials)
        return RigReport(
            summaries=MappingProxyType(summarise(sampler.window(since_s, until_s))),
            others_before_mib=before_mib,
            others_now_mib=now_mib,
            lost=sampler.lost,
        )

    def _read_free_mib(self) -> Mapping[str, int]:
        return {self._names[uuid]: free for uuid, free in free_mib_by_uuid(self._names).items()}

    def _others_mib(self, own_pid: int | None) -> dict[str, int]:
        return {
            device: others_mib(user for user in users if user.pid != own_pid)
            for device, users in self._holders().items()
        }
