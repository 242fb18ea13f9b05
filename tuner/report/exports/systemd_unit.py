"""`systemd`: a service that starts the server, for the system or for a user."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tuner.engine.environment import NO_CONFIG_FILES
from tuner.report.exports.about import about, commented, one_line
from tuner.report.exports.grouping import grouped

if TYPE_CHECKING:
    from tuner.report.exports.form import Served

_PLAIN = re.compile(r"[A-Za-z0-9_@:,./=+-]+")
_CONTINUED = " \\\n  "
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
#: What systemd takes as the path of a program (`string_is_safe` refuses quotes and backslashes), and would not
#: expand.
_PROGRAM = re.compile(r"/[^\"'\\$\x00-\x1f\x7f]*")


class SystemdUnit:
    """Put it into /etc/systemd/system or ~/.config/systemd/user as a `.service`."""

    def write(self, served: Served) -> str:
        """The unit."""
        environment = {**NO_CONFIG_FILES, **served.environment}
        variables = "".join(
            f"Environment={_quoted(f'{name}={value}')}\n" for name, value in environment.items()
        )
        command = [_program(served.program), *(" ".join(map(_word, g)) for g in grouped(served.words))]
        title = one_line(f"llama-server: {served.document['model']['name']}").replace("%", "%%")
        return (
            f"{commented(about(served))}"
            "[Unit]\n"
            f"Description={title}\n"
            "After=network.target\n"
            "StartLimitIntervalSec=600\n"
            "StartLimitBurst=3\n\n"
            "[Service]\n"
            f"{variables}"
            f"ExecStart={_CONTINUED.join(command)}\n"
            "Restart=on-failure\n"
            "RestartSec=5\n\n"
            "[Install]\n"
            "WantedBy=default.target\n"
        )


def _program(path: str) -> str:
    """The program; by way of a shell where its path holds what systemd refuses."""
    if _PROGRAM.fullmatch(path) is not None:
        return _quoted(path)
    return f'/bin/sh -c "exec \\"$$0\\" \\"$$@\\"" {_word(path)}'


def _word(word: str) -> str:
    """A word of a command: `$` would be expanded, too."""
    return _quoted(word).replace("$", "$$")


def _quoted(text: str) -> str:
    """A text in systemd's quotes, with nothing left to expand."""
    text = text.replace("%", "%%")
    if _PLAIN.fullmatch(text) is not None:
        return text
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text) + '"'
