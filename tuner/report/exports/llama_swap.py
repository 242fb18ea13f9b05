"""`llama-swap`: a model for the configuration of llama-swap."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from tuner.engine.environment import NO_CONFIG_FILES
from tuner.errors import ExportError
from tuner.report.exports.about import about, commented, one_line
from tuner.report.exports.grouping import grouped
from tuner.report.exports.model_id import model_id
from tuner.report.exports.yaml_text import Block, yaml_text

if TYPE_CHECKING:
    from tuner.report.exports.form import Served

#: Names of variables that its schema allows.
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
#: What YAML takes for the end of a line.
_BREAK = re.compile(r"[\n\r\x85\u2028\u2029]")
_PORT = "${PORT}"
#: Addresses at which a server listens everywhere, and where it is then reached from here.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - addresses that are read, none is bound
_MOST_NAME = 128


class LlamaSwap:
    """llama-swap starts the server when the model is asked for, on a port of its choice unless one is set."""

    def write(self, served: Served) -> str:
        """The file.

        Raises:
            ExportError: A word or a variable cannot stand in this form.
        """
        serving = served.serving
        words = list(served.words) if serving.port is not None else [*served.words, "--port", _PORT]
        lines = [_word(served.program), *(" ".join(map(_word, group)) for group in grouped(words))]
        model: dict[str, Any] = {"cmd": Block("\n".join(lines) + "\n")}
        if serving.host is not None or serving.port is not None:
            model["proxy"] = _proxy(serving.host, serving.port)
        model["env"] = [
            _variable(name, value) for name, value in {**NO_CONFIG_FILES, **served.environment}.items()
        ]
        model["name"] = one_line(served.document["model"]["name"])[:_MOST_NAME] or model_id(served)
        return commented(about(served)) + yaml_text({"models": {model_id(served): model}})


def _proxy(host: str | None, port: int | None) -> str:
    """Where llama-swap reaches the server."""
    host = "127.0.0.1" if host is None else host.split(",")[0].strip()
    if host.endswith(".sock"):
        raise ExportError(f"llama-swap: it reaches a server by host and port, not at the socket {host}")
    host = _EVERYWHERE.get(host, host).strip("[]")
    return f"http://{f'[{host}]' if ':' in host else host}:{_PORT if port is None else port}"


def _word(word: str) -> str:
    """A word as its parser reads it: like a shell, but `${name}` is a macro wherever it stands."""
    if word == _PORT:
        return word
    if _BREAK.search(word):
        raise ExportError(
            f"llama-swap: {word!r} holds a line break, which this form cannot hold; take --format shell"
        )
    return shlex.quote(word).replace("${", "$''{")  # two quoted pieces, between which no macro begins


def _variable(name: str, value: str) -> str:
    if _VARIABLE.fullmatch(name) is None or "${" in value or "\n" in value:
        raise ExportError(
            f"llama-swap: the environment variable {name}={value!r} cannot stand in this form; take --format shell"
        )
    return f"{name}={value}"
