"""What the user asked for, as typed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.options import KV_BITS
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.core.objective import Objective
    from tuner.core.workload import Thinking

_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*")


@dataclass(frozen=True, slots=True)
class TuneOptions:
    """The options of `tuner tune`."""

    model: Path
    server: Path | None
    space: str
    study: str | None
    results: Path
    budget_s: float | None
    launches: int | None
    context: int | None
    devices: str | None
    device_memory: str | None
    reserve: str | None
    current: str | None
    sampling: str | None
    thinking: Thinking
    prompts: str
    sample: int | None
    """So many prompts are drawn, short and long; None to take them as they come."""
    requests: int | None
    """Requests a launch; None for all of a sample, or a few of the first."""
    offload: bool
    """Whether what lies in host memory is searched, whether the model fits or not."""
    keep_text: bool
    """Whether answers to the user's own prompts are kept."""
    max_tokens: int
    draft_model: Path | None
    seed: int
    allow_p2p: bool
    cool_to_c: int | None
    worthwhile: float
    """Improvement that is worth going on for, as a part of the best."""
    quality_s: float | None
    """How long the answers of a launch are looked at; None not to look."""
    min_kv: str
    """The smallest KV type that is searched."""
    confirm_blocks: int
    """Launches a side that confirm the winner; 0 for none."""
    soak: bool
    objective: Objective | None
    """What is made the most of; None for what goes with the workload."""
    weights: str | None
    max_ttft: str | None
    depth: str
    session: bool
    """Whether conversations that go on are asked, instead of single prompts."""
    agents: int
    parallel: int | None
    """Slots; None for what the space or the flags say."""
    endure_s: float | None
    """For how long the winner is put to the test; None for what is left of the budget."""
    facts: Path | None
    flags: tuple[str, ...]

    @property
    def study_folder(self) -> Path:
        """Where the study is, or will be.

        Raises:
            UsageError: Its name cannot be one of a folder.
        """
        if self.study is None:
            stem = re.sub(r"[^\w.+-]+", "-", self.model.stem).strip("-.") or "model"
            return self.results / f"{stem}-{Path(self.space).stem}"
        if _NAME.fullmatch(self.study) is None:
            raise UsageError(f"--study {self.study!r}: letters, digits and . _ + - only; it names a folder")
        return self.results / self.study

    def check(self) -> None:
        """Refuse numbers that make no sense.

        Raises:
            UsageError: The first that makes none.
        """
        for name, value, least in (
            ("--launches", self.launches, 1),
            ("--sample", self.sample, 1),
            ("--requests", self.requests, 1),
            ("--parallel", self.parallel, 1),
            ("--agents", self.agents, 1),
            ("--tokens", self.max_tokens, 2),  # the first token comes out of the prompt pass
        ):
            if value is not None and value < least:
                raise UsageError(f"{name}: must be at least {least}, got {value}")
        if self.confirm_blocks < 0 or self.confirm_blocks == 1:
            raise UsageError(
                f"--confirm: must be 0 or at least 2, got {self.confirm_blocks}: one launch shows no spread"
            )
        if self.min_kv not in KV_BITS:
            raise UsageError(f"--min-kv: must be one of {', '.join(KV_BITS)}, got {self.min_kv!r}")
