"""Launches on a played rig: what a candidate comes to, with noise, and what it is truly worth."""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from tuner.core.candidate import Candidate
from tuner.core.host_parts import HostParts
from tuner.core.launch import LaunchResult
from tuner.core.measurement import Sample
from tuner.core.outcome import MEASURED, Kind, Outcome, Phase, Stage
from tuner.core.space import holds
from tuner.simulate.best import Bound, true_best
from tuner.simulate.memory import need_of
from tuner.simulate.model import model_of
from tuner.simulate.parts import Parts
from tuner.simulate.prompt import prompt_s
from tuner.simulate.setup import setup_of
from tuner.simulate.speed import StepCost, drafts_of, rate_tok_s, step_cost, token_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.model import ModelFile
    from tuner.core.options import Value
    from tuner.simulate.memory import Need
    from tuner.simulate.played_rig import PlayedRig
    from tuner.simulate.setup import Setup

#: Noise never makes a request faster or slower than by this part.
_MOST_NOISE = 0.5
#: Which part of the load a step is reached at.
_REACHED = {
    Stage.WEIGHTS: 0.3, Stage.KV: 0.85, Stage.RECURRENT: 0.88, Stage.COMPUTE: 0.92, Stage.DRAFT: 0.96,
    Stage.RUNTIME: 1.0,
}  # fmt: skip
#: What `-fit on` leaves free of each device.
_FIT_MARGIN_MIB = 1024
_SHUTDOWN_S, _WARMUP_TOKENS = 0.5, 32
_NONSENSE = "/" * 64


class Random(Protocol):
    """A source of randomness, such as `random.Random`."""

    def gauss(self, mu: float, sigma: float) -> float:
        """A draw from a normal distribution."""


