"""Reads model files in tests: a file from bytes, and the message of a file that is refused."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tuner.engine.gguf import read_model
from tuner.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.core.model import ModelFile

_numbers = itertools.count()


def read_bytes(folder: Path, raw: bytes) -> ModelFile:
    """What `read_model` makes of a file with these bytes, which is gone afterwards."""
    path = folder / f"{next(_numbers)}.gguf"
    path.write_bytes(raw)
    try:
        return read_model(path)
    finally:
        path.unlink()


def error_of(path: Path) -> str:
    """The message with which `read_model` refuses a file; it says where and what to do."""
    with pytest.raises(ModelError) as caught:
        read_model(path)
    message = str(caught.value)
    place, _, rest = message.partition(": ")
    assert place.startswith(str(path.parent)), message
    assert "; " in rest, message
    return message
