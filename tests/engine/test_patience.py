"""How long a load is waited for: by the model's size, and by the loads that were seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.gguf_files import write_gguf
from tuner.engine.gguf import read_model
from tuner.engine.patience import Patiences

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.core.model import ModelFile

GIB = 2**30


@pytest.fixture
def model(tmp_path: Path) -> ModelFile:
    """Of 16 GiB, as far as its facts go."""
    return replace(read_model(write_gguf(tmp_path / "model.gguf")), size_bytes=16 * GIB)


def test_before_the_first_load_the_size_decides(model: ModelFile) -> None:
    patience = Patiences.of(model)
    assert patience.load_s == pytest.approx(120 + 16 * GIB / 50e6)
    assert patience.stall_s == pytest.approx(60 + 16 * GIB / 100e6)


@pytest.mark.parametrize(
    ("slowest_load_s", "load_s", "stall_s"),
    [
        (20.0, 200.0, 100.0),  # ten times and five times as long
        (3.0, 120.0, 60.0),  # a second load may have to read the file from the disk again
    ],
)
def test_loads_that_were_seen_shorten_the_wait(
    model: ModelFile, slowest_load_s: float, load_s: float, stall_s: float
) -> None:
    assert Patiences.of(model, slowest_load_s) == Patiences(load_s, stall_s)


def test_loads_that_were_seen_never_lengthen_it(model: ModelFile) -> None:
    assert Patiences.of(model, 10_000.0) == Patiences.of(model)
