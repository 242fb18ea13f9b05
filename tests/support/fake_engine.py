"""Starts the fake llama-server from tests: rules, environment, events, and a server that is up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

DEADLINE_S = 10.0
_POLL_S = 0.005
_LISTENING = re.compile(r"listening on (http://\S+)")

#: name, description, total MiB, free MiB
DeviceRow = tuple[str, str, int, int]


def fake_server_path() -> Path:
    return Path(__file__).with_name("fake_llama_server.py")


class FakeEngine:
    """Collects rules in a test's folder and hands out what a launch of the fake needs.

    Args:
        folder: The test's own; rules, events, logs and a stub of a model file lie there.
        build: Whose help text it shows: 11434, 10435 or 9246.
        time_scale: Real seconds for each modelled one; at 0 everything is instant.
        devices: The GPUs of the machine; a 5080 and a 3090 if not given.
        reasons: Whether answers begin with `reasoning_content`.
    """

    path = fake_server_path()

    def __init__(
        self,
        folder: Path,
        *,
        build: str = "11434",
        time_scale: float = 0.0,
        devices: Sequence[DeviceRow] | None = None,
        reasons: bool = False,
    ) -> None:
        self.model = folder / "model.gguf"
        self.model.write_bytes(b"GGUF" + bytes(1024 * 1024))
        self._folder = folder
        self._rules: list[dict[str, Any]] = []
        self._defaults: dict[str, Any] = {}
        self._rules_path = folder / "fake-rules.json"
        self._events_path = folder / "fake-events.jsonl"
        self._variables = {
            "FAKE_RULES": str(self._rules_path),
            "FAKE_EVENTS": str(self._events_path),
            "FAKE_HELP": build,
            "FAKE_TIME_SCALE": str(time_scale),
            "FAKE_REASONING": str(int(reasons)),
        }
        if devices is not None:
            self._variables["FAKE_DEVICES"] = json.dumps(devices)
        self._launches = 0
        self._write()

    def always(self, **do: object) -> Self:
        """What every launch does, as far as no rule says otherwise."""
        self._defaults |= do
        return self._write()

    def when(self, conditions: Mapping[str, object], /, *, times: int | None = None, **do: object) -> Self:
        """Adds a rule behind those that are there: `when({"split-mode": "tensor"}, hang="load")`.

        With `times` it holds for so many launches only.
        """
        self._rules.append({"when": dict(conditions), "times": times, "do": do})
        return self._write()

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of a launch: `base`, or this process's own without the engine's variables."""
        if base is None:
            base = {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_")}
        # The fake's first line looks for python3: the one that runs this test starts fast.
        search = f"{Path(sys.executable).parent}{os.pathsep}{base.get('PATH', os.defpath)}"
        return {**base, **self._variables, "PATH": search}

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """What has happened so far, in order: `start`, `request` and `stop`."""
        if not self._events_path.exists():
            return []
        found = [json.loads(line) for line in self._events_path.read_text().splitlines()]
        return [event for event in found if kind in (None, event["event"])]

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs it with just these arguments to its end: `--help`, and what is refused."""
        return subprocess.run(
            [self.path, *arguments],
            env=self.environment() | variables,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def fail(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A launch with the stub model and a free port that is to end by itself."""
        return self.run("-m", str(self.model), "--port", "0", *arguments, **variables)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[FakeProcess]:
        """A launch with the stub model and a free port, killed at the end if it still runs."""
        self._launches += 1
        log_path = self._folder / f"fake-{self._launches}.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [self.path, "-m", self.model, "--port", "0", *arguments],
                env=self.environment(),
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield FakeProcess(process, log_path)
        finally:
            process.kill()
            process.wait(DEADLINE_S)

    @contextmanager
    def serving(self, *arguments: str) -> Iterator[FakeProcess]:
        """As `started`, and ready to answer."""
        with self.started(*arguments) as process:
            process.wait_for_log(_LISTENING.pattern)
            yield process

    def _write(self) -> Self:
        self._rules_path.write_text(json.dumps({"rules": self._rules, "defaults": self._defaults}))
        return self


class FakeProcess:
    """A running fake."""

    def __init__(self, process: subprocess.Popen[bytes], log_path: Path) -> None:
        self.process = process
        self._log_path = log_path

    @property
    def log(self) -> str:
        return self._log_path.read_text()

    @property
    def url(self) -> str:
        found = _LISTENING.search(self.log)
        assert found is not None, self.log
        return found[1]

    def wait_for_log(self, pattern: str, deadline_s: float = DEADLINE_S) -> None:
        """Waits for a line; a test fails if the process ends or the deadline passes before."""
        end_s = time.monotonic() + deadline_s
        while re.search(pattern, self.log) is None:
            assert self.process.poll() is None, self.log
            assert time.monotonic() < end_s, self.log
            time.sleep(_POLL_S)

    def wait(self) -> int:
        return self.process.wait(DEADLINE_S)

    def client(self, key: str | None = None) -> httpx.Client:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=DEADLINE_S,
            # As the tuner's own client: the engine closes connections that it advertised as alive.
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    def get(self, path: str) -> httpx.Response:
        with self.client() as client:
            return client.get(path)

    def post(self, path: str, body: object) -> httpx.Response:
        with self.client() as client:
            return client.post(path, json=body)

    def chat(self, prompt: str = "Count to ten.", /, **fields: object) -> httpx.Response:
        return self.post("/v1/chat/completions", chat_body(prompt, **fields))

    def complete(self, prompt: str, /, **fields: object) -> httpx.Response:
        """What would come next after a text, over the likeliest tokens."""
        probe = {"n_predict": 1, "n_probs": 200, "temperature": 0, "cache_prompt": True, "id_slot": 0}
        return self.post("/completion", {"prompt": prompt, **probe, **fields})


def chat_body(prompt: str, /, **fields: object) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": prompt}], "cache_prompt": False, **fields}


def sse_data(text: str) -> list[str]:
    """The data of a stream's events."""
    return [event.removeprefix("data: ") for event in text.split("\n\n") if event]
