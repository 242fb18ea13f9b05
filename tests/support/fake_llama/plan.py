"""What a command line amounts to: devices, shares, slots, drafts, memory and speed."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.fake_llama.arguments import Arguments
    from tests.support.fake_llama.builds import Build
    from tests.support.fake_llama.rules import Behaviour

TRAINED_CONTEXT = 32768
LAYERS = 32
_AUTO_SLOTS = 4
_DEVICE_TOK_S = (60.0, 30.0)
_REDUCTION_LOSS = 0.10
"""What joining the halves costs tensor mode."""
_DRAFTED_TOKEN_COST = 0.15
"""Of a decode step."""
_DEFAULT_ACCEPTANCE = 0.5
_PROMPT_FACTOR = 25.0
_CONTEXT_STEP = 256
_KV_F16_BYTES = 2 * 2 * 8 * 128 * LAYERS
"""A token of context: K and V, 8 heads of 128 f16 values in every layer."""
_TYPE_BITS = {
    "f32": 32,
    "f16": 16,
    "bf16": 16,
    "q8_0": 8.5,
    "q5_0": 5.5,
    "q5_1": 6,
    "q4_0": 4.5,
    "q4_1": 5,
    "q6_0": 6.5,
}
_TYPE_BITS |= {"iq4_nl": 4.5}
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU as --list-devices shows it."""

    name: str
    description: str
    total_mib: int
    free_mib: int
    tok_s: float

    @property
    def line(self) -> str:
        return f"{self.description} ({self.total_mib} MiB, {self.free_mib} MiB free)"


def make_devices(rows: list[tuple[str, str, int, int]]) -> tuple[Device, ...]:
    """The first device makes 60 tok/s, every other 30."""
    return tuple(Device(*row, _DEVICE_TOK_S[min(i, 1)]) for i, row in enumerate(rows))


