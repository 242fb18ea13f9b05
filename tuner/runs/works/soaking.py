"""What a winner has to survive: the longest prompt, a long answer, small requests after it, all slots at once."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import count
from math import sqrt
from typing import TYPE_CHECKING

from tuner.core.measurement import rates
from tuner.core.outcome import Kind, Outcome, Phase
from tuner.core.soak import HOST_GROWTH_MIB, Soaked, grown, slower
from tuner.core.workload import Prompt
from tuner.prompts.passages import filler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tuner.core.measurement import Sample
    from tuner.core.rig import Device
    from tuner.core.work import RunningServer
    from tuner.core.workload import Workload

#: Prompts of the workload that make up the small requests.
_SMALL = 3
#: Tokens of a long answer, if the context is large enough.
LONG_ANSWER_TOKENS = 512
#: Left free beside the longest prompt and its answer: the chat template, and a text's last word.
_SPARE_TOKENS = 96
_SAMPLE_CHARACTERS = 4000
#: Seconds that a winner is left alone, one after the other.
GAPS_S = (5.0, 60.0, 300.0)
_MEDIUM_PART = 0.25


@dataclass(frozen=True, slots=True)
class Rested:
    """How a server did before, for what it does now to be held against."""

    tok_s: Mapping[str, float]
    """Generated tokens a second of the workload's prompts, by their ids, as they were confirmed."""
    prompt_tok_s: float | None
    """How fast prompts were read."""
    spread: float = 0.0
    """Standard deviation of what its launches made, as a part; 0 where too few were made."""


class _Diary:
    """What one server goes through."""

    def __init__(
        self, server: RunningServer, workload: Workload, devices: Sequence[Device], now_s: Callable[[], float]
    ) -> None:
        self.server = server
        self.workload = workload
        self.small = workload.prompt_set.prompts[:_SMALL]
        self.now_s = now_s
        self.began_s = now_s()
        self.host_mib = server.host_mib()
        self.free_mib = dict(server.free_mib())
        self.total_mib = {device.name: device.total_mib for device in devices}
        self.requests = self.longest_prompt = self.longest_answer = 0
        self.at_once = 1
        self.longest_gap_s = 0.0
        self.before: float | None = None
        self.after: float | None = None

    def ask(self, prompt: Prompt, max_tokens: int) -> Sample:
        """One request."""
        sample = self.server.ask(prompt, max_tokens)
        self._note([sample])
        return sample

    def ask_all_slots(self) -> None:
        """As many small requests at the same time as it serves, each another one."""
        prompts = [_numbered(self.small[n % len(self.small)], n) for n in range(self.server.slots)]
        self._note(self.server.ask_together(prompts, self.workload.max_tokens))
        self.at_once = max(self.at_once, len(prompts))

    def ask_small(self) -> list[Sample]:
        """The small requests, one after the other."""
        return [self.ask(prompt, self.workload.max_tokens) for prompt in self.small]

    def idle(self, seconds: float) -> None:
        """Leave it alone."""
        self.server.idle(seconds)
        self.longest_gap_s = max(self.longest_gap_s, seconds)

    def growth(self, since_mib: Mapping[str, int]) -> Outcome | None:
        """Whether a device's free memory has shrunk since then."""
        found = grown(since_mib, self.server.free_mib(), self.total_mib)
        if found is None:
            return None
        device, lost = found
        return _degraded(
            f"{lost:,} MiB less are free on {device} than after its first requests: its memory grows"
        )

    def soaked(self) -> Soaked:
        """What there is to say of it."""
        host = self.server.host_mib()
        return Soaked(
            requests=self.requests,
            seconds=self.now_s() - self.began_s,
            longest_prompt_tokens=self.longest_prompt,
            slot_context=self.server.slot_context,
            longest_answer_tokens=self.longest_answer,
            at_once=self.at_once,
            small_before_tok_s=self.before,
            small_after_tok_s=self.after,
            longest_gap_s=self.longest_gap_s,
            host_growth_mib=None if host is None or self.host_mib is None else host - self.host_mib,
            free_mib=dict(self.free_mib),
        )

    def _note(self, samples: Sequence[Sample]) -> None:
        self.requests += len(samples)
        self.longest_prompt = max(self.longest_prompt, *(sample.prompt_n for sample in samples))
        self.longest_answer = max(self.longest_answer, *(sample.predicted_n for sample in samples))
        for device, free in self.server.free_mib().items():
            self.free_mib[device] = min(free, self.free_mib.get(device, free))


