"""The environment of the servers: the user's own, less what would change them behind our back."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Marks every server that we start, so that an orphan is recognised even if its pid was never written down.
TOKEN_VARIABLE = "SPLIT_RATIO_TUNER_TOKEN"  # noqa: S105 - a name, no secret

#: Read by the engine and able to change what is measured: kept where the user sets them, and written down.
NOTED_PREFIXES = ("GGML_", "CUDA_", "NCCL_", "HIP_", "ROCR_", "HSA_")
#: They say where a toolkit lies or which one an image holds, and no server reads them.
_OF_TOOLKITS = frozenset(
    {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_BIN_PATH", "CUDA_VERSION", "NCCL_VERSION"}
)
#: Where a server listens, who may ask it and where it keeps what it downloads: nothing that is measured.
SERVING_VARIABLES = (
    *("LLAMA_API_KEY", "LLAMA_ARG_ALIAS", "LLAMA_ARG_API_KEY_FILE", "LLAMA_ARG_API_PREFIX", "LLAMA_ARG_HOST"),
    *(
        "LLAMA_ARG_PORT",
        "LLAMA_ARG_REUSE_PORT",
        "LLAMA_ARG_SSL_CERT_FILE",
        "LLAMA_ARG_SSL_KEY_FILE",
        "LLAMA_CACHE",
    ),
)
#: Where llama.cpp looks for its config files (builds from 10435 on), set to what holds none.
NO_CONFIG_FILES = {"XDG_CONFIG_HOME": "/dev/null"}
_PEER_ACCESS = "GGML_CUDA_P2P"
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
#: What may hold the password of a storage that several machines share.
_STORAGES = ("TUNER_STORAGE", "PGPASSWORD")
#: Nothing that is started or written down has these.
_SECRETS = ("LLAMA_API_KEY", *_TOKENS, *_STORAGES)


def server_environment(inherited: Mapping[str, str], config_home: Path, *, allow_p2p: bool) -> dict[str, str]:
    """The environment that every server and every probe gets.

    `LLAMA_*` goes (options in disguise, and the key of somebody's API), Hugging Face's tokens and passwords of
    storages go, the folder of config files is an empty one, a crash does not fork gdb, and peer access is off
    unless it was asked for: it can hang a machine or corrupt what it computes.

    Args:
        inherited: The user's environment.
        config_home: An empty folder.
        allow_p2p: Whether the user's own `GGML_CUDA_P2P` may stay.
    """
    gone = ("LLAMA_", *_TOKENS, *_STORAGES)
    kept = {name: value for name, value in inherited.items() if not name.startswith(gone)}
    if not allow_p2p:
        kept.pop(_PEER_ACCESS, None)
    return {**kept, "XDG_CONFIG_HOME": str(config_home), "GGML_NO_BACKTRACE": "1"}


def serving_environment(inherited: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The environment of a tuned server that is to serve: what it was measured with, and the caller's own rest.

    What would change the measured configuration goes: options in disguise, config files, and variables of the
    back ends that were not set when it was measured. Where it listens and who may ask it stays the caller's.

    Args:
        inherited: The caller's environment.
        own: Variables that belong to the command.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if name in SERVING_VARIABLES or not name.startswith(("LLAMA_", *NOTED_PREFIXES, *_STORAGES))
    }
    return {**kept, **NO_CONFIG_FILES, **own}


def is_secret(name: str) -> bool:
    """Whether a variable holds a key or a token of the user's."""
    return name.startswith(_SECRETS)


def empty_config_home() -> Path:
    """A folder for `XDG_CONFIG_HOME` that holds nothing: one a user, so that killed runs leave no heap of them."""
    folder = Path(tempfile.gettempdir()) / f"split-ratio-tuner-config-{os.getuid()}"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid == os.getuid() and not folder.is_symlink() and not any(folder.iterdir()):
            return folder
    return Path(tempfile.mkdtemp(prefix="split-ratio-tuner-config-"))


def noted(environment: Mapping[str, str]) -> dict[str, str]:
    """What of the user's own environment a measurement depends on, to be repeated with the command."""
    return {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(NOTED_PREFIXES) and name not in {"GGML_NO_BACKTRACE", *_OF_TOOLKITS}
    }
