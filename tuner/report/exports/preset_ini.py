"""`preset-ini`: a model for `llama-server --models-preset`."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from tuner.core.serving import ALIAS, MODEL, value_of
from tuner.engine.environment import NO_CONFIG_FILES
from tuner.errors import ExportError
from tuner.report.exports.about import about, commented, one_line
from tuner.report.exports.model_id import model_id
from tuner.report.exports.settings import settings_of

if TYPE_CHECKING:
    from tuner.report.exports.form import Served

#: Its parser (common/preset.cpp, build 11434) ends a value at these, wherever they stand, and knows no quotes.
_ENDS_VALUE = re.compile(r"[;#\r\n]")
#: The router sets these itself, whatever a preset says of them.
_OF_ROUTER = frozenset({"host", "port", "api-key-file", "alias"})
_NAME = re.compile(r"[^\]\[:\r\n;#*]+")


class PresetIni:
    """The router starts a server of its own with these options when the model is asked for."""

    def write(self, served: Served) -> str:
        """The file.

        Raises:
            ExportError: A value cannot stand in this form, or the engine knows no presets.
        """
        help_text = served.ask_help()
        if help_text.option("models-preset") is None:
            raise ExportError("preset-ini: this llama-server has no --models-preset; take --format shell")
        name = value_of(served.words, ALIAS) or model_id(served)
        if _NAME.fullmatch(name) is None or name != name.strip() or name == "default":
            raise ExportError(
                f"preset-ini: {name!r} cannot name a preset (none of [ ] : ; # *, and not 'default'); "
                "give another with --alias"
            )
        settings = settings_of(help_text, served.words, "preset-ini")
        lines = [f"{one.key} = {one.text}" for one in settings if one.key not in _OF_ROUTER]
        for one in settings:
            if _ENDS_VALUE.search(one.text) or one.text != one.text.strip():
                raise ExportError(
                    f"preset-ini: the value of {one.flag} holds ; or #, a line break, or a blank at its end, "
                    f"which this form cannot hold: {one.text!r}; rename the file, or take --format shell"
                )
        start = [
            f"{key}={shlex.quote(value)}" for key, value in {**NO_CONFIG_FILES, **served.environment}.items()
        ]
        start += [shlex.quote(served.program), "--models-preset", "THIS_FILE", *served.serving.flags]
        header = [*about(served), one_line(f"Start it with: {' '.join(start)}")]
        if MODEL[1].lstrip("-") not in {one.key for one in settings}:
            raise ExportError("preset-ini: the command names no model file; take --format shell")
        return commented(header, ";") + f"version = 1\n\n[{name}]\n" + "".join(f"{line}\n" for line in lines)
