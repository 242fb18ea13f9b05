"""Opening the storages that several machines share, so that no lost packet holds a worker for ever."""

from __future__ import annotations

import contextlib
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import optuna
import sqlalchemy
import sqlalchemy.exc

from tuner.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optuna.storages import BaseStorage

    from tuner.study.location import Location

#: A connection whose other end has gone is noticed after about so many seconds.
_CONNECT_S, _IDLE_S, _PROBE_S, _PROBES, _CALL_S = 10, 10, 5, 3, 60
_ATTEMPTS, _ATTEMPT_S = 10, 0.3
_ENGINE = {
    "pool_pre_ping": True,
    "pool_size": 2,  # the run, and its signs of life
    "connect_args": {
        "connect_timeout": _CONNECT_S,
        "keepalives_idle": _IDLE_S,
        "keepalives_interval": _PROBE_S,
        "keepalives_count": _PROBES,
        "tcp_user_timeout": (_IDLE_S + _PROBE_S * _PROBES) * 1000,
    },
}
_INSTALL = "install it with: pip install 'split-ratio-tuner[machines]'"


def open_storage(location: Location, *, make: bool = True) -> BaseStorage:
    """Connect.

    Args:
        location: Where it is.
        make: Whether a database that holds nothing gets the tables of one that holds studies.

    Raises:
        StudyError: It cannot be reached, does not let us in, holds nothing of studies, or what it takes is not
            installed.
    """
    advice = ". Is it running, and may this user in? docs/many-machines.md says how it is set up"
    try:
        with using(location, advice):
            return _proxy(location) if location.is_grpc else _database(location, make=make)
    except ImportError as error:
        raise StudyError(f"{location}: {error.name or error} is missing; {_INSTALL}") from error


@contextlib.contextmanager
def using(location: Location, advice: str = "") -> Iterator[None]:
    """Say that it is the storage that fails, where it is.

    Args:
        location: Where it is.
        advice: What to add.

    Raises:
        StudyError: It is.
    """
    try:
        yield
    except Exception as error:
        if not is_of_storage(error):
            raise
        raise StudyError(f"{location} cannot be used: {first_line(error)}{advice}") from error


def is_of_storage(error: BaseException) -> bool:
    """Whether it is the storage that fails, or the way to it."""
    if isinstance(error, (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError)):
        return True
    if isinstance(error, ConnectionError):
        return True
    return any(kind.__module__.partition(".")[0] == "grpc" for kind in type(error).__mro__)


def first_line(error: BaseException) -> str:
    """What the database or the network said, in one line and without an address that could hold a password."""
    while error.__cause__ is not None:
        error = error.__cause__
    details = getattr(error, "details", None)
    said = details() if callable(details) else None
    text = str(said or getattr(error, "orig", None) or error).strip()
    return text.partition("\n")[0] or type(error).__name__


def _database(location: Location, *, make: bool) -> BaseStorage:
    import psycopg  # noqa: F401, PLC0415 - only where it is used; an error here names what to install

    if not make and not _holds_studies(location):
        raise StudyError(f"{location} holds no study; tuner tune --storage makes one")
    backend = _with_tables(location)
    # as optuna.storages.get_storage does with an address: what has ended is read once
    return optuna.storages._CachedStorage(backend)  # noqa: SLF001 - get_storage takes no engine's arguments


class _Backend(optuna.storages.RDBStorage):
    """Leaves no connection open, neither at its end nor where it cannot be made."""

    def __init__(self, url: str) -> None:
        try:
            super().__init__(url, engine_kwargs=_ENGINE)
        except BaseException:
            if hasattr(self, "engine"):
                self.engine.dispose()
            raise
        weakref.finalize(self, self.engine.dispose)


def _with_tables(location: Location) -> _Backend:
    """Optuna makes its tables where they are missing, and fails where another worker does so at that moment."""
    for attempt in range(_ATTEMPTS):
        try:
            return _Backend(location.url)
        except (sqlalchemy.exc.IntegrityError, sqlalchemy.exc.ProgrammingError):
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(_ATTEMPT_S)
    raise AssertionError("the last attempt ends it")


def _holds_studies(location: Location) -> bool:
    """Whether it has Optuna's tables: opening it with Optuna would make them, also in somebody else's database."""
    engine = sqlalchemy.create_engine(location.url, **_ENGINE)
    try:
        return sqlalchemy.inspect(engine).has_table("studies")
    finally:
        engine.dispose()


def _proxy(location: Location) -> BaseStorage:
    import grpc  # noqa: PLC0415 - as above
    from optuna.storages import GrpcStorageProxy  # noqa: PLC0415 - it needs grpc

    host, port = location.host_and_port
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        proxy = GrpcStorageProxy(host=host, port=port)
    proxy.wait_server_ready(_CONNECT_S)
    _bound_calls(proxy, grpc)
    return proxy


def _bound_calls(proxy: Any, grpc: Any) -> None:  # noqa: ANN401 - Optuna's and gRPC's, both without types
    """Give every call an end: Optuna's own wait for ever where packets are lost."""
    from optuna.storages._grpc.auto_generated import api_pb2_grpc  # noqa: PLC0415 - as above
    from optuna.storages._grpc.client import GrpcClientCache  # noqa: PLC0415 - as above

    class Deadline(grpc.UnaryUnaryClientInterceptor):  # type: ignore[misc]  # gRPC has no types
        def intercept_unary_unary(self, go_on: Any, details: Any, request: Any) -> Any:  # noqa: ANN401 - as above
            return go_on(details._replace(timeout=_CALL_S), request)

    channel = grpc.intercept_channel(proxy._channel, Deadline())  # noqa: SLF001 - there is no other way in
    proxy._stub = api_pb2_grpc.StorageServiceStub(channel)  # type: ignore[no-untyped-call]  # noqa: SLF001
    proxy._cache = GrpcClientCache(proxy._stub)  # noqa: SLF001 - as above
