"""What is asked of a binary before anything is launched, and every binary that is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.fake_llama.builds import BUILDS
from tuner.engine import probe as probe_module
from tuner.engine.probe import Engine, list_devices, probe
from tuner.errors import EngineError, RigError

if TYPE_CHECKING:
    from pathlib import Path

WRAPPER = f'exec "{FakeEngine.path}" "$@"'


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    return FakeEngine(tmp_path)


@pytest.fixture
def environment(fake: FakeEngine) -> dict[str, str]:
    return fake.environment()


def script(folder: Path, body: str) -> Path:
    """A program of that body in a shell."""
    folder.mkdir(exist_ok=True)
    path = folder / "llama-server"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def refusal(path: Path, environment: dict[str, str]) -> str:
    with pytest.raises(EngineError) as caught:
        probe(path, environment)
    return str(caught.value)


# --- what a binary says


def test_engine_is_its_help_and_its_version(fake: FakeEngine, environment: dict[str, str]) -> None:
    engine = probe(fake.path, environment)
    assert engine.path == fake.path
    assert engine.version == "version: 0.6.0-dev (build 0, commit unknown)"
    assert engine.help.text == BUILDS["11434"].help_text()
    assert engine.hides_memory_lines


def test_old_build_is_told_by_its_help(tmp_path: Path) -> None:
    fake = FakeEngine(tmp_path, build="9246")
    engine = probe(fake.path, fake.environment())
    assert engine.version == "version: 9246 (a1b2c3d4)"
    assert engine.help.spelling("load-mode") is None


def test_memory_lines_are_hidden_where_the_log_has_prefixes(tmp_path: Path) -> None:
    for flags, hides in (("--log-prefix, --no-log-prefix", True), ("--log-prefix", False)):
        text = f"--split-mode {{none,layer}}   how\n--port PORT   where\n{flags}   prefix\n"
        path = script(tmp_path, f"cat <<'END'\n{text}END")
        assert probe(path, {"PATH": "/usr/bin:/bin"}).hides_memory_lines == hides


def test_binary_without_a_version_line_is_taken(tmp_path: Path, environment: dict[str, str]) -> None:
    path = script(tmp_path / "bin", f'[ "$1" = --version ] && exit 0\n{WRAPPER}')
    assert probe(path, environment).version == "unknown version"


def test_link_is_followed_to_the_binary(tmp_path: Path, environment: dict[str, str]) -> None:
    path = script(tmp_path / "bin", WRAPPER)
    link = tmp_path / "llama-server"
    link.symlink_to(path)
    engine = probe(link, environment)
    assert engine.path == path.resolve()
    assert engine.digest == probe(path, environment).digest


# --- what tells two engines apart


def test_digest_changes_with_the_binary_and_its_own_libraries_alone(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    folder = tmp_path / "bin"
    path = script(folder, WRAPPER)

    def digest() -> str:
        return probe(path, environment).digest

    first = digest()
    assert digest() == first
    (folder / "README.md").write_text("no part of the engine")
    (folder / "libother.so").write_bytes(b"nor this")
    assert digest() == first
    library = folder / "libggml-cuda.so"
    library.write_bytes(b"one")
    with_library = digest()
    library.write_bytes(b"two")
    with_another = digest()
    path.write_text(f"{path.read_text()}# rebuilt\n")
    rebuilt = digest()
    assert len({first, with_library, with_another, rebuilt}) == 4


# --- what is no engine


def test_missing_file_is_named(tmp_path: Path, environment: dict[str, str]) -> None:
    message = refusal(tmp_path / "nowhere", environment)
    assert message.startswith(f"{tmp_path}/nowhere: no such file")
    assert "--server" in message


def test_folder_is_told_from_the_binary_in_it(tmp_path: Path, environment: dict[str, str]) -> None:
    assert f"--server {tmp_path}/llama-server" in refusal(tmp_path, environment)


def test_file_that_is_not_executable_says_how_to_make_it_so(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    path = script(tmp_path, WRAPPER)
    path.chmod(0o644)
    assert f"chmod +x {path}" in refusal(path, environment)


def test_program_of_something_else_is_no_llama_server(tmp_path: Path, environment: dict[str, str]) -> None:
    assert "is no llama-server" in refusal(script(tmp_path, "echo 'usage: other'"), environment)


def test_file_that_the_system_cannot_start_is_named(tmp_path: Path, environment: dict[str, str]) -> None:
    path = script(tmp_path, "")
    path.write_bytes(b"\x7fELF of another machine")
    message = refusal(path, environment)
    assert message.startswith(f"{path} cannot be started: ")


def test_missing_library_is_named(tmp_path: Path, environment: dict[str, str]) -> None:
    said = "llama-server: error while loading shared libraries: libcudart.so.13: cannot open shared object"
    message = refusal(script(tmp_path, f"echo '{said}' >&2; exit 127"), environment)
    assert "libcudart.so.13" in message
    assert "LD_LIBRARY_PATH" in message


def test_binary_for_another_processor_is_told_from_a_crash(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    assert "SIGILL" in refusal(script(tmp_path, "ulimit -c 0; kill -ILL $$"), environment)


def test_failing_help_is_quoted(tmp_path: Path, environment: dict[str, str]) -> None:
    message = refusal(script(tmp_path, "echo first >&2; echo driver too old >&2; exit 3"), environment)
    assert message.endswith("--help ended with 3: driver too old")


def test_failing_help_that_says_nothing_is_no_riddle(tmp_path: Path, environment: dict[str, str]) -> None:
    assert refusal(script(tmp_path, "exit 3"), environment).endswith("ended with 3: it said nothing")


def test_hanging_binary_is_not_waited_for(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe_module, "PROBE_TIMEOUT_S", 0.2)
    assert "did not end within" in refusal(script(tmp_path, "exec sleep 60"), environment)


# --- devices


def engine_of(fake: FakeEngine) -> Engine:
    return probe(fake.path, fake.environment())


def test_devices_come_in_the_engines_order(fake: FakeEngine) -> None:
    devices = list_devices(engine_of(fake), fake.environment(), None)
    assert [(d.name, d.description, d.total_mib, d.free_mib) for d in devices] == [
        ("CUDA0", "NVIDIA GeForce RTX 5080", 16303, 15900),
        ("CUDA1", "NVIDIA GeForce RTX 3090", 24576, 24100),
    ]
    assert all(d.uuid is None and not d.stated for d in devices)


def test_description_with_parentheses_and_colons_is_kept_whole(tmp_path: Path) -> None:
    row = ("Vulkan0", "AMD Radeon RX 7900 XTX (RADV NAVI31): x (1 MiB, 1 MiB free)", 24560, 24000)
    fake = FakeEngine(tmp_path, devices=[row])
    (device,) = list_devices(engine_of(fake), fake.environment(), None)
    assert (device.name, device.description, device.total_mib, device.free_mib) == row


def test_no_device_is_an_empty_list(tmp_path: Path) -> None:
    fake = FakeEngine(tmp_path, devices=[])
    assert list_devices(engine_of(fake), fake.environment(), None) == ()


def test_rpc_servers_are_named_before_the_devices_are_listed(tmp_path: Path) -> None:
    rpc = "127.0.0.1:50052,127.0.0.1:50053"
    rows = [(f"RPC{i}", endpoint, 0, 0) for i, endpoint in enumerate(rpc.split(","))]
    fake = FakeEngine(tmp_path, devices=rows)
    devices = list_devices(engine_of(fake), fake.environment(), rpc)
    assert [(d.name, d.description) for d in devices] == [row[:2] for row in rows]
    assert fake.events("start")[-1]["argv"] == ["--rpc", rpc, "--list-devices"]


def test_rpc_server_that_does_not_answer_is_an_error_of_the_rig(tmp_path: Path, fake: FakeEngine) -> None:
    said = "0.00.012.001 E Failed to connect to 127.0.0.1:50052"
    path = script(tmp_path / "bin", f"[ \"$1\" = --rpc ] && {{ echo '{said}' >&2; exit 1; }}\n{WRAPPER}")
    engine = probe(path, fake.environment())
    with pytest.raises(RigError, match=r"^Failed to connect to 127\.0\.0\.1:50052; start ggml-rpc-server"):
        list_devices(engine, fake.environment(), "127.0.0.1:50052")


def test_engine_that_cannot_list_devices_is_quoted(tmp_path: Path, fake: FakeEngine) -> None:
    path = script(
        tmp_path / "bin", f'[ "$1" = --list-devices ] && {{ echo no driver >&2; exit 9; }}\n{WRAPPER}'
    )
    engine = probe(path, fake.environment())
    with pytest.raises(EngineError, match="--list-devices ended with 9: no driver"):
        list_devices(engine, fake.environment(), None)
