"""What every part of a run works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tuner.core.interrupt import Interrupts
    from tuner.core.trial import TrialRecord
    from tuner.runs.examining import Examining
    from tuner.runs.launching import Launching, LaunchRules
    from tuner.runs.protocols import Progress
    from tuner.study import TrialStore


@dataclass(frozen=True, slots=True)
class Desk:
    """The same for search, confirmation and soak."""

    rules: LaunchRules
    """What holds for every launch."""
    launching: Launching
    """Makes trials."""
    store: TrialStore
    """Where trials and the confirmation are recorded."""
    examining: Examining
    """Looks at the answers."""
    progress: Progress
    """Is told what happens."""
    interrupts: Interrupts
    """Requests to stop."""
    recorded: Callable[[TrialRecord], None]
    """Is told each trial that was recorded."""
    changed: Callable[[], None]
    """Is told whenever what the study says may have changed without a trial."""
