"""Reads the cards a few times a second beside a launch, and can neither hold it up nor end it.

Any call into a driver may hang, for seconds or for good. All of them are made by a thread that nobody waits
for; whoever asks gets what there is so far.
"""

from __future__ import annotations

import json
import time
from collections import deque
from functools import partial
from itertools import count
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakKeyDictionary

import pynvml

from tuner.core.rig import Rig
from tuner.errors import ResultsError
from tuner.rig.gpu_figures import GpuFigures, GpuLostError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import ModuleType, TracebackType

    from tuner.core.telemetry import GpuReading

_Result = TypeVar("_Result")

_MAX_READINGS = 50_000
"""Two cards for more than an hour; then the oldest go."""
_TRAFFIC_EVERY = 5
"""The link's traffic is asked for in each fifth round: its answer takes 20 ms a direction."""
_HANGS_AFTER_S = 10.0
"""A driver that has to start first takes seconds; one that takes longer is not coming back soon."""
_STOP_S = 0.25
"""How long the end of the thread is waited for: longer than any call that does not hang."""

_left_behind: WeakKeyDictionary[ModuleType, Thread] = WeakKeyDictionary()
"""The thread that was in a call when its sampler was stopped, by the module it called."""


class TelemetrySampler:
    """Reads cards at an even pace from `start` to `stop`: a context manager.

    Where there is no driver, no such card, or a driver that hangs since an earlier sampler, there are no
    readings, and nothing else changes.

    Args:
        devices: The rig, or the engine's names of the cards by UUID; devices without a UUID are not read.
        nvml: The `pynvml` module.
        period_s: Seconds from one round to the next.
        clock: Seconds.
    """

    def __init__(
        self,
        devices: Rig | Mapping[str, str],
        *,
        nvml: ModuleType = pynvml,
        period_s: float = 0.2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(devices, Rig):
            devices = {device.uuid: device.name for device in devices.devices if device.uuid is not None}
        self._names = dict(devices)
        self._nvml = nvml
        self._period_s = period_s
        self._clock = clock
        self._began_s: float | None = None
        self._stopping = Event()
        self._thread: Thread | None = None
        # Held for moments only, never in a call into the driver.
        self._lock = Lock()
        self._readings: deque[GpuReading] = deque(maxlen=_MAX_READINGS)
        self._lost: dict[str, str] = {}
        self._xids: list[tuple[str, int]] = []
        self._problem: str | None = None
        self._call_began_s: float | None = None

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Begin to read; returns at once. A sampler starts once."""
        if self._began_s is not None:
            return
        self._began_s = self._clock()
        if not self._names:
            return
        earlier = _left_behind.get(self._nvml)
        if earlier is not None and earlier.is_alive():
            self._problem = "NVML hangs since an earlier launch: no telemetry"
            return
        _left_behind.pop(self._nvml, None)
        thread = Thread(target=self._run, name="telemetry", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system gives no thread
            self._problem = f"no telemetry: {error}"
        else:
            self._thread = thread

    def stop(self) -> None:
        """End the readings; a call that hangs is left to itself."""
        self._stopping.set()
        if self._thread is None:
            return
        self._thread.join(_STOP_S)
        if self._thread.is_alive():
            _left_behind[self._nvml] = self._thread

    def mark(self) -> float:
        """This moment, in seconds since the start: an end of a `window`."""
        return 0.0 if self._began_s is None else self._clock() - self._began_s

    def window(self, since_s: float = 0.0, until_s: float | None = None) -> tuple[GpuReading, ...]:
        """The readings between two marks; up to now if there is no second one."""
        with self._lock:
            readings = tuple(self._readings)
        return tuple(
            one for one in readings if since_s <= one.time_s and (until_s is None or one.time_s <= until_s)
        )

    @property
    def lost(self) -> str | None:
        """Which card has gone, and what says so; None while all are there."""
        with self._lock:
            return "; ".join(f"{device}: {why}" for device, why in self._lost.items()) or None

    @property
    def xids(self) -> tuple[tuple[str, int], ...]:
        """Device and number of each error that the driver reported, of whichever process."""
        with self._lock:
            return tuple(self._xids)

    @property
    def problem(self) -> str | None:
        """Why there are no readings, or no more; None where all is well."""
        began_s = self._call_began_s
        if self._thread is not None and self._thread.is_alive() and began_s is not None:
            silent_s = self._clock() - began_s
            if silent_s > _HANGS_AFTER_S or self._stopping.is_set():
                return f"NVML has not answered for {silent_s:.0f} s"
        return self._problem

    def write(self, path: Path) -> None:
        """Write all readings, one line of JSON each; no file where there are none.

        Raises:
            ResultsError: The file cannot be written.
        """
        readings = self.window()
        if not readings:
            return
        try:
            with path.open("w", encoding="utf-8") as stream:
                stream.writelines(json.dumps(one.to_json(), separators=(",", ":")) + "\n" for one in readings)
        except OSError as error:
            raise ResultsError(f"{path} cannot be written: {error.strerror or error}") from error

    def _run(self) -> None:
        cards: dict[str, GpuFigures] = {}
        try:
            self._call(self._nvml.nvmlInit)
            for uuid, device in self._names.items():
                card = self._open(uuid, device)
                if card is not None:
                    cards[device] = card
            self._read_all(dict(cards))
            for device, card in cards.items():
                self._unless_lost(device, card.close)
        except Exception as error:  # noqa: BLE001 - whatever the driver does, the run goes on without it
            self._problem = f"no telemetry: {error}"

    def _open(self, uuid: str, device: str) -> GpuFigures | None:
        try:
            return self._unless_lost(device, lambda: GpuFigures(self._nvml, uuid, device, self._call))
        except self._nvml.NVMLError as error:  # of this card; there may be others
            self._problem = f"no telemetry of {device}: {error}"
            return None

    def _read_all(self, cards: dict[str, GpuFigures]) -> None:
        due_s = self._clock()
        for number in count():
            if not cards or self._stopping.wait(max(due_s - self._clock(), 0.0)):
                return
            for device, card in list(cards.items()):
                if self._stopping.is_set():
                    return
                with_traffic = number % _TRAFFIC_EVERY == 0
                self._unless_lost(device, partial(self._read, device, card, with_traffic=with_traffic))
                if device in self._lost:
                    del cards[device]
            due_s = max(due_s + self._period_s, self._clock())  # a round that was missed is not made up for

    def _read(self, device: str, card: GpuFigures, *, with_traffic: bool) -> None:
        reading = card.read(self.mark(), with_traffic=with_traffic)
        xids = card.new_xids()
        with self._lock:
            if not self._stopping.is_set():  # an answer that comes when nobody waits any more
                self._readings.append(reading)
                self._xids.extend((device, xid) for xid in xids)

    def _unless_lost(self, device: str, action: Callable[[], _Result]) -> _Result | None:
        try:
            return action()
        except GpuLostError as error:
            with self._lock:
                self._lost[device] = str(error)
            return None

    def _call(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - pynvml has no types
        self._call_began_s = self._clock()
        try:
            return call()
        finally:
            self._call_began_s = None
