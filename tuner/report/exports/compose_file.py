"""`compose`: a service for `docker compose`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tuner.core.serving import MODEL, value_of
from tuner.engine.environment import NO_CONFIG_FILES
from tuner.errors import ExportError
from tuner.report.exports.about import about, commented, one_line
from tuner.report.exports.yaml_text import yaml_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuner.report.exports.form import Served

#: What a server writes to; all else is mounted for reading only.
_WRITTEN = ("--slot-save-path", "--log-file", "--log-prompts-dir")
_PORT_INSIDE = 8080
_LOOPBACK = re.compile(r"(?:localhost|127\.[\d.]+|\[::1\]):\d+")
_DRI = "/dev/dri:/dev/dri"
_DEVICE_FILES = {"ROCm": ["/dev/kfd:/dev/kfd", _DRI], "Vulkan": [_DRI], "SYCL": [_DRI]}


class ComposeFile:
    """The image is the owner's: one with the llama-server that was measured, in `LLAMA_SERVER_IMAGE`.

    Files lie inside where they lie outside, so that the command stays as it was measured.
    """

    def write(self, served: Served) -> str:
        """The file.

        Raises:
            ExportError: It is to listen where no port can be published.
        """
        version = one_line(served.document["engine"]["version"]).replace("$", "").replace("}", "")
        service: dict[str, Any] = {
            "image": f"${{LLAMA_SERVER_IMAGE:?name an image whose llama-server is {version}}}",
            **_network(served),
            "environment": {
                name: _literal(value) for name, value in {**NO_CONFIG_FILES, **served.environment}.items()
            },
            "volumes": [
                {
                    "type": "bind",
                    "source": _literal(path),
                    "target": _literal(path),
                    **({} if writes else {"read_only": True}),
                }
                for path, writes in _mounts(served)
            ],
            **_cards(served),
            "restart": "unless-stopped",
        }
        lines = about(served)
        lines.append(
            "LLAMA_SERVER_IMAGE has to name an image with that build, or it is not what was measured."
        )
        return commented(lines) + yaml_text({"services": {"llama-server": service}})


def _network(served: Served) -> dict[str, Any]:
    """The command and how it is reached: published on this machine only, unless the owner says otherwise."""
    serving, words = served.serving, list(served.words)
    if serving.flags:
        words = words[: -len(serving.flags)]
    key = [] if serving.api_key_file is None else ["--api-key-file", serving.api_key_file]
    rpc = value_of(words, ("--rpc",))
    if rpc is not None and any(_LOOPBACK.fullmatch(endpoint) for endpoint in rpc.split(",")):
        # this machine's own loopback, which a container has only with its network
        return {"command": [*map(_literal, served.words)], "network_mode": "host"}
    # inside it listens for the container's network, of which only the published port is reached
    inside = ["--host", "0.0.0.0", "--port", str(_PORT_INSIDE)]  # noqa: S104 - in a container
    hosts = (serving.host or "127.0.0.1").split(",")
    return {
        "command": [*map(_literal, (*words, *inside, *key))],
        "ports": [
            f"{_bracketed(host.strip())}:{serving.port or _PORT_INSIDE}:{_PORT_INSIDE}" for host in hosts
        ],
    }


def _bracketed(host: str) -> str:
    """An address as it stands before a port."""
    if host.endswith(".sock"):
        raise ExportError(f"compose: it publishes a port, not the socket {host}; give an address with --host")
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _mounts(served: Served) -> Iterator[tuple[str, bool]]:
    """Paths that the command names, and whether they are written to; the model's with its folder, for its shards."""
    seen: set[str] = set()
    model = value_of(served.words, MODEL)
    for flag, value in zip(served.words, served.words[1:], strict=False):
        if not flag.startswith("-"):
            continue
        parts = value.split(",")
        is_list = value != model and all(part.startswith("/") for part in parts)
        for path in parts if is_list else [value]:
            folder = path.rpartition("/")[0] or path if path == model else path
            if folder.startswith("/") and folder not in seen:
                seen.add(folder)
                yield folder, flag in _WRITTEN


def _cards(served: Served) -> dict[str, Any]:
    """What gives the container its cards."""
    if any(device.name.startswith("CUDA") for device in served.devices):
        which = {"device_ids": list(served.pinned)} if served.pinned else {"count": "all"}
        reservation = {"driver": "nvidia", **which, "capabilities": ["gpu"]}
        return {"deploy": {"resources": {"reservations": {"devices": [reservation]}}}}
    files: list[str] = []
    for prefix, needed in _DEVICE_FILES.items():
        if any(device.name.startswith(prefix) for device in served.devices):
            files += [file for file in needed if file not in files]
    return {"devices": files} if files else {}


def _literal(text: str) -> str:
    """A text that compose does not interpolate."""
    return text.replace("$", "$$")
