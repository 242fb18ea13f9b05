"""What a launch that has ended says of each device's unnamed memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.memory.learned import Observation
from tuner.core.memory.runtime import Situation, backend_of
from tuner.core.outcome import Kind, Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tuner.core.launch import LaunchResult
    from tuner.core.memory.need import DeviceNeed
    from tuner.core.memory.predict import Predictor
    from tuner.core.options import Value
    from tuner.core.outcome import Outcome
    from tuner.core.rig import Device
    from tuner.core.trial import TrialRecord

#: Launches that had all that they asked for to the end; a degraded one had a smaller buffer and is not among them.
_HAD_ALL = frozenset({Kind.NONE, Kind.DISTURBED})


def observations_of(
    records: Iterable[TrialRecord], predictor: Predictor, devices: Sequence[Device], source: str
) -> tuple[Observation, ...]:
    """What trials say, the oldest first.

    Of a reference nobody knows what it asks for: only what the driver shows beyond the engine's own lines counts.

    Args:
        records: Trials with their results.
        predictor: Knows what the engine's buffers take; what it has learned does not matter.
        devices: The rig's.
        source: Engine and model of the trials.
    """
    return tuple(
        one
        for record in records
        if record.result is not None
        for one in (
            _of_reference(record.result, devices, source)
            if record.candidate is None
            else _of_launch(record.candidate.options, record.result, predictor, devices, source)
        )
    )


def _of_reference(result: LaunchResult, devices: Sequence[Device], source: str) -> Iterator[Observation]:
    """What the driver shows beyond the lines, of a launch that splits by layer and drafts nothing.

    What drafts take without a line is another matter, and how many there are nobody knows of a reference.
    """
    named = [device for device in devices if device.name in result.buffers_mib]
    if result.outcome.kind is not Kind.NONE or any("Meta" in name for name in result.buffers_mib):
        return
    if any(sample.draft_n for sample in result.samples):
        return
    for device in named:
        used = _used_mib(result, device)
        if used is not None:
            situation = Situation(
                backend_of(device.name),
                "layer" if len(named) > 1 else "none",
                drafts=False,
                nccl=False,
                stated=device.stated,
            )
            unnamed = used - result.buffers_mib[device.name]
            yield Observation(device.identity, situation.key, source, unnamed, unnamed)


def _of_launch(
    options: Mapping[str, Value],
    result: LaunchResult,
    predictor: Predictor,
    devices: Sequence[Device],
    source: str,
) -> Iterator[Observation]:
    query = predictor.query(options)
    prediction = predictor.predict_query(query)
    for device in devices:
        need = prediction.devices.get(device.name)
        if need is None:
            continue
        bounds = _bounds(result, device, need)
        if bounds is not None:
            situation = predictor.situation(query, device.name).key
            yield Observation(device.identity, situation, source, *bounds)


def _bounds(
    result: LaunchResult, device: Device, need: DeviceNeed
) -> tuple[float | None, float | None] | None:
    """At least and at most how much no line names on a device; None where the launch says nothing of it."""
    outcome = result.outcome
    if outcome.kind in _HAD_ALL or _left_too_little(outcome, result, device):
        used = _used_mib(result, device)
        if used is not None:
            unnamed = used - need.buffers
            # what disturbed it may be somebody else's memory, which the driver counts too
            return (None if outcome.kind is Kind.DISTURBED else unnamed), unnamed
        return (None, device.total_mib - need.buffers) if device.stated else None
    if outcome.kind is Kind.OUT_OF_MEMORY and outcome.device == device.name and outcome.evidence:
        low = _lower_bound(outcome.stage, device.free_mib, dict(need.stages), need.buffers)
        return None if low is None else (low, None)
    return None


def _left_too_little(outcome: Outcome, result: LaunchResult, device: Device) -> bool:
    """Whether it ran to its end and left less than the reserve: one that dies leaves no reading of the driver."""
    return (
        outcome.kind is Kind.OUT_OF_MEMORY
        and outcome.stage is Stage.RUNTIME
        and device.name in result.free_mib
    )


def _used_mib(result: LaunchResult, device: Device) -> float | None:
    """MiB that the launch took on a device at its height, by the driver; None where that is not known."""
    summary = result.telemetry.get(device.name)
    taken = [device.free_mib - result.free_mib[device.name]] if device.name in result.free_mib else []
    if summary is not None and summary.used_max_mib is not None:
        taken.append(round(summary.used_max_mib) - (device.total_mib - device.free_mib))
    return float(max(taken)) if taken else None


def _lower_bound(
    stage: Stage | None, room_mib: float, sizes: Mapping[Stage, float], buffers: float
) -> float | None:
    """At least how much no line names, if what was asked for up to a stage did not fit.

    Only what is there from the beginning can be at fault before the last stage: growth comes later.
    """
    order = list(sizes)
    if stage not in order:
        return None
    asked = sum(sizes[one] for one in order[: order.index(stage) + 1] if one is not Stage.RUNTIME)
    return room_mib - min(asked, buffers)
