"""A night on a played RTX 5080 beside an RTX 3090: what a report of it is made of."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tests.bench.task import task_of
from tests.support.played_rigs import simulated
from tests.support.trials import a_launch, confirm
from tuner.core.launch import ENGINE_DEFAULT, LaunchResult
from tuner.core.memory.predict import Predictor
from tuner.core.memory.words import NotLaunched
from tuner.core.outcome import Outcome
from tuner.core.soak import Soaked
from tuner.core.telemetry import GpuReading, summarise
from tuner.core.trial import Errand, Purpose, TrialRecord
from tuner.importances import importances
from tuner.report.view.inputs import ReportInputs
from tuner.report.view.walls import walls_of_modes
from tuner.search.confirmation.leaders import leaders_of
from tuner.search.confirmation.result import winner_of
from tuner.search.confirmation.state import Confirmation
from tuner.search.confirmation.verdict import Plan
from tuner.search.coordinates import complete
from tuner.search.memory_gate import MemoryGate
from tuner.simulate.launcher import SimulatedRig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.candidate import Candidate
    from tuner.core.options import Value
    from tuner.search.confirmation.state import Wanted

RIG = "rtx5080-3090"
CONTEXT, BLOCKS = 65_536, 4
_Q8_0: dict[str, Value] = {"cache-type-k": "q8_0", "cache-type-v": "q8_0"}


def _with(mode: str, split: tuple[int, ...], depth: int = 0, **more: Value) -> dict[str, Value]:
    options: dict[str, Value] = {"split-mode": mode, "tensor-split": split}
    if depth:
        options |= {"spec-type": "draft-mtp", "spec-draft-n-max": depth}
    return options | {name.replace("_", "-"): value for name, value in more.items()}


TRIED: tuple[dict[str, Value], ...] = (
    _with("layer", (28, 38)),
    _with("layer", (40, 26)),  # too much for the RTX 5080
    _with("tensor", (2, 3)),
    _with("tensor", (2, 3), 2),
    _with("tensor", (2, 3), 3),
    _with("tensor", (2, 3), 4, ubatch_size=256),
    _with("tensor", (2, 3), 6),
    _with("tensor", (9, 11), 3),
    _with("tensor", (7, 13), 3),
    _with("tensor", (3, 7), 3),
    _with("layer", (28, 38), 2),
    _with("layer", (30, 36), 4),
    _with("layer", (24, 42), 4),
    _with("layer", (26, 40), 6, ubatch_size=128),
    _with("tensor", (19, 31), 3, ubatch_size=256),
    _with("none", (), 3, device=("CUDA1",)),
)
_BEGAN_S = 1_800_000_000.0
_RESERVE_MIB = {"CUDA0": 256, "CUDA1": 256}
_READINGS_A_SECOND = 5


class _Night:
    def __init__(self) -> None:
        rig = simulated(RIG).rig
        self.played = SimulatedRig(replace(rig, workload=replace(rig.workload, ctx=CONTEXT)))
        self.task = task_of(self.played)
        self.dice = random.Random(11)  # noqa: S311 - no secret
        self.splits = self.task.bound.splits
        self.memory = MemoryGate(
            Predictor(self.splits, self.task.devices),
            self.task.devices,
            reserve_mib=_RESERVE_MIB,
            source="played",
        )

    def launch(self, candidate: Candidate | None) -> LaunchResult:
        """What a launch comes to, and what a driver would have said meanwhile."""
        result = self.played.launch(candidate, self.dice)
        if not result.samples:
            return result
        free = self.free_mib(candidate)
        mode = "layer" if candidate is None else str(candidate.get("split-mode"))
        rows = readings(result, mode, {device.name: device.total_mib for device in self.task.devices}, free)
        since_s = result.load_s + result.warmup_s
        measured = [row for row in rows if row.time_s >= since_s]
        return replace(result, telemetry=MappingProxyType(summarise(measured)), free_mib=free)

    def free_mib(self, candidate: Candidate | None) -> dict[str, int]:
        """What a launch leaves on each card."""
        room = {device.name: device.free_mib for device in self.task.devices}
        if candidate is None:
            return {name: mib // 8 for name, mib in room.items()}
        needs = self.memory.predict(candidate).devices
        return {name: max(room[name] - round(need.total), 0) for name, need in needs.items()}

    def searched(self) -> list[TrialRecord]:
        """The engine's default, then candidates in all split modes, some of which do not fit."""
        records = [_record(0, None, self.launch(None))]
        for options in TRIED:
            one = complete(self.task.bound, {**_Q8_0, **options})
            records.append(_record(len(records), one, self.launch(one)))
        return records

    def confirmed(self, records: Sequence[TrialRecord]) -> tuple[Confirmation, list[TrialRecord]]:
        """The leaders and the reference in turns."""
        arms = tuple(record.key for record in leaders_of(records))[:2]
        candidates = {record.key: record.candidate for record in records}

        def launch(step: Wanted, _tries: int) -> LaunchResult:
            return self.launch(candidates[step.arm])

        begun = Confirmation(1, Plan(arms, (f"reference:{ENGINE_DEFAULT}",), BLOCKS, 0.01), (None, None))
        made = confirm(begun, launch, first_number=len(records))
        return replace(made.confirmation, ended=True), [*records, *map(_with_argv, made.records)]


