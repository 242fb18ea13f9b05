"""Fixtures of runs on the fake engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.tuner_command import Made, TunerCommand, make_study

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def command(tmp_path: Path) -> TunerCommand:
    return TunerCommand(tmp_path)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Twelve launches."""
    return make_study(TunerCommand(tmp_path_factory.mktemp("study")), 12)
