"""What is asked of a server: prompts, their classes, lengths and samplers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tuner.core.objective import GENERATION, Goal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.core.session import Script


class Thinking(StrEnum):
    """Whether a reasoning model is told to think."""

    AUTO = "auto"
    """Say nothing: the chat template decides."""
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One conversation that ends with a user's turn."""

    id: str
    prompt_class: str
    """`code`, `prose`, `chat`, `extraction`, `json`, or the user's own word."""
    messages: tuple[Mapping[str, Any], ...]
    """OpenAI chat messages."""
    depth_tokens: int = 0
    """How much of a text of no interest was put before it, about."""
    reuses: bool = False
    """Whether what the server has read before of the same beginning is not read again."""


class PromptForm(StrEnum):
    """What a prompt set was read from."""

    BUILTIN = "builtin"
    """One that comes with the package."""
    JSONL = "jsonl"
    """A file of messages, a conversation a line."""
    FOLDER = "folder"
    """A folder of text files."""
    SHAREGPT = "sharegpt"
    """An export of chats."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a set's prompts come from and how many are left of them: what may be told of a user's own."""

    form: PromptForm = PromptForm.BUILTIN
    found: int = 0
    """How many there were."""
    without_user: int = 0
    """Of them, those in which no user says anything."""
    repeated: int = 0
    """Those that had been there before."""
    too_long: int = 0
    """Those that do not fit into the context."""
    sampled: int | None = None
    """How many were drawn from what was left; None where none were drawn."""

    @property
    def is_own(self) -> bool:
        """Whether they are the user's: neither they nor their answers are written down unasked."""
        return self.form is not PromptForm.BUILTIN


@dataclass(frozen=True, slots=True)
class PromptSet:
    """Prompts that every candidate gets, in this order, and one that warms a server up."""

    name: str
    warmup: Prompt
    prompts: tuple[Prompt, ...]
    digest: str
    """Hash of the content: two studies with the same digest asked the same."""
    origin: Origin = field(default_factory=Origin)


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampler settings sent with each request, by their names in the request body."""

    values: Mapping[str, float | int | str] = field(default_factory=lambda: MappingProxyType({}))
    source: str = "default"
    """Where they come from: `current`, `option`, `model` or `default`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Everything that has to be equal for two rates to be comparable."""

    prompt_set: PromptSet
    max_tokens: int
    """Tokens generated a request; the end of text is ignored, so that all candidates do the same work."""
    sampling: Sampling
    thinking: Thinking
    seed: int
    goal: Goal = GENERATION
    """What is made the most of."""
    streams: int = 1
    """Requests at the same time."""
    session: Script | None = None
    """Conversations that go on from a server's own answers, instead of the prompts; None for the prompts."""

    @property
    def n_requests(self) -> int:
        """Requests of a launch that are measured."""
        return len(self.prompt_set.prompts) if self.session is None else self.session.n_requests
