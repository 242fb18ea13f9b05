"""Keeps what the user's own prompts say, and what is answered to them, off the disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.core.withheld import spoken, withheld, without_quotes
from tuner.runs.trial_folder import write_text

if TYPE_CHECKING:
    from tuner.core.launch import LaunchResult
    from tuner.core.workload import Workload
    from tuner.runs.trial_folder import TrialFolder


class Discretion:
    """What of a launch may be written down.

    Of the prompts that come with the package everything may; of the user's own neither text nor answers,
    unless they ask for it. Of what goes to disk the tuner itself writes answers into `result.json` alone;
    where a request fails, the engine may quote it, or the answer, in its message and in its log.

    Args:
        workload: What is asked.
        keep_text: Whether the user wants to have it all.
    """

    def __init__(self, workload: Workload, *, keep_text: bool) -> None:
        prompts = workload.prompt_set
        self._silent = prompts.origin.is_own and not keep_text
        self._spoken = spoken([prompts.warmup, *prompts.prompts]) if self._silent else ""

    def result(self, result: LaunchResult) -> LaunchResult:
        """What came of a launch, as it may be written down; to be asked once nobody needs its answers."""
        if not self._silent:
            return result
        outcome = result.outcome
        evidence = withheld(outcome.evidence, self._spoken)
        return replace(result.without_text(), outcome=replace(outcome, evidence=evidence))

    def log(self, folder: TrialFolder) -> None:
        """Take out of a server's log what it quotes; to be asked once the server is gone.

        Raises:
            ResultsError: It cannot be written.
        """
        if not self._silent or not folder.log_path.exists():
            return
        log = folder.log_path.read_text(encoding="utf-8", errors="replace")
        if (quiet := without_quotes(log)) != log:
            write_text(folder.log_path, quiet)
