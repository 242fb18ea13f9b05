"""Fixtures of the real engine, model and device pair, for tests marked `server`."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import engine_setup
from tests.support.postgres import Postgres
from tests.support.rpc_pair import RpcPair


@pytest.fixture(autouse=True, scope="session")
def own_data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests teach about rigs is not kept with the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(autouse=True, scope="session")
def heeds_signals() -> Iterator[None]:
    """A program that was started in the background or by nohup ignores some, and so would its children."""
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def llama_server_path() -> Path:
    return _installed(engine_setup.llama_server)


@pytest.fixture(scope="session")
def server_path() -> Callable[[int], Path]:
    """The path of llama-server by build: 11434, or 10435."""
    return lambda build: _installed(lambda: engine_setup.llama_server(build))


@pytest.fixture(scope="session")
def rpc_server_path() -> Path:
    return _installed(engine_setup.rpc_server)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    return _installed(engine_setup.model_path)


@pytest.fixture(scope="session")
def rpc_pair(rpc_server_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RpcPair]:
    with RpcPair(tmp_path_factory.mktemp("rpc-pair"), program=rpc_server_path) as pair:
        pair.supervise()
        yield pair


def _installed(find: Callable[[], Path]) -> Path:
    """Fails, never skips: a suite that passes without the engine would say nothing."""
    try:
        return find()
    except engine_setup.EngineMissingError as error:
        pytest.fail(f"run make engine: {error}", pytrace=False)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One for all tests: it takes seconds to start. A test that stops it starts it again."""
    with Postgres() as server:
        yield server
