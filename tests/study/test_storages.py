"""Connecting to storages: an empty database that many come to at once, and what is said where it cannot be used."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.support.postgres import free_port
from tests.support.shared_study import close, together
from tuner.errors import StudyError
from tuner.study.location import Location
from tuner.study.storages import open_storage

if TYPE_CHECKING:
    from tests.support.postgres import Postgres


def test_many_may_be_the_first_in_an_empty_database(postgres: Postgres) -> None:
    name = f"empty_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    location = Location(postgres.url.removesuffix("tuner") + name)
    for storage in together(*[lambda: open_storage(location)] * 4):
        assert not isinstance(storage, Exception), storage
        close(storage)


@pytest.mark.parametrize(
    "address", ["postgresql+psycopg://somebody@127.0.0.1:{port}/tuner", "grpc://127.0.0.1:{port}"]
)
def test_a_storage_that_is_not_there_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.study.storages._CONNECT_S", 1)
    location = Location(address.format(port=free_port()))
    with pytest.raises(
        StudyError, match=r"cannot be used: .*Is it running, and may this user in\?"
    ) as caught:
        open_storage(location)
    assert str(location) in str(caught.value)
    assert "somebody" not in str(caught.value)


def test_a_database_that_is_not_there_is_named(postgres: Postgres) -> None:
    location = Location(postgres.url.removesuffix("tuner") + "none")
    with pytest.raises(StudyError, match='database "none" does not exist'):
        open_storage(location)
