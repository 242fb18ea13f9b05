"""systemd itself finds nothing wrong with the unit, and reads the measured command out of it."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.system_tools import system_tool
from tests.support.winners import ODD_FOLDER, UUIDS, a_winner, recorder
from tuner.core.serving import Serving
from tuner.report.exports.systemd_unit import SystemdUnit

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.report.exports.form import Served

_ESCAPE = re.compile(r'\\(?:x([0-9a-f]{2})|([0-7]{3})|([abfnrtv])|(["\\$`]))')
_LETTERS = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


def verified(folder: Path, winner: Served, *, level: str = "warning") -> str:
    """What `systemd-analyze verify` says of the unit; it has to end well."""
    unit = folder / "llama.service"
    unit.write_text(SystemdUnit().write(winner), encoding="utf-8")
    ended = subprocess.run(
        [system_tool("systemd-analyze"), "verify", unit],
        env={"PATH": os.environ["PATH"], "SYSTEMD_LOG_LEVEL": level, "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout + ended.stderr


def words(line: str) -> list[str]:
    """The words of a command line as systemd's dump quotes them."""
    found = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line)
    return [bare or _ESCAPE.sub(_unescaped, quoted) for quoted, bare in found]


def _unescaped(found: re.Match[str]) -> str:
    code, octal, letter, own = found.groups()
    if code is not None:
        return chr(int(code, 16))
    if octal is not None:
        return chr(int(octal, 8))
    return _LETTERS[letter] if letter is not None else own


def expanded(words: list[str]) -> list[str]:
    """What a service gets: `$$` stands for `$`, and nothing else of ours is expanded."""
    assert all("$" not in word.replace("$$", "") for word in words)
    return [word.replace("$$", "$") for word in words]


@pytest.mark.parametrize("folder", ["plain", "with space", "100%", "$HOME ${X}", ODD_FOLDER])
def test_systemd_verifies_it_and_reads_the_measured_command(tmp_path: Path, folder: str) -> None:
    program = str(recorder(tmp_path / folder / "llama-server"))
    more = ["-ts", "24,7", "--tags", "a\nb\t", "", "%h $$x ${Y} \\n 'q' \"p\"", "-1", "ä"]
    winner = a_winner(
        more,
        program=program,
        model=f"/{folder}/m.gguf",
        environment={"GGML_A": 'b "c" %h $x \\ d'},
        serving=Serving(host="::1", port=9000, api_key_file="/k k"),
        name="50 % of a\nModel",
    )
    assert verified(tmp_path, winner) == ""
    dump = verified(tmp_path, winner, level="debug")
    (line,) = [
        one.split("Command Line: ", 1)[1]
        for one in dump.splitlines()
        if f"{folder[:4]}" in one and "m.gguf" in one and "Command Line: " in one
    ]
    first, *rest = words(line)
    served = ["-m", f"/{folder}/m.gguf", *more, "--host", "::1", "--port", "9000", "--api-key-file", "/k k"]
    if first == "/bin/sh":  # its own quotes would end systemd's path of a program
        assert rest[:2] == ["-c", 'exec "$$0" "$$@"']
        assert expanded(rest[2:]) == [program, *served]
    else:
        assert [first, *expanded(rest)] == [program, *served]
    variables = [one.split("Environment: ", 1)[1] for one in dump.splitlines() if "\tEnvironment: " in one]
    assert 'GGML_A=b "c" %h $x \\ d' in variables
    assert f"CUDA_VISIBLE_DEVICES={','.join(UUIDS)}" in variables


def test_the_way_by_a_shell_starts_the_program(tmp_path: Path) -> None:
    """What stands in the unit for a path with quotes, run as systemd would."""
    program = recorder(tmp_path / ODD_FOLDER / "llama-server")
    text = SystemdUnit().write(a_winner(["-ts", "2,3"], program=str(program)))
    assert 'ExecStart=/bin/sh -c "exec \\"$$0\\" \\"$$@\\"" ' in text
    subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" "$@"', program, "-ts", "2,3"],
        env={"PATH": os.environ["PATH"], "RECORD": str(tmp_path / "r")},
        check=True,
    )
    assert (tmp_path / "r.words").read_text(encoding="utf-8") == "-ts\x002,3\0"