class SimulatedRig:
    """A played rig that launches candidates.

    Args:
        rig: What it is.
    """

    def __init__(self, rig: PlayedRig) -> None:
        self.rig = rig
        self.launches = 0

    @cached_property
    def model(self) -> ModelFile:
        """The model as its header shows it."""
        return model_of(self.rig)

    @cached_property
    def parts(self) -> Parts:
        """What the model consists of."""
        return Parts(self.model, self.rig.model)

    def engine_default(self) -> dict[str, Value]:
        """What the engine does when it is told nothing: layers as memory is free, as many as fit."""
        options: dict[str, Value] = {
            "device": self.rig.names,
            "split-mode": "layer" if len(self.rig.devices) > 1 else "none",
            "ctx-size": self.rig.workload.ctx,
        }
        for layers in range(self.model.n_units, 0, -1):
            tried: dict[str, Value] = {**options, "gpu-layers": layers}
            if self.need(setup_of(self.rig, tried)).fits:
                return tried
            if self.rig.model.experts:
                return {**options, "gpu-layers": 999, **self._experts_by_itself(options)}
        return {**options, "gpu-layers": 0}

    def _experts_by_itself(self, options: Mapping[str, Value]) -> dict[str, Value]:
        """Whose experts the engine leaves in RAM: as many as leave its margin free on every device."""
        parts = HostParts.of(self.model)
        split = setup_of(self.rig, {**options, "gpu-layers": 999}).split
        own = parts.own(split, self.model.n_units)
        counts = [0] * len(own)
        while True:
            tried = parts.options(parts.leaving(own, counts))
            need = self.need(setup_of(self.rig, {**options, **tried}))
            over = [
                place
                for place, (total, room) in enumerate(zip(need.totals_mib, need.rooms_mib, strict=True))
                if total > room - _FIT_MARGIN_MIB and counts[place] < len(own[place])
            ]
            if not over:
                return tried
            for place in over:
                counts[place] += 1

    def need(self, setup: Setup) -> Need:
        """What a launch asks of the devices."""
        return need_of(self.parts, setup, self.rig.host.ram_mib)

    def failure(self, options: Mapping[str, Value]) -> Outcome | None:
        """How a launch with these options ends; None where it can be measured."""
        if (refused := self._refusal(options)) is not None:
            return refused
        setup = setup_of(self.rig, options)
        return self._unusable(setup) or self.need(setup).failure()

    def true_rate(self, candidate: Candidate | Mapping[str, Value]) -> float | None:
        """Generated tokens a second of the workload without noise; None where it cannot run or answers nonsense."""
        options = _options(candidate)
        if self.failure(options) is not None:
            return None
        setup = setup_of(self.rig, options)
        if setup.mode in self.rig.quirks.garbage:
            return None
        return rate_tok_s(self.rig, setup, self.step_cost(setup)) / self.slower(options)

    def step_cost(self, setup: Setup) -> StepCost:
        """What a decode step takes."""
        return step_cost(self.rig, self.parts, setup)

    def slower(self, options: Mapping[str, Value]) -> float:
        """How many times slower the rig's curses make these options."""
        factor = 1.0
        for curse in self.rig.quirks.curses:
            if holds(curse.when, options):
                factor *= curse.slow
        return factor

    def best(self, bound: Bound) -> tuple[Candidate, float]:
        """The true best of a search space: the candidate and its rate.

        Raises:
            ValueError: Nothing in the space can run.
        """
        return true_best(self, bound)

    def launch(self, candidate: Candidate | Mapping[str, Value] | None, rng: Random) -> LaunchResult:
        """Start a server and ask it the workload; None is the engine's own default.

        The same draws are made whatever the candidate comes to, so that a seed means the same noise.
        """
        options = self.engine_default() if candidate is None else _options(candidate)
        rig = self.rig
        first = self.launches == 0
        self.launches += 1
        shared = rng.gauss(0.0, 1.0)
        own = [rng.gauss(0.0, 1.0) for _ in range(len(rig.workload.classes) * rig.workload.requests)]
        load_s = rig.model.load_s * (rig.quirks.page_cache.first_load_slow if first else 1.0)
        failed = self.failure(options)
        setup = setup_of(rig, options)
        if failed is not None:
            part = _REACHED[failed.stage] if failed.stage is not None else 0.1
            return LaunchResult(failed, load_s=load_s * part, shutdown_s=_SHUTDOWN_S, exit_code=1)
        need = self.need(setup)
        factor = (rig.quirks.page_cache.first_rate if first else 1.0) / self.slower(options)
        factor *= _near_one(1 + rig.noise.launch * shared)
        deviation = rig.noise.base + rig.noise.per_draft * setup.n_max
        rates = [factor * _near_one(1 + deviation * draw) for draw in own]
        samples = self._samples(setup, rates)
        warmup_s = (
            _WARMUP_TOKENS / factor * token_s(rig, setup, self.step_cost(setup), rig.workload.classes[0])
        )
        return LaunchResult(
            self._measured(setup),
            samples=samples,
            load_s=load_s,
            requests_s=warmup_s + sum(sample.wall_s for sample in samples),
            warmup_s=warmup_s,
            shutdown_s=_SHUTDOWN_S,
            exit_code=0,
            buffers_mib=MappingProxyType(need.buffers_mib),
            free_mib=MappingProxyType(self._free_mib(need)),
        )

    def _measured(self, setup: Setup) -> Outcome:
        if setup.mode not in self.rig.quirks.garbage:
            return MEASURED
        said = f"{setup.mode}: the answers differ from those of one card"
        return Outcome(Kind.DEGRADED, phase=Phase.BENCHMARK, evidence=said)

    def _samples(self, setup: Setup, rates: list[float]) -> tuple[Sample, ...]:
        workload, rig = self.rig.workload, self.rig
        cost = self.step_cost(setup)
        prompt_ms = prompt_s(rig, self.parts, setup, workload.prompt_tokens) * 1e3
        asked = [name for name in workload.classes for _ in range(workload.requests)]
        found = []
        for number, (name, rate) in enumerate(zip(asked, rates, strict=True)):
            drafts = drafts_of(rig, setup, name)
            predicted_ms = (workload.max_tokens - 1) * token_s(rig, setup, cost, name) * 1e3 / rate
            cycles = (workload.max_tokens - 1) / (1 + drafts.accepted)
            nonsense = setup.mode in rig.quirks.garbage
            found.append(
                Sample(
                    prompt_id=f"{name}-{number % workload.requests + 1}",
                    prompt_class=name,
                    ttft_s=prompt_ms / 1e3 / rate,
                    wall_s=(prompt_ms / rate + predicted_ms) / 1e3,
                    cache_n=0,
                    prompt_n=workload.prompt_tokens,
                    prompt_ms=prompt_ms / rate,
                    predicted_n=workload.max_tokens,
                    predicted_ms=predicted_ms,
                    draft_n=round(cycles * drafts.drafted) if setup.n_max and setup.drafts_mtp else None,
                    draft_n_accepted=(
                        round(cycles * drafts.accepted) if setup.n_max and setup.drafts_mtp else None
                    ),
                    text=_NONSENSE if nonsense else f"answer to {name}-{number % workload.requests + 1}",
                )
            )
        return tuple(found)

    def _free_mib(self, need: Need) -> dict[str, int]:
        """What the driver says is free on every card while the server runs."""
        used = dict(zip(need.names, need.totals_mib, strict=True))
        return {device.name: int(device.room_mib - used.get(device.name, 0.0)) for device in self.rig.devices}

    def _refusal(self, options: Mapping[str, Value]) -> Outcome | None:
        for condition in self.rig.quirks.unsupported:
            if holds(condition, options):
                said = ", ".join(f"{name} {options[name]}" for name, _ in condition)
                return Outcome(Kind.UNSUPPORTED, phase=Phase.LOAD, evidence=f"not supported: {said}")
        return None

    def _unusable(self, setup: Setup) -> Outcome | None:
        quantised = setup.type_v not in {"f16", "bf16", "f32"}
        if not setup.flash_attention and (setup.mode == "tensor" or quantised):
            said = f"{'a quantised V cache' if quantised else 'tensor mode'} requires flash attention"
            return Outcome(Kind.UNSUPPORTED, phase=Phase.LOAD, evidence=said)
        if setup.mode == "row":
            return Outcome(Kind.UNSUPPORTED, phase=Phase.LOAD, evidence="split mode row has been removed")
        if setup.drafts_mtp and not self.rig.model.mtp_layers:
            said = "the model has no MTP layers"
            return Outcome(Kind.DRAFT_UNAVAILABLE, phase=Phase.LOAD, evidence=said)
        if (
            others := setup.kinds
            - {"draft-mtp"}
            - {kind for kind in setup.kinds if kind.startswith("ngram-")}
        ):
            said = f"no draft model for {', '.join(sorted(others))}"
            return Outcome(Kind.DRAFT_UNAVAILABLE, phase=Phase.LOAD, evidence=said)
        if setup.mode == "tensor" and not self.model.allows_tensor_split:
            return Outcome(Kind.UNSUPPORTED, phase=Phase.LOAD, evidence="no tensor split for this model")
        return None


def _options(candidate: Candidate | Mapping[str, Value]) -> Mapping[str, Value]:
    return candidate.options if isinstance(candidate, Candidate) else candidate


def _near_one(factor: float) -> float:
    return min(max(factor, 1 - _MOST_NOISE), 1 + _MOST_NOISE)
