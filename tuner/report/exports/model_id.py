"""A short name for the model, where a form wants one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.report.exports.form import Served

_OTHERS = re.compile(r"[^A-Za-z0-9._-]+")


def model_id(served: Served) -> str:
    """The alias; else the model's file name without its ending, in letters that need no quotes anywhere."""
    if served.serving.alias is not None:
        return served.serving.alias
    stem = served.model_path.rpartition("/")[2].removesuffix(".gguf")
    return _OTHERS.sub("-", stem).strip("-.") or "model"
