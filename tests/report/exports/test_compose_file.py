"""Compose itself reads the file, and finds the measured command, the cards and the files in it."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.support.system_tools import system_tool
from tests.support.winners import DEVICES, MODEL, ODD_FOLDER, UUIDS, a_winner
from tuner.core.serving import Serving
from tuner.errors import ExportError
from tuner.report.exports.compose_file import ComposeFile

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.report.exports.form import Served

INSIDE = ["--host", "0.0.0.0", "--port", "8080"]  # noqa: S104


def config(folder: Path, winner: Served, image: str | None = "llama:b1") -> subprocess.CompletedProcess[str]:
    """What `docker-compose config` says of the file."""
    path = folder / "compose.yaml"
    path.write_text(ComposeFile().write(winner), encoding="utf-8")
    return subprocess.run(
        [system_tool("docker-compose"), "-f", path, "config"],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            **({} if image is None else {"LLAMA_SERVER_IMAGE": image}),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def service(folder: Path, winner: Served) -> dict[str, Any]:
    """The service as compose has read it; what it prints has its dollars doubled, to be read again."""
    ended = config(folder, winner)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = _single(yaml.safe_load(ended.stdout)["services"]["llama-server"])
    return found


def _single(value: Any) -> Any:  # noqa: ANN401 - whatever YAML holds
    if isinstance(value, dict):
        return {name: _single(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_single(one) for one in value]
    return value.replace("$$", "$") if isinstance(value, str) else value


def test_command_cards_and_address(tmp_path: Path) -> None:
    read = service(
        tmp_path, a_winner(["-ts", "24,7", "--spec-draft-p-min", "5e-05"], environment={"GGML_A": "1e3"})
    )
    assert read["image"] == "llama:b1"
    assert read["command"] == ["-m", MODEL, "-ts", "24,7", "--spec-draft-p-min", "5e-05", *INSIDE]
    (cards,) = read["deploy"]["resources"]["reservations"]["devices"]
    assert cards == {"driver": "nvidia", "device_ids": list(UUIDS), "capabilities": ["gpu"]}
    assert read["environment"] == {
        "XDG_CONFIG_HOME": "/dev/null",
        "GGML_A": "1e3",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(UUIDS),
    }
    assert published(read) == ("127.0.0.1", 8080, 8080)


def published(read: dict[str, Any]) -> tuple[str, int, int]:
    (port,) = read["ports"]
    if isinstance(port, dict):
        return port["host_ip"], int(port["published"]), int(port["target"])
    host, outside, inside = port.removesuffix("/tcp").rsplit(":", 2)
    return host, int(outside), int(inside)


def test_files_lie_inside_where_they_lie_outside(tmp_path: Path) -> None:
    folder = f"/{ODD_FOLDER}"
    words = [
        "--mmproj",
        f"{folder}/mm.gguf",
        "--lora",
        "/l/a,/l/b",
        "--slot-save-path",
        "/slots",
        "-ts",
        "0.6/0.4",
    ]
    winner = a_winner(words, model=f"{folder}/m.gguf", serving=Serving(api_key_file="/etc/k"))
    read = service(tmp_path, winner)
    assert read["command"][:3] == ["-m", f"{folder}/m.gguf", "--mmproj"]
    assert read["command"][-2:] == ["--api-key-file", "/etc/k"]
    mounts = {(one["source"], one["target"], one.get("read_only", False)) for one in read["volumes"]}
    assert mounts == {
        (folder, folder, True),
        (f"{folder}/mm.gguf", f"{folder}/mm.gguf", True),
        ("/l/a", "/l/a", True),
        ("/l/b", "/l/b", True),
        ("/slots", "/slots", False),
        ("/etc/k", "/etc/k", True),
    }


@pytest.mark.parametrize(
    ("serving", "address"),
    [
        (Serving(host="0.0.0.0", port=9000), ("0.0.0.0", 9000, 8080)),  # noqa: S104
        (Serving(port=9000), ("127.0.0.1", 9000, 8080)),
    ],
)
def test_host_and_port_are_where_it_is_published(
    tmp_path: Path, serving: Serving, address: tuple[str, int, int]
) -> None:
    read = service(tmp_path, a_winner(["-ts", "2,3"], serving=serving))
    assert published(read) == address
    assert read["command"] == ["-m", MODEL, "-ts", "2,3", *INSIDE]


def test_it_is_published_at_each_address_and_at_no_socket() -> None:
    text = ComposeFile().write(a_winner(serving=Serving(host="127.0.0.1, ::1", port=9000)))
    ports = yaml.safe_load(text)["services"]["llama-server"]["ports"]
    assert ports == ["127.0.0.1:9000:8080", "[::1]:9000:8080"]
    with pytest.raises(ExportError, match=r"not the socket /run/l\.sock"):
        ComposeFile().write(a_winner(serving=Serving(host="/run/l.sock")))


def test_rpc_servers_of_this_machine_are_reached_by_its_own_network(tmp_path: Path) -> None:
    words = ["--rpc", "127.0.0.1:5000,10.0.0.7:5000"]
    devices = (("RPC0", "127.0.0.1:5000", None), ("RPC1", "10.0.0.7:5000", None))
    read = service(tmp_path, a_winner(words, devices=devices, serving=Serving(port=9000)))
    assert read["network_mode"] == "host"
    assert "ports" not in read
    assert read["command"] == ["-m", MODEL, *words, "--port", "9000"]
    assert "deploy" not in read


def test_cards_of_other_makers_are_given_as_device_files(tmp_path: Path) -> None:
    read = service(tmp_path, a_winner(["-ts", "2,3"], devices=(("ROCm0", "RX 7900 XTX", None),)))
    sources = [one["source"] if isinstance(one, dict) else one.split(":")[0] for one in read["devices"]]
    assert sources == ["/dev/kfd", "/dev/dri"]


def test_cards_whose_uuids_are_unknown_are_all_given(tmp_path: Path) -> None:
    read = service(tmp_path, a_winner(devices=[(name, text, None) for name, text, _ in DEVICES]))
    (cards,) = read["deploy"]["resources"]["reservations"]["devices"]
    assert "device_ids" not in cards
    assert "CUDA_VISIBLE_DEVICES" not in read["environment"]


def test_without_an_image_it_says_which_build_was_measured(tmp_path: Path) -> None:
    ended = config(tmp_path, a_winner(), image=None)
    assert ended.returncode != 0
    assert "an image whose llama-server is version: 0.6.0-dev (build 0)" in ended.stderr
