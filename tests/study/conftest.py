"""Fixtures of studies that several machines share."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from tests.support.shared_study import SharedBench, proxy
from tuner.study.location import Location

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.postgres import Postgres


@pytest.fixture(scope="session", params=["postgresql", "grpc"])
def location(request: pytest.FixtureRequest, postgres: Postgres) -> Iterator[Location]:
    """Of the database itself, and of Optuna's proxy in front of it."""
    if request.param == "postgresql":
        yield Location(postgres.url)
        return
    with proxy(postgres.url) as url:
        yield Location(url)


@pytest.fixture
def bench(postgres: Postgres, location: Location) -> Iterator[SharedBench]:
    bench = SharedBench(postgres, location, uuid.uuid4().hex[:12])
    yield bench
    bench.close()
