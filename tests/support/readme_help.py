"""The help texts in README.md: `python -m tests.support.readme_help` writes them, a test keeps them equal."""

import re
from pathlib import Path

from typer.testing import CliRunner

from tuner.cli.app import app

README = Path(__file__).parents[2] / "README.md"
_BLOCK = re.compile(r"(<!-- help: (?P<command>tuner[a-z ]*) -->\n```\n)(?P<text>.*?)(```\n)", re.DOTALL)


def commands() -> list[str]:
    """`tuner`, and each of its commands."""
    return ["tuner", *(f"tuner {command.name}" for command in app.registered_commands)]


def help_text(command: str) -> str:
    """What a command prints for `--help` on a terminal of 80 columns."""
    words = [*command.split()[1:], "--help"]
    result = CliRunner().invoke(app, words, prog_name="tuner", env={"COLUMNS": "80", "TERM": "dumb"})
    lines = (line.rstrip() for line in result.output.strip().splitlines())
    return "\n".join(lines) + "\n"


def blocks(readme: str) -> dict[str, str]:
    """The help texts that stand in a README, by command."""
    return {match["command"]: match["text"] for match in _BLOCK.finditer(readme)}


def refreshed(readme: str) -> str:
    """A README with the help texts as they are now."""
    return _BLOCK.sub(lambda match: f"{match[1]}{help_text(match['command'])}{match[4]}", readme)


def main() -> None:
    """Write the help texts into the README."""
    README.write_text(refreshed(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