class Soak:
    """The hardest that a winner is for, once.

    Args:
        workload: Its prompts are the small requests.
        rested: How fast they were when it was confirmed.
        devices: The rig's.
        seconds: About how long the longest prompt may take; it is shorter where there is less time.
        on_soaked: Is told what it went through so far, again and again.
        now_s: A clock.

    Attributes:
        samples: None that count as measured.
        soaked: What it went through; None before the first request.
    """

    def __init__(
        self,
        workload: Workload,
        rested: Rested,
        devices: Sequence[Device],
        *,
        seconds: float | None = None,
        on_soaked: Callable[[Soaked], None] = lambda _: None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workload = workload
        self._rested = rested
        self._devices = devices
        self._seconds = seconds
        self._on_soaked = on_soaked
        self._now_s = now_s
        self.samples: list[Sample] = []
        self.soaked: Soaked | None = None

    def do(self, server: RunningServer) -> Outcome | None:
        """Small, longest, small again, several at once."""
        diary = _Diary(server, self._workload, self._devices, self._now_s)
        first = diary.ask_small()
        diary.before = _rate(first)
        self._keep(diary)
        self._ask_longest(diary)
        self._keep(diary)
        free_mib = dict(server.free_mib())  # pools have grown by now
        outcome = too_slow(diary, _expected(first, self._rested.tok_s), self._rested.spread)
        self._keep(diary)
        if outcome is not None:
            return outcome
        if server.slots > 1:
            diary.ask_all_slots()
            free_mib = dict(server.free_mib())  # and now for as many at once
            diary.ask_all_slots()
            diary.ask_small()
        self._keep(diary)
        return diary.growth(free_mib)

    def _keep(self, diary: _Diary) -> None:
        self.soaked = diary.soaked()
        self._on_soaked(self.soaked)

    def _ask_longest(self, diary: _Diary) -> None:
        """The longest prompt that context and time allow; none where the server does not say what it holds."""
        server = diary.server
        if server.slot_context is None:
            return
        answer = max(min(LONG_ANSWER_TOKENS, server.slot_context // 8), 2)
        room = server.slot_context - answer - _SPARE_TOKENS
        if self._seconds is not None:
            room = min(room, self._tokens_in_time(diary, self._seconds))
        if text := text_of(server, room):
            diary.ask(_long(text), answer)

    def _tokens_in_time(self, diary: _Diary, seconds: float) -> int:
        """How long a prompt may be; a shorter one shows how reading slows down with the length."""
        rate = self._rested.prompt_tok_s
        if rate is None:
            return 0
        trial = text_of(diary.server, int(min((diary.server.slot_context or 0) / 8, seconds * rate / 4)))
        if not trial:
            return 0
        began_s = diary.now_s()
        sample = diary.ask(_long(trial), 2)
        left_s = seconds - (diary.now_s() - began_s)
        # t = n / rate + b n², which a short prompt and this one settle
        slowing = max(sample.prompt_ms / 1000 / sample.prompt_n - 1 / rate, 0.0) / sample.prompt_n
        if slowing == 0:
            return max(int(left_s * rate), 0)
        return max(int((sqrt(1 / rate**2 + 4 * slowing * max(left_s, 0.0)) - 1 / rate) / (2 * slowing)), 0)


class Endurance:
    """Mixed requests for as long as there is time, with gaps in which it is left alone.

    Args:
        workload: Its prompts are the small requests.
        devices: The rig's.
        seconds: How long.
        spread: Standard deviation of what its launches made, as a part.
        gaps_s: How long it is left alone, one after the other.
        on_soaked: Is told at the start and after every turn, so that nothing is lost to a kill.
        now_s: A clock.

    Attributes:
        samples: None that count as measured.
        soaked: What it went through; None before the first request.
    """

    def __init__(
        self,
        workload: Workload,
        devices: Sequence[Device],
        *,
        seconds: float,
        spread: float = 0.0,
        gaps_s: Sequence[float] = GAPS_S,
        on_soaked: Callable[[Soaked], None] = lambda _: None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workload = workload
        self._devices = devices
        self._seconds = seconds
        self._spread = spread
        self._gaps_s = gaps_s
        self._on_soaked = on_soaked
        self._now_s = now_s
        self.samples: list[Sample] = []
        self.soaked: Soaked | None = None

    def do(self, server: RunningServer) -> Outcome | None:
        """Go on until the time is over, or it fails."""
        diary = _Diary(server, self._workload, self._devices, self._now_s)
        end_s = diary.began_s + self._seconds
        first = diary.ask_small()
        diary.before = _rate(first)
        self._keep(diary)
        expected = {one.prompt_id: rate for one in first if (rate := one.generation_tok_s) is not None}
        medium = self._medium(server)
        free_mib: Mapping[str, int] | None = None
        for turn in count():
            if diary.now_s() >= end_s:
                return None
            if medium is not None:
                diary.ask(_numbered(medium, turn), self._workload.max_tokens)
            if server.slots > 1:
                diary.ask_all_slots()
            gap_s = self._gaps_s[turn % len(self._gaps_s)] if self._gaps_s else 0.0
            if gap_s and diary.now_s() + gap_s < end_s:
                diary.idle(gap_s)
            outcome = too_slow(diary, expected, self._spread)
            soaked = self._keep(diary)
            outcome = outcome or (None if free_mib is None else diary.growth(free_mib)) or _leak(soaked)
            if outcome is not None:
                return outcome
            free_mib = free_mib or dict(server.free_mib())  # pools have grown by now
        return None

    def _keep(self, diary: _Diary) -> Soaked:
        self.soaked = diary.soaked()
        self._on_soaked(self.soaked)
        return self.soaked

    def _medium(self, server: RunningServer) -> Prompt | None:
        """A prompt of a part of the context; None where the server does not say what it holds."""
        context = server.slot_context or 0
        room = context - self._workload.max_tokens - _SPARE_TOKENS
        text = text_of(server, min(int(context * _MEDIUM_PART), room))
        return Prompt("medium", "soak", ({"role": "user", "content": text},)) if text else None


def too_slow(diary: _Diary, expected_tok_s: Mapping[str, float], spread: float = 0.0) -> Outcome | None:
    """Whether small requests have become slower; asked a second time before anything is held against it.

    Args:
        diary: Of the server.
        expected_tok_s: What each of them should make, by prompt.
        spread: Standard deviation of what launches of the same make, as a part.
    """
    lost = None
    for _ in range(2):
        samples = diary.ask_small()
        diary.after = _rate(samples)
        known = [one for one in samples if one.prompt_id in expected_tok_s]
        if not known:
            return None
        should_s = sum(max(one.predicted_n - 1, 0) / expected_tok_s[one.prompt_id] for one in known)
        took_s = sum(one.predicted_ms for one in known) / 1000
        lost = slower(1.0, should_s / took_s if took_s > 0 else None, spread)
        if lost is None:
            return None
    return _degraded(f"small requests are {lost:.0%} slower than they were, twice in a row")


def _long(text: str) -> Prompt:
    return Prompt("longest", "soak", ({"role": "user", "content": text},))


def _expected(first: Sequence[Sample], confirmed_tok_s: Mapping[str, float]) -> Mapping[str, float]:
    """What small requests should make: as confirmed, or less where this launch began slower.

    Launches differ; what counts is what happens within one. One that began faster than was confirmed is held to
    what was confirmed.
    """
    known = [one for one in first if one.prompt_id in confirmed_tok_s and one.predicted_ms > 0]
    should_s = sum(max(one.predicted_n - 1, 0) / confirmed_tok_s[one.prompt_id] for one in known)
    took_s = sum(one.predicted_ms for one in known) / 1000
    factor = min(should_s / took_s, 1.0) if took_s > 0 else 1.0
    return {name: rate * factor for name, rate in confirmed_tok_s.items()}


def text_of(server: RunningServer, tokens: int) -> str:
    """A text of about so many tokens and never more, as its server counts them; empty where it does not count."""
    sample = filler(_SAMPLE_CHARACTERS)
    counted = server.count_tokens(sample)
    if not counted or tokens <= 0:
        return ""
    text = filler(int(tokens * len(sample) / counted))
    counted = server.count_tokens(text) or 0
    while text and counted > tokens:
        text = text[: int(len(text) * min(tokens / counted, 0.999))]
        counted = server.count_tokens(text) or 0
    return text


def _leak(soaked: Soaked) -> Outcome | None:
    growth = soaked.host_growth_mib
    if growth is None or growth <= HOST_GROWTH_MIB:
        return None
    return _degraded(f"its host memory has grown by {growth:,.0f} MiB")


def _rate(samples: Sequence[Sample]) -> float | None:
    return rates(samples).generation_tok_s


def _degraded(evidence: str) -> Outcome:
    return Outcome(Kind.DEGRADED, phase=Phase.BENCHMARK, evidence=evidence)


def _numbered(prompt: Prompt, n: int) -> Prompt:
    """The same prompt with a number in it, so that nothing is known of it yet."""
    first = prompt.messages[0]
    messages = ({**first, "content": f"({n + 1}) {first.get('content', '')}"}, *prompt.messages[1:])
    return Prompt(f"{prompt.id} ({n + 1})", prompt.prompt_class, messages)
