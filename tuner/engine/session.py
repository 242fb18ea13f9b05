"""One running server from its start on: wait until it is ready, compare, warm up, let work be done, judge."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.asked import (
    Asked,
    alias_difference,
    server_difference,
)
from tuner.core.diagnosis import Death, diagnose
from tuner.core.outcome import Kind, Outcome, Phase
from tuner.engine.client import RequestFailed, slot_context_of, slots_of
from tuner.engine.patience import Patience, Patiences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.interrupt import Interrupts
    from tuner.core.measurement import Sample
    from tuner.core.quality import NextToken
    from tuner.core.work import Work
    from tuner.core.workload import Prompt, Workload
    from tuner.engine.client import Client, Deadlines
    from tuner.engine.device_watch import DeviceWatch
    from tuner.engine.process import ServerProcess

POLL_S = 0.02
#: A server whose connection broke is dying: so long is waited for its exit code.
LAST_WORDS_S = 5.0
WARMUP_TOKENS = 16


class Session:
    """What happens while one server runs; ends with an outcome, or with None where all went as asked.

    To the work it is the running server (`tuner.core.work.RunningServer`).
    """

    def __init__(
        self,
        asked: Asked,
        workload: Workload,
        *,
        alias: str | None,
        server: ServerProcess,
        client: Client,
        watch: DeviceWatch,
        patiences: Patiences,
        limit: Patience,
        interrupts: Interrupts,
    ) -> None:
        self._asked = asked
        self._alias = alias
        self._workload = workload
        self._server = server
        self._client = client
        self._watch = watch
        self._patiences = patiences
        self._limit = limit
        self._interrupts = interrupts
        self._slowest_prompt_tok_s: float | None = None
        self.phase = Phase.LOAD
        self.ready_at: float | None = None
        self.warm_at: float | None = None
        self.outcome: Outcome | None = None
        self.last_answer_at: float | None = None
        self.slots = 1
        self.slot_context: int | None = None
        self._free_mib: Mapping[str, int] = MappingProxyType({})
        self._free_fraction: Mapping[str, float] = MappingProxyType({})
        self._killed_by_kernel = watch.kernel_watch()

    def end(self, outcome: Outcome) -> None:
        """Let it end otherwise than by itself."""
        self.outcome = outcome

    def go(self, work: Work) -> None:
        """Load, compare with what was asked, warm up, and let the work be done.

        Raises:
            Interrupted: Somebody asked to stop.
        """
        self.outcome = self._wait_until_ready()
        if self.outcome is not None:
            return
        self.ready_at = time.monotonic()
        workload = self._workload
        try:
            asked, props = self._asked, self._client.props()
            self.outcome = alias_difference(self._alias, props)
            # a router has no slots to ask for
            self.outcome = self.outcome or server_difference(asked, props, ())
            self.outcome = self.outcome or server_difference(asked, props, self._client.slots())
            if self.outcome is not None:
                return
            self.slots, self.slot_context = slots_of(props), slot_context_of(props)
            self.phase = Phase.WARMUP
            self.ask(workload.prompt_set.warmup, min(WARMUP_TOKENS, workload.max_tokens))
            self.phase = Phase.BENCHMARK
            self.warm_at = time.monotonic()
            self.outcome = work.do(self)
        except RequestFailed as failure:
            self.outcome = self._after(failure)

    def ask(self, prompt: Prompt, max_tokens: int) -> Sample:
        """One request.

        Raises:
            RequestFailed: It did not come to its end.
            Interrupted: Somebody asked to stop.
        """
        self._interrupts.check()
        self._look_at_memory()
        began = time.monotonic()
        sample = self._client.chat(
            prompt, self._workload, max_tokens=max_tokens, deadlines=self._deadlines(prompt, max_tokens)
        )
        sample = replace(sample, began_s=0.0 if self.warm_at is None else began - self.warm_at)
        self.last_answer_at = time.monotonic()
        if sample.prompt_ms > 0 and sample.prompt_n > 0:
            rate = sample.prompt_n / sample.prompt_ms * 1000
            self._slowest_prompt_tok_s = min(rate, self._slowest_prompt_tok_s or rate)
        return sample

    def ask_together(
        self, prompts: Sequence[Prompt], max_tokens: int, *, at_once: int | None = None
    ) -> list[Sample]:
        """Several requests, so many of them at the same time, or all.

        Raises:
            RequestFailed: One of them did not come to its end.
        """
        pool = ThreadPoolExecutor(max_workers=max(at_once or len(prompts), 1))
        try:
            return list(pool.map(lambda prompt: self.ask(prompt, max_tokens), prompts))
        finally:  # where one failed, or somebody asked to stop, the others end with the server
            pool.shutdown(wait=False, cancel_futures=True)

    def next_token(self, text: str) -> NextToken | None:
        """What would come next after a raw text; None where the server does not tell.

        Raises:
            RequestFailed: It did not come to its end.
            Interrupted: Somebody asked to stop.
        """
        self._interrupts.check()
        self._look_at_memory()
        return self._client.next_token(text, deadline_s=min(60 + len(text) / 30, self._limit.left_s))

    def count_tokens(self, text: str) -> int | None:
        """Tokens that a raw text is; None where the server does not tell.

        Raises:
            RequestFailed: It did not come to its end.
        """
        return self._client.count_tokens(text)

    def idle(self, seconds: float) -> None:
        """Leave it alone for so long.

        Raises:
            RequestFailed: It died meanwhile, or the run's time was over.
            Interrupted: Somebody asked to stop.
        """
        patience = Patience(seconds)
        while not patience.over:
            if self._server.exit_code() is not None:
                raise RequestFailed("the server ended while nobody asked it anything")
            if self._limit.over:
                raise RequestFailed("the run's time was over")
            self._interrupts.sleep(min(POLL_S, patience.left_s))

    def free_mib(self) -> Mapping[str, int]:
        """What is free on each device, where the driver says."""
        return self._watch.free_mib()

    def host_mib(self) -> float | None:
        """Host memory that the server holds for itself."""
        return self._server.host_mib()

    def disk_read_mib(self) -> float | None:
        """What the server has read from disks so far."""
        return self._server.disk_read_mib()

    def _deadlines(self, prompt: Prompt, max_tokens: int) -> Deadlines:
        """By what a slow machine needs; a server that has shown its prompt rate is not waited for much longer."""
        return Patiences.request(prompt, max_tokens, self._slowest_prompt_tok_s, streams=self.slots).within(
            self._limit.left_s
        )

    def _wait_until_ready(self) -> Outcome | None:
        deadline = Patience(self._patiences.load_s)
        stall = Patience(self._patiences.stall_s)
        size = self._server.log_size()
        while True:
            if self._server.exit_code() is not None:
                return self._death()
            if self._client.is_ready():
                return None
            self._look_at_memory()
            if (now := self._server.log_size()) != size:
                size, stall = now, Patience(self._patiences.stall_s)
            if self._limit.over:
                return self._time_is_over()
            if stall.over:
                return self._waited(Kind.HUNG, f"no line of log for {stall.seconds:.0f} s while loading")
            if deadline.over:
                return self._waited(Kind.TIMED_OUT, f"not ready after {deadline.seconds:.0f} s")
            self._interrupts.sleep(POLL_S)

    def _after(self, failure: RequestFailed) -> Outcome:
        """What a failed request means: a death, a hang, or a refusal of a server that lives on."""
        self._interrupts.check()  # the server is ended when somebody asks to stop: no failure of its own
        if self._limit.over:
            return self._time_is_over()
        if failure.silent:
            return self._waited(Kind.HUNG, str(failure))
        if failure.refused and self.phase is not Phase.LOAD:
            return self._waited(Kind.NOT_AS_ASKED, str(failure))
        patience = Patience(LAST_WORDS_S)
        while self._server.exit_code() is None and not patience.over:
            time.sleep(POLL_S)
        if self._server.exit_code() is not None:
            return self._death()
        if failure.refused:  # our own key, and yet refused
            return self._waited(Kind.PORT_IN_USE, f"another server answers on our port: {failure}")
        return self._waited(Kind.NOT_AS_ASKED, str(failure))

    def _death(self) -> Outcome:
        self._interrupts.check()
        return diagnose(
            Death(
                log=self._server.log(),
                exit_code=self._server.exit_code(),
                phase=self.phase,
                endpoints=self._watch.endpoints,
                free_fraction=self._free_fraction,
                free_mib=self._free_mib,
                killed_by_kernel=self._killed_by_kernel(),
            )
        )

    def _look_at_memory(self) -> None:
        """Keep how full the devices are while the server lives: it gives all back when it dies."""
        free_mib = self._watch.free_mib()
        if self._server.exit_code() is None:
            self._free_mib = MappingProxyType(dict(free_mib))
            self._free_fraction = MappingProxyType(self._watch.fraction(free_mib))

    def _time_is_over(self) -> Outcome:
        return Outcome(Kind.STOPPED, phase=self.phase, evidence="the run's time was over")

    def _waited(self, kind: Kind, evidence: str) -> Outcome:
        return Outcome(kind, phase=self.phase, evidence=evidence)
