"""Fixtures of launches."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.launch_bench import Bench, make_bench
from tuner.engine import process as process_module
from tuner.engine import session as session_module
from tuner.engine.client import Deadlines
from tuner.engine.patience import Patiences
from tuner.engine.probe import probe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tuner.engine.probe import Engine


@pytest.fixture(scope="session")
def engine_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Engine]:
    """The fake as an engine of some build; asking it takes longer than most launches."""

    @cache
    def ask(build: str = "11434") -> Engine:
        fake = FakeEngine(tmp_path_factory.mktemp(build), build=build)
        return probe(fake.path, fake.environment())

    return ask


@pytest.fixture
def bench(tmp_path: Path, engine_of: Callable[..., Engine]) -> Bench:
    return make_bench(tmp_path, FakeEngine(tmp_path), engine_of())


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of a second instead of minutes."""
    patience = Patiences(load_s=0.6, stall_s=0.3)
    monkeypatch.setattr(Patiences, "of", lambda _model, _slowest_load_s: patience)
    monkeypatch.setattr(Patiences, "request", lambda *_, **__: Deadlines(0.3, 0.3, 1.0))
    monkeypatch.setattr(session_module, "LAST_WORDS_S", 0.1)
    monkeypatch.setattr(process_module, "FIRST_TERM_S", 0.2)
    monkeypatch.setattr(process_module, "SECOND_TERM_S", 0.2)
