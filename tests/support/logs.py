"""Logs of real servers, build 11434: CUDA ones of a 27B model, RPC ones of a 135M model.

Paths were shortened and long ones cut in the middle, at line ends; nothing else was changed.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "fixtures" / "logs"


def server_log(name: str) -> str:
    """The log of that name."""
    return (_FOLDER / f"{name}.log").read_text(encoding="utf-8")
