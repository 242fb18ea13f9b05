"""Which prompts of a set are asked: of classes that count, if they fit, at each depth, as often as needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner.cli.build.prompts import left_out
from tuner.errors import UsageError
from tuner.prompts.deep import deepened
from tuner.prompts.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tuner.core.objective import Goal
    from tuner.core.workload import Prompt, PromptSet

#: About so many characters are a token; few on purpose, since a prompt that is too long is refused.
CHARACTERS_A_TOKEN = 3
#: Requests of each stream: the first ones begin all together, and the last ones end one by one.
_ROUNDS = 3
DEFAULT_REQUESTS = 5


@dataclass(frozen=True, slots=True)
class Asking:
    """What of a prompt set is asked for."""

    goal: Goal
    requests: int | None
    """Prompts of a launch, at each depth; None for all of a sample, or a few of the first."""
    sample: int | None
    """How many are drawn, short and long in the whole's mix; None for the first ones."""
    seed: int
    """Of the drawing."""
    max_tokens: int
    depths_tokens: tuple[int, ...]
    """How deep in the context each is asked; 0 for at its beginning."""
    streams: int
    """Requests at the same time."""
    n_ctx_slot: int
    """Tokens that a slot holds."""

    def chosen(self, prompt_set: PromptSet, note: Callable[[str], None]) -> PromptSet:
        """The set with the prompts of a launch, in order.

        Args:
            prompt_set: What there is.
            note: Is told what is left out.

        Raises:
            UsageError: No prompt fits, or a class that counts has none.
        """
        for line in left_out(prompt_set):
            note(line)
        wanted = self._of_classes(prompt_set)
        deepest = max(self.depths_tokens)
        fitting = [one for one in wanted if _tokens(one) + deepest + self.max_tokens <= self.n_ctx_slot]
        if not fitting:
            behind = f", behind {deepest:,} tokens of another text," if deepest else ""
            raise UsageError(
                f"no prompt of {prompt_set.name} with {self.max_tokens} tokens of answer{behind} fits into "
                f"{self.n_ctx_slot:,} tokens of context; raise --context, lower --tokens or --depth, or use "
                "--prompts short"
            )
        if len(fitting) < len(wanted):
            note(
                f"{len(wanted) - len(fitting)} prompts of {prompt_set.name} do not fit into "
                f"{self.n_ctx_slot:,} tokens and are left out"
            )
        origin = replace(prompt_set.origin, too_long=len(wanted) - len(fitting))
        requests = self.requests or DEFAULT_REQUESTS
        if self.sample is not None:
            if len(fitting) < self.sample:
                note(
                    f"--sample {self.sample:,}: {prompt_set.name} has {len(fitting):,} prompts that fit, and all "
                    "are taken"
                )
            fitting = list(sampled(fitting, self.sample, seed=self.seed, length=_tokens))
            origin = replace(origin, sampled=len(fitting))
            requests = self.requests or len(fitting)
        elif self.requests is None and origin.is_own and len(fitting) > requests:
            note(
                f"the first {requests} of {len(fitting):,} prompts of {prompt_set.name} are asked; "
                "--sample N draws N of them, short and long"
            )
        own = self._first_of(fitting, requests, prompt_set.name)
        if self.streams > 1:
            own = _repeated(own, _ROUNDS * self.streams)
        return replace(prompt_set, prompts=deepened(own, self.depths_tokens), origin=origin)

    def _of_classes(self, prompt_set: PromptSet) -> list[Prompt]:
        weights = self.goal.weights
        classes = dict.fromkeys(prompt.prompt_class for prompt in prompt_set.prompts)
        for name in weights:
            if name not in classes:
                raise UsageError(
                    f"--weights: {prompt_set.name} has no prompt of the class {name!r}; it has {', '.join(classes)}"
                )
        return [one for one in prompt_set.prompts if not weights or weights.get(one.prompt_class, 0.0) > 0]

    def _first_of(self, prompts: Sequence[Prompt], requests: int, name: str) -> list[Prompt]:
        """The first ones; where classes are weighed, in turns of each, so that none is missing."""
        if not self.goal.weights:
            return list(prompts[:requests])
        by_class: dict[str, list[Prompt]] = {}
        for prompt in prompts:
            by_class.setdefault(prompt.prompt_class, []).append(prompt)
        missing = [one for one, weight in self.goal.weights.items() if weight > 0 and one not in by_class]
        if missing:
            raise UsageError(
                f"--weights: no prompt of the class {missing[0]!r} in {name} fits into {self.n_ctx_slot:,} tokens"
            )
        rounds = range(max(map(len, by_class.values())))
        turns = [rows[place] for place in rounds for rows in by_class.values() if place < len(rows)]
        return turns[: max(requests, len(by_class))]


def _repeated(prompts: Sequence[Prompt], n: int) -> list[Prompt]:
    """The prompts over and over until there are so many; nothing is reused of the one before."""
    times = [divmod(place, len(prompts)) for place in range(max(n, len(prompts)))]
    return [
        prompts[which] if not again else replace(prompts[which], id=f"{prompts[which].id}#{again + 1}")
        for again, which in times
    ]


def _tokens(prompt: Prompt) -> int:
    characters = sum(len(str(message.get("content", ""))) for message in prompt.messages)
    return characters // CHARACTERS_A_TOKEN + 16 * len(prompt.messages)