def readings(
    result: LaunchResult, mode: str, total_mib: dict[str, int], free_mib: dict[str, int]
) -> list[GpuReading]:
    """What a driver would say of two cards, five times a second, from the start of the server on."""
    busy = {"layer": (47, 50), "tensor": (88, 81), "none": (97, 0)}.get(mode, (50, 50))
    since_s = result.load_s + result.warmup_s
    end_s = since_s + max(sample.began_s + sample.wall_s for sample in result.samples)
    rows = []
    for step in range(int(end_s * _READINGS_A_SECOND)):
        at_s = step / _READINGS_A_SECOND
        for (device, total), used_pct in zip(total_mib.items(), busy, strict=True):
            works = at_s >= since_s and used_pct > 0
            rows.append(
                GpuReading(
                    device,
                    at_s,
                    used_mib=total - free_mib.get(device, total),
                    utilisation_pct=used_pct if works else 0,
                    power_w=(90.0 + 2 * used_pct) if works else 25.0,
                    temperature_c=64 if works else 41,
                    sm_clock_mhz=2610 if device == "CUDA0" else 1710,
                    pcie_gen=5 if device == "CUDA0" else 4,
                    pcie_width=16 if device == "CUDA0" else 4,
                    pcie_tx_mib_s=120.0 if works else 0.0,
                    pcie_rx_mib_s=35.0 if works else 0.0,
                )
            )
    return rows


@cache
def played_night() -> ReportInputs:
    """The whole of it."""
    night = _Night()
    confirmation, records = night.confirmed(night.searched())
    key = winner_of(confirmation, records)
    winner = next(record for record in records if record.key == key)
    soaked = Soaked(
        requests=31,
        seconds=410.0,
        longest_prompt_tokens=60_211,
        slot_context=CONTEXT,
        longest_answer_tokens=512,
        at_once=1,
        small_before_tok_s=winner.score,
        small_after_tok_s=winner.score,
        longest_gap_s=300.0,
        host_growth_mib=812.0,
        free_mib=MappingProxyType(night.free_mib(winner.candidate)),
    )
    for purpose in (Purpose.SOAK, Purpose.ENDURE):
        one = a_launch(len(records), winner.key, LaunchResult(Outcome(), soak=soaked), Errand(purpose, 1))
        records.append(_with_argv(replace(one, wall_s=410.0)))
    night.memory.learn(records)
    needs = {
        record.number: night.memory.predict(record.candidate).to_json()["devices"]
        for record in records
        if record.candidate is not None
    }
    last = next(record for record in reversed(records) if record.key == key and record.score is not None)
    assert last.result is not None
    mode = str(winner.candidate.get("split-mode")) if winner.candidate is not None else "layer"
    totals = {device.name: device.total_mib for device in night.task.devices}
    return ReportInputs(
        records=tuple(records),
        facts=facts(night),
        confirmation=confirmation,
        not_launched=tuple(
            NotLaunched(f"k{place}", ("CUDA0", "CUDA1")[place % 2], 300 + 97 * place) for place in range(19)
        ),
        clock=_clock(records),
        importances=importances(records),
        needs=needs,
        log_tails={
            record.number: f"0.14.2 I srv load_model: loading model\n0.31.0 I trial {record.number} ends here"
            for record in records
        },
        series=tuple(readings(last.result, mode, totals, night.free_mib(winner.candidate))),
        walls=walls_of_modes(records, confirmation, needs, night.splits, night.memory),
    )


def facts(night: _Night) -> dict[str, Any]:
    """The study's facts, as a run keeps them."""
    return {
        "study": {"name": "night", "space": "dual-gpu", "seed": 1, "created": "2027-01-15T22:58:40+01:00"},
        "engine": {
            "path": "/opt/llama-server",
            "digest": "5c166bc6f895c1b7",
            "version": "version: 11434 (0a1b2c3)",
        },
        "driver": "580.159.04",
        "devices": [
            {
                "name": device.name,
                "description": device.description,
                "total_mib": device.total_mib,
                "uuid": f"GPU-{place}",
                "bus_id": f"00000000:0{place + 1}:00.0",
                "memory_stated": False,
            }
            for place, device in enumerate(night.task.devices)
        ],
        "model": {
            "path": "/models/Qwen3.6-27B-Q8_0.gguf",
            "name": "Qwen3.6-27B",
            "architecture": "qwen35",
            "size_bytes": 29_042_379_840,
            "fingerprint": "97fe94a4386e77ba",
        },
        "workload": {
            "prompts": "default",
            "digest": "d",
            "requests": 2,
            "max_tokens": 256,
            "ctx_size": night.played.rig.workload.ctx,
            "seed": 1,
            "thinking": "auto",
            "sampling": {"temperature": 0.6, "top_k": 20},
            "sampling_source": "model",
        },
        "memory": {
            "free_mib": {device.name: device.free_mib for device in night.task.devices},
            "reserve_mib": _RESERVE_MIB,
        },
    }


def _record(number: int, candidate: Candidate | None, result: LaunchResult) -> TrialRecord:
    reference = None if candidate is not None else ENGINE_DEFAULT
    wall_s = result.load_s + result.requests_s + result.shutdown_s
    return _with_argv(TrialRecord(number, candidate, reference, (), {}, result, wall_s))


def _with_argv(record: TrialRecord) -> TrialRecord:
    """With a command as a user would run it, and how long the launch took."""
    argv = ["llama-server", "-m", "/models/my models/Qwen3.6-27B-Q8_0.gguf"]
    for name, value in () if record.candidate is None else record.candidate.items:
        argv += [f"--{name}", ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    result = record.result
    wall_s = record.wall_s if result is None else result.load_s + result.requests_s + result.shutdown_s
    return replace(record, argv=tuple(argv), wall_s=max(wall_s, 1.0))


def _clock(records: Sequence[TrialRecord]) -> dict[int, tuple[float, float | None]]:
    clock: dict[int, tuple[float, float | None]] = {}
    at_s = _BEGAN_S
    for record in records:
        clock[record.number] = (at_s, at_s + record.wall_s)
        at_s += record.wall_s + 2.0
    return clock
