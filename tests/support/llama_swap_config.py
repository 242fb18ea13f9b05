"""A configuration of llama-swap, read by the rules of its documentation and its schema, in our own words.

llama-swap itself is in no package registry that the tests can reach. The rules are those of its
`config-schema.json` and of its reading of `cmd` as of commit 032d741: what a model may hold and of which type, how
variables are written, which texts are macros, and that a command is split as a shell would.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

import yaml

_MACRO = re.compile(r"\$\{([a-zA-Z0-9_-]+)\}|\$\{env\.[a-zA-Z_][a-zA-Z0-9_]*\}")
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*=.*")
_URI = re.compile(r"https?://(?:\[[0-9a-f:.]+\]|[\w.-]+):(?:\d+|\$\{PORT\})")
#: Keys of a model that an export of ours writes.
_TEXTS = {"cmd": 10**6, "name": 128, "proxy": 10**6}


@dataclass(frozen=True, slots=True)
class SwapModel:
    """A model as llama-swap would start it at port 5800."""

    argv: list[str]
    environment: dict[str, str]
    proxy: str


def read_config(text: str) -> dict[str, SwapModel]:
    """The models of a configuration; an AssertionError where it breaks a rule."""
    document = yaml.safe_load(text)
    assert isinstance(document, dict)
    assert set(document) == {"models"}
    return {str(name): _model(name, model) for name, model in document["models"].items()}


def _model(name: object, model: dict[str, Any]) -> SwapModel:
    assert isinstance(name, str)
    assert set(model) <= {*_TEXTS, "env"}
    for key, longest in _TEXTS.items():
        assert key not in model or (isinstance(model[key], str) and 0 < len(model[key]) <= longest)
    env = model.get("env", [])
    assert isinstance(env, list)
    assert all(isinstance(one, str) and _VARIABLE.fullmatch(one) for one in env)
    proxy = model.get("proxy", "http://localhost:${PORT}")
    assert _URI.fullmatch(proxy), proxy
    return SwapModel(
        argv=shlex.split(_substituted("\n".join(_without_comments(model["cmd"])))),
        environment=dict(_substituted(one).split("=", 1) for one in env),
        proxy=_substituted(proxy),
    )


def _without_comments(command: str) -> list[str]:
    return [line for line in command.split("\n") if not line.strip().startswith("#")]


def _substituted(text: str) -> str:
    unknown = [found[0] for found in _MACRO.finditer(text) if found[1] not in {"PORT", "MODEL_ID"}]
    assert not unknown, f"unknown macro {unknown}"
    return text.replace("${PORT}", "5800")
