"""Places of a run at which a machine can lose its power, and code that does something at one of them.

A place is passed again and again; `at` acts at its n-th pass. What a death there leaves on disk is part of its
definition: the harness checks that the death was there and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

import httpx

from tuner.engine.client import Client
from tuner.runs.trial_folder import TrialFolder
from tuner.study import StudyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Passed = Callable[[], None]
    Hook = Callable[[Passed], AbstractContextManager[object]]

BEST = "best.json"


class Leaves(StrEnum):
    """What a death leaves of the trial that was going on."""

    NOTHING = "no trial that runs"
    CUT = "a trial that runs, without a result"
    RESULT = "a trial that runs, with its result on disk"


@dataclass(frozen=True, slots=True)
class Boundary:
    """One place."""

    name: str
    leaves: frozenset[Leaves]
    """What a death there may leave."""
    hook: Hook
    """Makes a patch that calls something at every pass."""
    passes_a_trial: int = 1
    """How often a trial that ends well passes it."""


def at(boundary: Boundary, nth: int, act: Passed) -> AbstractContextManager[object]:
    """While it is entered, `act` is called at the n-th pass."""
    passes = 0

    def passed() -> None:
        nonlocal passes
        passes += 1
        if passes == nth:
            act()

    return boundary.hook(passed)


def _before(owner: type, name: str) -> Hook:
    return lambda passed: _around(owner, name, before=passed, after=_nothing)


def _after(owner: type, name: str) -> Hook:
    return lambda passed: _around(owner, name, before=_nothing, after=passed)


def _nothing() -> None:
    pass


def _around(owner: type, name: str, *, before: Passed, after: Passed) -> AbstractContextManager[object]:
    original = getattr(owner, name)

    def wrapped(*arguments: Any, **named: Any) -> object:  # noqa: ANN401 - whatever it takes
        before()
        result: object = original(*arguments, **named)
        after()
        return result

    return patch.object(owner, name, wrapped)


def _in_load(passed: Passed) -> AbstractContextManager[object]:
    """The first time that a server is asked whether it is ready, and is not."""
    original = Client.is_ready
    seen: set[Client] = set()

    def is_ready(client: Client) -> bool:
        ready = original(client)
        if not ready and client not in seen:
            seen.add(client)
            passed()
        return ready

    return patch.object(Client, "is_ready", is_ready)


def _in_request(passed: Passed) -> AbstractContextManager[object]:
    """After the first line of a streamed answer."""
    original = httpx.Response.iter_lines

    def iter_lines(response: httpx.Response) -> Iterator[str]:
        for index, line in enumerate(original(response)):
            if index == 0:
                passed()
            yield line

    return patch.object(httpx.Response, "iter_lines", iter_lines)


def _half_finished(passed: Passed) -> AbstractContextManager[object]:
    """When a trial's result is stored, and its end is not."""
    original = StudyStore.finish

    def finish(store: StudyStore, *arguments: Any) -> None:  # noqa: ANN401 - whatever it takes
        with _around(cast("type", store._study), "tell", before=passed, after=_nothing):
            original(store, *arguments)

    return patch.object(StudyStore, "finish", finish)


def _renaming(*, after: bool) -> Hook:
    """When the new best.json takes the place of the old one."""
    original = Path.replace

    def hook(passed: Passed) -> AbstractContextManager[object]:
        def replace(path: Path, target: Path) -> Path:
            if target.name != BEST:
                return original(path, target)
            if not after:
                passed()
            moved = original(path, target)
            if after:
                passed()
            return moved

        return patch.object(Path, "replace", replace)

    return hook


_NOTHING, _CUT, _RESULT = (frozenset({leaves}) for leaves in Leaves)

#: In the order of a trial. The last four are passed while a restart settles or publishes, too.
BOUNDARIES = (
    Boundary("before begin", _NOTHING, _before(StudyStore, "begin")),
    Boundary("before journal", _CUT, _before(TrialFolder, "journal")),
    Boundary("after journal", _CUT, _after(TrialFolder, "journal")),
    Boundary("spawned", _CUT, _before(TrialFolder, "record_process")),
    Boundary("process recorded", _CUT, _after(TrialFolder, "record_process")),
    Boundary("in load", _CUT, _in_load),
    Boundary("in request", _CUT, _in_request, passes_a_trial=2),  # the warm-up is one
    Boundary("before result", _CUT, _before(TrialFolder, "record_result")),
    Boundary("after result", _RESULT, _after(TrialFolder, "record_result")),
    Boundary("half finished", _RESULT | _CUT, _half_finished),
    Boundary("after finish", _NOTHING, _after(StudyStore, "finish")),
    Boundary("before rename", _NOTHING, _renaming(after=False)),
    Boundary("after rename", _NOTHING, _renaming(after=True)),
)
#: Passed where a winner is put to the test alone; a soak passes it so often, an endurance more often.
OF_TESTS = (Boundary("soak written", _CUT, _after(TrialFolder, "record_soaked"), passes_a_trial=4),)
EVERYWHERE = BOUNDARIES + OF_TESTS
BY_NAME = {boundary.name: boundary for boundary in EVERYWHERE}
