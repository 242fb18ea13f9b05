"""The winner that is to be exported or served: out of a study or a best.json, with what the owner sets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema

from tuner.cli.opened import open_study
from tuner.core.serving import Serving
from tuner.engine.environment import empty_config_home, server_environment
from tuner.engine.gguf import read_model
from tuner.engine.probe import probe
from tuner.errors import EngineError, StudyError, UsageError
from tuner.report.best import check_best
from tuner.report.exports.form import Served, served

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.cli.places import Places
    from tuner.engine.help_text import HelpText

_HIGHEST_PORT = 65535


def read_best(named: str, places: Places) -> dict[str, Any]:
    """best.json as it is now: of a study, or a file of that form.

    Args:
        named: A study or a file.
        places: Where studies are looked for.

    Raises:
        StudyError: There is no such study or file, it is no best.json, or nothing was measured yet.
        UsageError: The storage that is named is none.
    """
    path = places.file_of(named)
    if path is not None:
        return _read_file(path)
    document = open_study(named, places).best("export")
    check_best(document)
    return document


def read_serving(
    *,
    model_path: Path | None,
    host: str | None,
    port: int | None,
    api_key_file: Path | None,
    alias: str | None,
) -> Serving:
    """What the owner sets, with whole paths: what starts the server may stand anywhere.

    Raises:
        UsageError: A value that cannot be one.
    """
    if port is not None and not 0 < port <= _HIGHEST_PORT:
        raise UsageError(f"--port: must be from 1 to {_HIGHEST_PORT}, got {port}")
    for name, value in (("--host", host), ("--alias", alias)):
        if value is not None and (not value.strip() or value.startswith("-") or not value.isprintable()):
            raise UsageError(f"{name}: must be a name, got {value!r}")
    return Serving(
        model_path=None if model_path is None else str(model_path.expanduser().absolute()),
        host=host,
        port=port,
        api_key_file=None if api_key_file is None else str(api_key_file.expanduser().absolute()),
        alias=alias,
    )


def winner_served(document: dict[str, Any], serving: Serving, note: Callable[[str], None]) -> Served:
    """The winner's command with what the owner sets.

    Args:
        document: best.json.
        serving: What the owner sets.
        note: Is told what the owner should know.

    Raises:
        UsageError: The model that the owner names is another one than was measured.
    """
    if serving.model_path is not None:
        _check_model(serving.model_path, document, note)
    if serving.is_open:
        note(
            f"--host {serving.host} lets other machines in, and without --api-key-file any of them may ask: "
            "give a key, or let it listen on 127.0.0.1"
        )

    def ask_help() -> HelpText:
        path, measured = Path(document["winner"]["argv"][0]), document["engine"]
        try:
            engine = probe(path, server_environment(os.environ, empty_config_home(), allow_p2p=True))
        except EngineError as error:
            raise EngineError(
                f"{error}; this form needs the help of the llama-server that was measured: put it back, or take "
                "--format shell"
            ) from error
        if engine.digest != measured["digest"]:
            note(
                f"{path} is not the llama-server that was measured any more: {measured['version']} then, "
                f"{engine.version} now, other files; what is measured with this one may differ"
            )
        return engine.help

    return served(document, serving, ask_help)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        check_best(document)
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise StudyError(f"{path} is no best.json: {error}; give a study, or its best.json") from error
    except jsonschema.ValidationError as error:
        raise StudyError(
            f"{path} is no best.json of this version: {error.json_path}: {error.message[:200]}; "
            "give a study, or its best.json"
        ) from error
    return dict(document)


def _check_model(path: str, document: dict[str, Any], note: Callable[[str], None]) -> None:
    """A model that can be read here has to be the measured one; another machine's paths cannot be looked at."""
    if not Path(path).is_file():
        note(
            f"--model-path {path}: no such file here, so nothing says that it is the model that was measured"
        )
        return
    model = read_model(Path(path))
    if model.fingerprint != document["model"]["fingerprint"]:
        raise UsageError(
            f"--model-path {path}: this is {model.name} ({model.size_bytes / 2**30:.2f} GiB), another file than was "
            f"measured ({document['model']['name']}, {document['model']['size_bytes'] / 2**30:.2f} GiB); "
            "tune it, or give the measured one"
        )
