"""What is done with a server once it runs, and what it can be asked: two Protocols between runs and an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.measurement import Sample
    from tuner.core.outcome import Outcome
    from tuner.core.quality import NextToken
    from tuner.core.workload import Prompt


class Reader(Protocol):
    """What reads a text and says what would come next."""

    @property
    def slot_context(self) -> int | None:
        """Tokens that a slot holds, prompt and answer; None where it does not say."""

    def next_token(self, text: str) -> NextToken | None:
        """What would come next after a raw text, without drafts; None where it does not tell."""

    def count_tokens(self, text: str) -> int | None:
        """Tokens that a raw text is; None where it does not tell."""


class RunningServer(Reader, Protocol):
    """A server that is loaded, is what was asked for, and has answered its warm-up.

    Whatever goes wrong with it (it dies, hangs, refuses, its time is over) leaves the work by an exception of
    the engine's own, and becomes the launch's outcome.
    """

    @property
    def slots(self) -> int:
        """Requests that it serves at once."""

    def ask(self, prompt: Prompt, max_tokens: int) -> Sample:
        """One request, to its last token."""

    def ask_together(
        self, prompts: Sequence[Prompt], max_tokens: int, *, at_once: int | None = None
    ) -> list[Sample]:
        """Several requests, so many of them at the same time, or all; their samples in the order of the prompts."""

    def idle(self, seconds: float) -> None:
        """Leave it alone for so long."""

    def free_mib(self) -> Mapping[str, int]:
        """What is free on each device, where a driver says."""

    def host_mib(self) -> float | None:
        """Host memory that it holds for itself; None where nobody says."""

    def disk_read_mib(self) -> float | None:
        """What it has read from disks so far, the page cache's part left out; None where nobody says."""


class Work(Protocol):
    """What is done with one running server."""

    @property
    def samples(self) -> Sequence[Sample]:
        """The answers that count as measured, also where it was cut off."""

    def do(self, server: RunningServer) -> Outcome | None:
        """Do it; how the launch ended, None where all went as it should."""
