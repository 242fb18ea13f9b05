"""What a launch is measured with: the workload's prompts, or its session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.runs.works.benchmark import Benchmark
from tuner.runs.works.session import SessionWork

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.core.asked import Asked
    from tuner.core.measurement import Sample
    from tuner.core.work import RunningServer, Work
    from tuner.core.workload import Workload


def measuring(
    workload: Workload,
    asked: Asked,
    on_sample: Callable[[Sample], str | None],
    look: Callable[[RunningServer, float | None], None] | None,
) -> Work:
    """The work that measures a launch.

    Args:
        workload: What to ask.
        asked: What the launch was asked for.
        on_sample: Is told each answer; a sentence on why the rest is no use ends the launch as pruned.
        look: Looks at what the server would say next; None not to look.
    """
    if workload.session is not None:
        return SessionWork(workload.session, workload.max_tokens, asked, on_sample, look)
    return Benchmark(workload, asked, on_sample, look)
