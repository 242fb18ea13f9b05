"""The compute buffer of an MTP context against the engine's own lines: a 27B hybrid on two H200, build 11434."""

from __future__ import annotations

import pytest

from tests.support.models import shaped
from tests.support.shape_gguf import Shape
from tuner.core.assignment.splits import Splits
from tuner.core.memory.predict import Predictor
from tuner.core.memory.query import MemoryQuery
from tuner.core.rig import Device

DEVICES = (Device("CUDA0", "H200", 143_155, 142_629), Device("CUDA1", "H200", 143_155, 142_629))
PREDICTOR = Predictor(Splits(shaped(Shape())), DEVICES)


@pytest.mark.parametrize(
    ("launch", "cache", "cache_mib", "buffer_mib"),
    [
        (("none", 128, 8_192), "f16", 32, 32.50),
        (("none", 512, 8_192), "f16", 32, 130.02),
        (("layer", 512, 8_192), "f16", 32, 234.06),
        (("layer", 128, 65_536), "f16", 256, 114.52),
        (("layer", 512, 65_536), "f16", 256, 458.06),
        (("layer", 128, 65_536), "q8_0", 136, 361.08),
        (("layer", 128, 229_376), "q8_0", 476, 1161.08),
    ],
)
def test_a_draft_takes_what_the_engine_says(
    launch: tuple[str, int, int], cache: str, cache_mib: float, buffer_mib: float
) -> None:
    mode, ubatch, context = launch
    devices = ("CUDA0",) if mode == "none" else ("CUDA0", "CUDA1")
    query = MemoryQuery(
        devices,
        mode,
        (1,) if mode == "none" else (32, 34),
        999,
        context,
        ubatch=ubatch,
        spec=("draft-mtp",),
        draft_depth=4,
        draft_type_k=cache,
        draft_type_v=cache,
    )
    need = PREDICTOR.predict_query(query).devices[devices[-1]]
    assert need.draft == pytest.approx(cache_mib + buffer_mib, rel=0.02)


@pytest.mark.parametrize(
    ("ubatch", "context", "cache", "buffer_mib"),
    [(512, 8_192, "f16", 130.02), (512, 65_536, "f16", 132.02), (128, 229_376, "q8_0", 972.27)],
)
def test_in_tensor_mode_each_device_has_the_whole_buffer(
    ubatch: int, context: int, cache: str, buffer_mib: float
) -> None:
    query = MemoryQuery(
        ("CUDA0", "CUDA1"),
        "tensor",
        (1, 1),
        999,
        context,
        ubatch=ubatch,
        spec=("draft-mtp",),
        draft_depth=4,
        draft_type_k=cache,
        draft_type_v=cache,
    )
    without = MemoryQuery(("CUDA0", "CUDA1"), "tensor", (1, 1), 999, context, ubatch=ubatch)
    cache_mib = {"f16": 4096, "q8_0": 2176}[cache] * context / 2**20
    found = PREDICTOR.predict_query(query).devices
    assert PREDICTOR.predict_query(without).devices["CUDA0"].draft == 0.0
    for need in found.values():
        assert need.draft == pytest.approx(cache_mib / 2 + buffer_mib, rel=0.02)
