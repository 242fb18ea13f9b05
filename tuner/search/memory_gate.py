"""Keeps candidates from being launched that cannot fit, and counts them."""

from __future__ import annotations

import hashlib
from math import inf
from typing import TYPE_CHECKING

from tuner.core.memory.learned import Learned
from tuner.core.memory.need import DeviceNeed, Excess, chance_to_fit, tightest
from tuner.core.memory.observe import observations_of
from tuner.core.memory.oracle import sharpened
from tuner.core.memory.walls import Wall, first_wall, walls_of
from tuner.core.memory.words import NotLaunched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.memory.learned import Observation
    from tuner.core.memory.need import Prediction
    from tuner.core.memory.oracle import Oracle
    from tuner.core.memory.predict import Predictor
    from tuner.core.rig import Device
    from tuner.core.trial import TrialRecord

#: A candidate that fits with less than this probability is not launched.
LEAST_CHANCE = 0.1
#: Where the chance is between these the engine's own tool is worth its second.
_SURE, _HOPELESS = 0.99, 0.001
_KEY_CHARACTERS = 12
#: What the host's memory is called where devices have their names.
HOST = "host memory"


class MemoryGate:
    """Predicts, learns from trials, and turns candidates away.

    Args:
        predictor: Knows the model on the rig, and what was known of the rig before the study.
        devices: The rig's.
        reserve_mib: What has to stay free on each device, by name.
        source: Engine and model, for what is learned.
        oracle: The engine's own tool; None where there is none.
        host_room_mib: What may be used of the host's memory.
    """

    def __init__(
        self,
        predictor: Predictor,
        devices: Sequence[Device],
        *,
        reserve_mib: Mapping[str, int],
        source: str,
        oracle: Oracle | None = None,
        host_room_mib: float = inf,
    ) -> None:
        self._before = predictor.learned
        self._plain = predictor
        self._predictor = predictor
        self.devices = tuple(devices)
        self._source = source
        self._oracle = oracle
        self.host_room_mib = host_room_mib
        self._observed: dict[int, tuple[Observation, ...]] = {}
        self._walls: tuple[Wall, ...] = ()
        self.room_mib: Mapping[str, float] = {
            device.name: float(device.free_mib - reserve_mib.get(device.name, 0)) for device in devices
        }

    def begin_with(self, known: Sequence[Observation]) -> None:
        """Take this for what was known before the study, in the place of what the predictor came with."""
        self._before = Learned(tuple(known), self._source)

    @property
    def known_before(self) -> tuple[Observation, ...]:
        """What was known before the study."""
        return self._before.observations

    @property
    def predictor(self) -> Predictor:
        """With all that has been learned."""
        return self._predictor

    def learned_from(self, records: Sequence[TrialRecord]) -> tuple[Observation, ...]:
        """What trials have taught, beside what was known before."""
        return tuple(one for record in records for one in self._seen(record))

    def _seen(self, record: TrialRecord) -> tuple[Observation, ...]:
        """What one trial has taught; worked out once it has ended."""
        if record.result is None:
            return ()
        if record.number not in self._observed:
            self._observed[record.number] = observations_of([record], self._plain, self.devices, self._source)
        return self._observed[record.number]

    def learn(self, records: Sequence[TrialRecord]) -> None:
        """Take in all trials of the study: the same trials always teach the same."""
        known = Learned(self._before.observations, self._source)
        self._predictor = self._plain.with_learned(known.with_more(self.learned_from(records)))
        self._walls = walls_of(records, self._plain)

    def predict(self, candidate: Candidate) -> Prediction:
        """What a candidate needs; on the edge the engine's own tool is asked."""
        options = candidate.options
        query = self._predictor.query(options)
        prediction = self._predictor.predict_query(query)
        worst = tightest(prediction, self.room_mib)
        if self._oracle is None or worst is None or not _HOPELESS < worst.chance < _SURE:
            return prediction
        rows = self._oracle.ask(query, self._predictor.split_of(query))
        return prediction if rows is None else sharpened(prediction, rows)

    def chance_to_fit(self, candidate: Candidate) -> float:
        """The probability that a candidate fits, from 0 to 1."""
        prediction = self.predict(candidate)
        return 0.0 if self._beyond_ram(prediction) is not None else chance_to_fit(prediction, self.room_mib)

    def _beyond_ram(self, prediction: Prediction) -> Excess | None:
        """The host, where a candidate asks for more of its memory than may be used."""
        if prediction.host_total_mib <= self.host_room_mib:
            return None
        need = DeviceNeed(weights=prediction.host_mib, compute=prediction.host_compute_mib)
        return Excess(HOST, need, self.host_room_mib, chance=0.0)

    def excess(self, candidate: Candidate) -> Excess | None:
        """The device that a candidate exceeds, or the host; None where it may be launched."""
        prediction = self.predict(candidate)
        if (beyond := self._beyond_ram(prediction)) is not None:
            return beyond
        worst = tightest(prediction, self.room_mib)
        if worst is not None and worst.chance < LEAST_CHANCE:
            return worst
        wall = first_wall(self._walls, candidate, self._plain)
        if wall is None:
            return None
        return Excess(wall.device, prediction.devices[wall.device], self.room_mib[wall.device], chance=0.0)

    def turned_away(self, candidate: Candidate) -> NotLaunched | None:
        """For the record: why a candidate is not launched; None where it may be."""
        worst = self.excess(candidate)
        if worst is None:
            return None
        key = hashlib.blake2b(candidate.key().encode()).hexdigest()[:_KEY_CHARACTERS]
        return NotLaunched(key, worst.device, max(round(worst.over_mib), 1))
