"""What is exported starts the real llama-server, and it does what was tuned."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.support.winners import ODD_FOLDER, a_winner
from tuner.core.serving import Serving
from tuner.engine.gguf import read_model
from tuner.engine.probe import probe
from tuner.report.exports.registry import FORMS, Format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.support.rpc_pair import RpcPair
    from tuner.report.exports.form import Served

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]

DEADLINE_S = 90.0
_POLL_S = 0.1
_KEY = "a-key"
#: Nothing of it is what the engine would choose by itself.
WORDS = (
    *("--device", "RPC1,RPC0", "--split-mode", "layer", "--tensor-split", "10,21", "--gpu-layers", "999"),
    *("--fit", "off", "--ctx-size", "3072", "--parallel", "3", "--no-kv-unified", "--batch-size", "512"),
    *("--ubatch-size", "128", "--flash-attn", "on", "--cache-type-k", "q8_0", "--cache-type-v", "q8_0"),
    *("--spec-type", "ngram-mod", "--verbosity", "4"),
)


@pytest.fixture
def odd(tmp_path: Path, llama_server_path: Path, smollm2_path: Path) -> Path:
    """A folder of a name with spaces and quotes, with the engine and the model in it."""
    return in_folder(tmp_path / ODD_FOLDER, llama_server_path, smollm2_path)


def in_folder(folder: Path, llama_server_path: Path, smollm2_path: Path) -> Path:
    """A folder with the engine and the model in it."""
    folder.mkdir()
    (folder / "llama-server").symlink_to(llama_server_path)
    (folder / "model.gguf").symlink_to(smollm2_path)
    return folder


def winner(folder: Path, pair: RpcPair, serving: Serving | None = None) -> Served:
    ports = pair.endpoints.split(",")
    return a_winner(
        ["--rpc", pair.endpoints, *WORDS],
        program=str(folder / "llama-server"),
        model=str(folder / "model.gguf"),
        devices=[(f"RPC{index}", endpoint, None) for index, endpoint in enumerate(ports)],
        serving=serving,
    )


def written(form: Format, served: Served, path: Path) -> Path:
    path.write_text(FORMS[form].write(served), encoding="utf-8")
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@contextmanager
def started(
    argv: Sequence[object], environment: Mapping[str, str], log_path: Path, port: int
) -> Iterator[httpx.Client]:
    """A server that answers; ended with all that it has started."""
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [str(word) for word in argv],
            env={"PATH": os.environ["PATH"], **environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {_KEY}"},
            timeout=DEADLINE_S,
            limits=httpx.Limits(max_keepalive_connections=0),
        ) as client:
            until(lambda: answers(client, process, log_path))
            yield client
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(DEADLINE_S)


def until(met: Callable[[], bool]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not met():
        assert time.monotonic() < end_s
        time.sleep(_POLL_S)


def answers(client: httpx.Client, process: subprocess.Popen[bytes], log_path: Path) -> bool:
    assert process.poll() is None, log_path.read_text(encoding="utf-8", errors="replace")
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def assert_tuned(client: httpx.Client, log_path: Path, pair: RpcPair, model: str | None = None) -> None:
    """Everything that was asked for, as the server itself says it."""
    query = {} if model is None else {"model": model}
    props = client.get("/props", params=query).json()
    assert props["total_slots"] == 3
    assert props["default_generation_settings"]["n_ctx"] == 1024
    assert props["model_path"].endswith("model.gguf")
    slots = client.get("/slots", params=query).json()
    assert [(slot["n_ctx"], slot["speculative"]) for slot in slots] == [(1024, True)] * 3
    log = log_path.read_text(encoding="utf-8", errors="replace")
    for said in (
        r"n_batch +=\s+512\n",
        r"n_ubatch +=\s+128\n",
        r"kv_unified +=\s+false\n",
        r"K \(q8_0\).*V \(q8_0\)",
    ):
        assert re.search(said, log), said
    first, second = (_kv_mib(log, endpoint) for endpoint in pair.endpoints.split(","))
    assert first == pytest.approx(
        2 * second, rel=0.01
    )  # 20 of 30 layers: the split's order is that of --device


def _kv_mib(log: str, endpoint: str) -> float:
    found = re.search(rf"{re.escape(endpoint)}\] KV buffer size =\s+([\d.]+) MiB", log)
    assert found is not None, log
    return float(found[1])


def test_the_script_starts_it_from_a_path_with_spaces_and_quotes(
    tmp_path: Path, odd: Path, rpc_pair: RpcPair
) -> None:
    port, key = free_port(), tmp_path / "the keys"
    key.write_text(_KEY + "\n", encoding="utf-8")
    serving = Serving(port=port, api_key_file=str(key), alias="owl")
    script = written(Format.SHELL, winner(odd, rpc_pair, serving), odd / "serve me.sh")
    log_path = tmp_path / "shell.log"
    with started(["/bin/sh", script], {"LLAMA_ARG_CTX_SIZE": "512"}, log_path, port) as client:
        assert_tuned(client, log_path, rpc_pair)
        (model,) = client.get("/v1/models").json()["data"]
        assert model["id"] == "owl"
        assert client.get("/props", headers={"Authorization": "Bearer wrong"}).status_code == 401


def test_the_variables_start_it(tmp_path: Path, odd: Path, rpc_pair: RpcPair) -> None:
    port = free_port()
    file = written(Format.ENV, winner(odd, rpc_pair, Serving(port=port)), tmp_path / "tuned.env")
    log_path = tmp_path / "env.log"
    command = ["/bin/sh", "-c", 'set -a; . "$1"; set +a; exec "$2"', "sh", file, odd / "llama-server"]
    with started(command, {}, log_path, port) as client:
        assert_tuned(client, log_path, rpc_pair)


def test_the_preset_starts_it(
    tmp_path: Path, llama_server_path: Path, smollm2_path: Path, rpc_pair: RpcPair
) -> None:
    folder = in_folder(tmp_path / 'it\'s a "dir" with $HOME, 100 %', llama_server_path, smollm2_path)
    port, log_path = free_port(), tmp_path / "preset.log"
    preset = written(
        Format.PRESET_INI, winner(folder, rpc_pair, Serving(alias="my owl")), tmp_path / "tuned.ini"
    )
    command = [folder / "llama-server", "--models-preset", preset, "--port", str(port)]
    with started(command, {"XDG_CONFIG_HOME": "/dev/null"}, log_path, port) as client:
        assert [model["id"] for model in client.get("/models").json()["data"]] == ["my owl"]
        assert client.post("/models/load", json={"model": "my owl"}).status_code == 200
        until(lambda: status(client) != "loading")
        assert status(client) == "loaded"
        assert_tuned(client, log_path, rpc_pair, "my owl")


def status(client: httpx.Client) -> str:
    """What the router says of its one model."""
    (model,) = client.get("/models").json()["data"]
    text: str = model["status"]["value"]
    return text


def test_serve_starts_it(tmp_path: Path, odd: Path, rpc_pair: RpcPair) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "LLAMA_ARG_CTX_SIZE": "512"}
    best = dict(winner(odd, rpc_pair).document)
    engine = probe(odd / "llama-server", environment)
    best["engine"] = {**best["engine"], "digest": engine.digest}
    best["model"] = {**best["model"], "fingerprint": read_model(odd / "model.gguf").fingerprint}
    path = tmp_path / "best.json"
    path.write_text(json.dumps(best), encoding="utf-8")
    port, log_path = free_port(), tmp_path / "serve.log"
    command = [sys.executable, "-m", "tuner", "serve", path, "--port", str(port)]
    with started(command, environment, log_path, port) as client:
        assert_tuned(client, log_path, rpc_pair)
    assert "note:" not in log_path.read_text(encoding="utf-8", errors="replace")
