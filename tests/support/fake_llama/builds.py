"""The builds that the fake can pass for: what each lists, and how each spells what it says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.support.fake_llama.fork import as_a_fork

_HELP = Path(__file__).resolve().parents[3] / "tuner" / "engine" / "help"


@dataclass(frozen=True, slots=True)
class Build:
    """One llama-server as far as a client can tell it from another."""

    name: str
    version_text: str
    info: str
    """`build_info` of /props and the fingerprint of every answer."""
    listening: str
    first_token_counts: bool
    """Up to build 10001 the speed is tokens over seconds, later the first token is left out."""
    draft_model_speculates: bool
    """Whether `-md` alone turns on draft-simple."""

    fork_of: str = ""
    """The build that a fork has left; empty for a build of llama.cpp itself."""

    def help_text(self) -> str:
        text = (_HELP / f"{self.fork_of or self.name}.txt").read_text()
        return as_a_fork(text) if self.fork_of else text


_COMPILER = "built with GNU 12.2.0 for Linux x86_64\n"

BUILDS = {
    build.name: build
    for build in (
        Build(
            name="11434",
            # What a build from the PyPI sources says: its number is lost there.
            version_text=f"version: 0.6.0-dev (build 0, commit unknown)\n{_COMPILER}",
            info="b0-unknown",
            listening="listening on",
            first_token_counts=False,
            draft_model_speculates=False,
        ),
        Build(
            name="10435",
            version_text=f"version: 0.1.0-dev (build 0, commit unknown)\n{_COMPILER}",
            info="b0-unknown",
            listening="listening on",
            first_token_counts=False,
            draft_model_speculates=False,
        ),
        Build(
            name="9246",
            version_text=f"version: 9246 (a1b2c3d4)\n{_COMPILER}",
            info="b9246-a1b2c3d4",
            listening="server is listening on",
            first_token_counts=True,
            draft_model_speculates=True,
        ),
        Build(
            name="fork",
            version_text=f"version: 4242 (f0f0f0f0)\n{_COMPILER}",
            info="b4242-f0f0f0f0",
            listening="HTTP server listening on",
            first_token_counts=True,
            draft_model_speculates=True,
            fork_of="11434",
        ),
    )
}