class Plan:
    """Worked out from the command line; a rule's `tok_s` and the like stand above it."""

    def __init__(
        self, arguments: Arguments, behaviour: Behaviour, build: Build, machine: tuple[Device, ...]
    ) -> None:
        self._arguments = arguments
        self._behaviour = behaviour
        self.model = arguments.text("model", "")
        self.alias = arguments.text("alias", self.model)
        self.split_mode = arguments.text("split-mode", "layer")
        self.devices = self._chosen(machine)
        self.shares = self._shares()
        self.draft_model = arguments.get("model-draft")
        self.spec_types = self._spec_types(build)
        self._context()

    @property
    def is_router(self) -> bool:
        named = any(self._arguments.get(name) for name in ("model", "hf-repo", "model-url"))
        return self._behaviour.router or not named

    @property
    def pipelined(self) -> bool:
        return self.split_mode == "layer" and len(self.devices) > 1

    @property
    def spec_failure(self) -> str | None:
        """Why the server is up without drafts although they were asked for."""
        needs_model = "draft-simple" in self.spec_types and self.draft_model is None
        if self.spec_types and (needs_model or self._behaviour.no_speculation):
            return "draft-simple requires a draft context"
        return None

    @property
    def speculates(self) -> bool:
        return bool(self.spec_types) and self.spec_failure is None

    @property
    def draft_depth(self) -> int:
        return self._arguments.integer("spec-draft-n-max", 3) if self.speculates else 0

    @property
    def synthetic_rates(self) -> list[float]:
        return [float(rate) for rate in self._arguments.text("spec-synth-rates", "").split(",") if rate]

    @property
    def acceptance(self) -> float:
        """Accepted over drafted tokens."""
        if self._behaviour.draft_acceptance is not None:
            return self._behaviour.draft_acceptance
        if self.synthetic_rates:
            return sum(self.synthetic_rates) / len(self.synthetic_rates)
        return _DEFAULT_ACCEPTANCE

    @property
    def tok_s(self) -> float:
        """Of one busy slot."""
        if self._behaviour.tok_s is not None:
            return self._behaviour.tok_s
        return self._plain_tok_s() * (1 + self.draft_depth * self.acceptance) / self._step_cost(busy_slots=1)

    def slowdown(self, busy_slots: int) -> float:
        """How many times as long each of several busy slots takes as a single one."""
        return self._step_cost(busy_slots) / self._step_cost(busy_slots=1)

    @property
    def prompt_tok_s(self) -> float:
        return self._behaviour.prompt_tok_s or _PROMPT_FACTOR * self._plain_tok_s()

    @property
    def weights_mib(self) -> float:
        return Path(self.model).stat().st_size / _MIB

    @property
    def cache_types(self) -> tuple[str, str]:
        """Of K and of V."""
        text = self._arguments.text
        return text("cache-type-k", "f16"), text("cache-type-v", "f16")

    @property
    def kv_mib(self) -> float:
        bits = [_TYPE_BITS[kind] for kind in self.cache_types]
        return self.n_ctx_total * _KV_F16_BYTES * sum(bits) / 32 / _MIB

    @property
    def compute_mib(self) -> float:
        """On each device."""
        return 284.08 * self._arguments.integer("ubatch-size", 512) / 512

    @property
    def offloaded(self) -> int:
        wanted = self._arguments.text("gpu-layers", "auto")
        return LAYERS + 1 if wanted in ("auto", "all") else min(int(wanted), LAYERS + 1)

    def _chosen(self, machine: tuple[Device, ...]) -> tuple[Device, ...]:
        names = self._arguments.get("device")
        by_name = {device.name: device for device in machine}
        chosen = machine if names is None else tuple(by_name[n] for n in names.split(",") if n != "none")
        if self.split_mode == "none" and chosen:
            main = self._arguments.integer("main-gpu", 0)
            return chosen[main : main + 1]
        return chosen

    def _shares(self) -> tuple[float, ...]:
        if len(self.devices) < 2:
            return (1.0,) * len(self.devices)
        given = self._arguments.get("tensor-split")
        if given is not None:
            weights = [float(part) for part in re.split(r"[,/]+", given)]
            weights = (weights + [0.0] * len(self.devices))[: len(self.devices)]
        elif self.split_mode == "tensor":
            weights = [1.0] * len(self.devices)
        else:
            weights = [float(device.free_mib) for device in self.devices]
        total = sum(weights) or 1.0
        return tuple(weight / total for weight in weights)

    def _spec_types(self, build: Build) -> tuple[str, ...]:
        given = self._arguments.get("spec-type")
        if given is None and self.draft_model is not None and build.draft_model_speculates:
            return ("draft-simple",)
        return tuple(kind for kind in (given or "").split(",") if kind not in ("", "none"))

    def _context(self) -> None:
        self.asked_slots = self._arguments.integer("parallel", -1)
        self.unified = self._arguments.is_on("kv-unified", default=self.asked_slots < 0)
        self.slot_count = self.asked_slots if self.asked_slots > 0 else _AUTO_SLOTS
        asked = self._arguments.integer("ctx-size", 0) or TRAINED_CONTEXT
        per_slot = asked if self.unified else asked / self.slot_count
        self.n_ctx_slot = math.ceil(per_slot / _CONTEXT_STEP) * _CONTEXT_STEP
        self.n_ctx_total = self.n_ctx_slot * (1 if self.unified else self.slot_count)
        if self._behaviour.n_ctx is not None:
            self.n_ctx_slot = self._behaviour.n_ctx

    def _step_cost(self, busy_slots: int) -> float:
        """Of one decode step for all busy slots, in plain ones: a token of each, and all that are drafted.

        The other slots' tokens come nearly free with weights that are read anyway. Drafts are checked in the same
        step: the more slots there are, the sooner it is the arithmetic that takes the time.
        """
        company = self._behaviour.company_cost * (busy_slots - 1)
        return 1 + company + busy_slots * self.draft_depth * (_DRAFTED_TOKEN_COST + company)

    def _plain_tok_s(self) -> float:
        """Without drafts: layers one after the other, or the slower half of every layer."""
        times_s = [share / d.tok_s for share, d in zip(self.shares, self.devices, strict=True)]
        if not times_s:
            return 5.0  # on the processor
        if self.split_mode == "tensor" and len(times_s) > 1:
            return (1 - _REDUCTION_LOSS) / max(times_s)
        return 1 / sum(times_s)
