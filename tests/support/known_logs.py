"""What has to be found in every log of tests/fixtures/logs.

Beside the real ones there are logs written as owners of such pairs described them (`owners/`), and after the
sources of llama.cpp for cards that are not at hand (`other/`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.diagnosis import Death
from tuner.core.diagnosis.log_lines import is_up
from tuner.core.outcome import Kind, Phase, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parents[1] / "fixtures" / "logs"


@dataclass(frozen=True)
class Known:
    """A log, how its server ended, and what is right."""

    name: str
    exit_code: int | None
    kind: Kind
    stage: Stage | None = None
    device: str | None = None
    mib: float | None = None
    inferred: bool = False
    free_mib: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    @property
    def log(self) -> str:
        return (FOLDER / f"{self.name}.log").read_text(encoding="utf-8")

    @property
    def died(self) -> bool:
        """Whether the log is that of a death, not of a server that ran and was stopped."""
        return self.kind not in {Kind.NONE, Kind.DEGRADED, Kind.NOT_AS_ASKED} and self.exit_code not in {
            0,
            None,
        }

    def death(self, log: str | None = None) -> Death:
        """It, or it with another log."""
        text = self.log
        phase = Phase.BENCHMARK if is_up(text) else Phase.LOAD
        return Death(text if log is None else log, self.exit_code, phase, free_mib=self.free_mib)


_OOM = Kind.OUT_OF_MEMORY
_DRAFTS = Kind.DRAFT_UNAVAILABLE

#: Two CUDA cards, build 11434.
_CUDA = [
    *(
        Known(name, 0, Kind.NONE)
        for name in (
            *("A-layer-lv4", "A-tensor-lv4", "O-seed-layer-nomtp", "V-one-gpu-two-devices", "conc4-tensor"),
            *("default", "layer-75", "tensor-75", "tensor-best-mtp4", "tensor-ngram-mtp"),
        )
    ),
    Known("O-compute-layer", 1, _OOM, Stage.COMPUTE, "CUDA0", 4320.58),
    Known("O-fit-default", 0, Kind.NOT_AS_ASKED),
    Known("O-kv-layer", 1, _OOM, Stage.KV, "CUDA0", 6144.0),
    Known("O-load-layer", 1, _OOM, Stage.WEIGHTS, "CUDA0", 18135.76),
    Known("O-load-tensor", -6, _OOM, Stage.WEIGHTS, "CUDA0", 18197.93),
    Known("O-seed-layer", 1, _OOM, Stage.DRAFT, "CUDA1", 292.02),
    Known("bad-model", 1, Kind.BAD_MODEL),
    Known(
        "oom-tensor-load",
        -6,
        _OOM,
        Stage.RUNTIME,
        "CUDA0",
        inferred=True,
        free_mib={"CUDA0": 64, "CUDA1": 1400},
    ),
    Known("oom-ub-layer", 0, Kind.DEGRADED, Stage.COMPUTE, "CUDA0", 16258.5),
    Known("row-65", 1, Kind.UNSUPPORTED),
    Known("tensor-fa-off", 1, Kind.UNSUPPORTED),
]

#: RPC pair, or the processor alone, build 11434.
_RPC_AND_CPU = [
    *(
        Known(name, 1, Kind.BAD_FLAG)
        for name in (
            *("bad-device", "bad-environment", "bad-flash-attn", "bad-kv-type", "bad-spec-type", "bad-value"),
            *("missing-value", "not-a-number", "removed-flag", "too-many-splits", "unknown-flag"),
        )
    ),
    *(Known(name, 1, Kind.BAD_MODEL) for name in ("cut-header", "cut-model", "missing-model")),
    *(Known(name, 1, _DRAFTS) for name in ("draft-missing", "mtp-missing")),
    *(
        Known(name, 0, _DRAFTS)
        for name in ("draft-unused", "draft-without-model", "eagle3-ordinary", "vocab-mismatch")
    ),
    Known("context-absurd", 1, _OOM),
    Known("fit-less-context", 0, Kind.NOT_AS_ASKED),
    Known("no-gpu", 0, Kind.NOT_AS_ASKED),
    Known("port-in-use", 1, Kind.PORT_IN_USE),
    Known("quantised-v-without-fa", 1, Kind.UNSUPPORTED),
    Known("rpc-down", -6, Kind.RPC_LOST),
    Known("rpc-draft", 1, _OOM, Stage.DRAFT, "RPC0", 92.10),
    Known("rpc-killed-in-use", -6, Kind.RPC_LOST),
    Known("rpc-layer-f16-16-15", 0, Kind.NONE),
    Known("rpc-layer-f16-24-7", 1, _OOM, Stage.COMPUTE, "RPC0", 21.51),
    Known("rpc-layer-f16-27-4", 1, _OOM, Stage.KV, "RPC0", 162.0),
    Known("rpc-layer-f16-31-0", 1, _OOM, Stage.KV, "RPC0", 180.0),
    Known("rpc-layer-q8-27-4", 0, Kind.DEGRADED, Stage.COMPUTE, "RPC0", 58.05),
    Known("rpc-layer-q8-31-0", 1, _OOM, Stage.COMPUTE, "RPC0", 21.55),
    Known("rpc-lost", -6, Kind.RPC_LOST),
    Known("rpc-row", 1, Kind.UNSUPPORTED),
    Known("rpc-tensor-compute", -6, _OOM, Stage.COMPUTE, inferred=True),
    Known("rpc-tensor-f16-2-1", -6, _OOM, Stage.KV, "RPC0", 150.0),
    Known("rpc-tensor-kv", -6, _OOM, Stage.KV, inferred=True),
    Known("rpc-weights", 1, _OOM, Stage.WEIGHTS, "RPC0", 92.10),
    Known("second-interrupt", 1, Kind.STOPPED),
    Known("tensor-no-device", 1, Kind.UNSUPPORTED),
    Known("tensor-one-device", 0, Kind.NONE),
]

_OWNERS = [
    Known("owners/card-order-ignored", 1, _OOM, Stage.WEIGHTS, "CUDA1", 22873.41),
    Known("owners/experts-on-one-card", 1, _OOM, Stage.WEIGHTS, "CUDA1", 20347.12),
    Known("owners/fit-forgets-the-drafts", -6, _OOM, Stage.RUNTIME, "CUDA0"),
    Known("owners/kv-types-not-compiled", None, Kind.DEGRADED),
    Known("owners/layer-quietly-on-cpu", None, Kind.DEGRADED, device="CUDA0", inferred=True),
    Known("owners/row-on-a-newer-build", 1, Kind.UNSUPPORTED),
    Known("owners/third-card-in-tensor-mode", -6, Kind.UNSUPPORTED),
]

_OTHER = [
    Known("other/illegal-access", -6, Kind.DEVICE_ERROR, device="CUDA1"),
    Known("other/no-kernel-image", -6, Kind.UNSUPPORTED, device="CUDA1"),
    Known("other/rocm-decode", -6, _OOM, Stage.RUNTIME, "ROCm1"),
    Known("other/rocm-kv", 1, _OOM, Stage.KV, "ROCm1", 6144.0),
    Known("other/tensor-over-two-makers", -6, Kind.UNSUPPORTED, free_mib={"CUDA0": 21000, "ROCm0": 22000}),
    Known("other/vulkan-lost", -6, Kind.DEVICE_ERROR, device="Vulkan0"),
    Known("other/vulkan-weights", 1, _OOM, Stage.WEIGHTS, "Vulkan0", 9216.0),
]

KNOWN = [*_CUDA, *_RPC_AND_CPU, *_OWNERS, *_OTHER]
DEATHS = [known for known in KNOWN if known.died]
