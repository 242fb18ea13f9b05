"""`env`: the command as environment variables, a line each."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from tuner.engine.environment import NO_CONFIG_FILES
from tuner.errors import ExportError
from tuner.report.exports.about import about, commented, one_line
from tuner.report.exports.settings import settings_of

if TYPE_CHECKING:
    from tuner.report.exports.form import Served

#: What stands for itself without quotes, in a shell and in systemd's EnvironmentFile.
_PLAIN = re.compile(r"[A-Za-z0-9_@%+:,./=-]*")
#: What a backslash has to stand before, between double quotes.
_ESCAPED = re.compile(r'(["\\$`])')


class EnvFile:
    """For `(set -a; . ./FILE; exec llama-server)`, and for systemd's EnvironmentFile."""

    def write(self, served: Served) -> str:
        """The file.

        Raises:
            ExportError: A flag of the command has no variable, or its variable cannot say what the flag says.
        """
        settings = settings_of(served.ask_help(), served.words, "env")
        without = [one.flag for one in settings if one.variable is None]
        if without:
            raise ExportError(
                f"env: this llama-server has no environment variable for {', '.join(without)}; "
                "take --format shell or preset-ini"
            )
        variables = (
            {str(one.variable): one.text for one in settings} | NO_CONFIG_FILES | dict(served.environment)
        )
        start = one_line(f"Start it with: (set -a; . ./THIS_FILE; exec {shlex.quote(served.program)})")
        header = [*about(served), start]
        return commented(header) + "".join(f"{name}={_quoted(value)}\n" for name, value in variables.items())


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return '"' + _ESCAPED.sub(r"\\\1", value) + '"'
