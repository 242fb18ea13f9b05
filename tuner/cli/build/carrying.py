"""What a study was made with, in the words of the engine of now."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tuner.cli.study_folder import ENGINE_HELP
from tuner.core.candidate import Candidate
from tuner.core.freshness.change import Change, Freshness
from tuner.engine.help_text import HelpText
from tuner.engine.known_builds import known_builds
from tuner.engine.probe import read_help
from tuner.engine.translation import ChangeKind, translate, translate_options
from tuner.engine.user_command import shell_command as taken_apart
from tuner.errors import EngineError
from tuner.report.best import shell_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from tuner.cli.best_file import BestFile
    from tuner.cli.build.options import TuneOptions
    from tuner.engine.translation import Translation

_REWRITTEN = "the command does not start as it is; tuner retune writes it anew"
_DOUBTS: Mapping[ChangeKind, tuple[Freshness, str]] = {
    ChangeKind.RENAMED: (Freshness.DOUBTFUL, _REWRITTEN),
    ChangeKind.LEFT_OUT: (Freshness.DOUBTFUL, _REWRITTEN),
    ChangeKind.PINNED: (Freshness.DOUBTFUL, "what is not said is otherwise now"),
    ChangeKind.DIFFERS: (Freshness.DOUBTFUL, "what is not said is otherwise now"),
    ChangeKind.LOST: (Freshness.STALE, "the winner cannot be run as it was"),
}


@dataclass(frozen=True)
class Carrying:
    """From the words of one engine into those of another.

    Args:
        old: What the engine of then lists.
        new: What the engine of now lists.
    """

    old: HelpText
    new: HelpText

    @cached_property
    def _is_same(self) -> bool:
        return self.old.text == self.new.text

    def options(self, options: TuneOptions) -> TuneOptions:
        """The user's own flags and command in the words of now; flags are not given defaults of then."""
        if self._is_same:
            return options
        current = options.current
        if current is not None:
            shell = taken_apart(current, "--current")
            carried = translate(shell.words, self.old, self.new, shell.environment)
            current = shell_command(["llama-server", *carried.words], carried.environment)
        flags = _without_pins(translate(options.flags, self.old, self.new))
        return replace(options, flags=flags, current=current)

    def candidate(self, candidate: Candidate) -> Candidate | None:
        """A configuration in the words of now; None where a part of it cannot be carried over."""
        if self._is_same:
            return candidate
        carried = translate_options(candidate.options, self.old, self.new)
        if any(change.kind is ChangeKind.LOST for change in carried.changes):
            return None
        return Candidate.of(carried.options)

    def pins(self, candidate: Candidate) -> tuple[str, ...]:
        """What has to be said now so that a configuration does what it did when nobody said it."""
        return () if self._is_same else translate_options(candidate.options, self.old, self.new).flags

    def changes(self, words: Sequence[str]) -> list[Change]:
        """What is different about a command, and what that puts in doubt."""
        if self._is_same:
            return []
        rows = [(change, *_DOUBTS[change.kind]) for change in translate(words, self.old, self.new).changes]
        return [Change("command", state, str(change), doubt) for change, state, doubt in rows]


def help_digest(help_text: HelpText) -> str:
    """What tells a help text from others."""
    return hashlib.sha256(help_text.text.encode()).hexdigest()


def help_of_then(best: BestFile, program: Path | None, environment: Mapping[str, str]) -> HelpText | None:
    """What the engine of a best.json lists; None where nobody knows any more.

    Args:
        best: The file.
        program: Where that engine is; None where it is gone.
        environment: The servers'.
    """
    if program is not None:
        try:
            return read_help(program, environment)
        except EngineError:
            pass  # it does not run any more; its words may be known all the same
    digest = best.document["engine"].get("help")
    texts: list[Any] = [one.help for one in known_builds()]
    if best.study is not None and (best.study / ENGINE_HELP).is_file():
        texts.insert(0, HelpText((best.study / ENGINE_HELP).read_text(encoding="utf-8")))
    return next((text for text in texts if help_digest(text) == digest), None)


def _without_pins(translation: Translation) -> tuple[str, ...]:
    words = list(translation.words)
    for change in translation.changes:
        if change.kind is not ChangeKind.PINNED or change.before:
            continue
        pinned = shlex.split(change.after)
        for at in range(len(words) - len(pinned), -1, -1):
            if words[at : at + len(pinned)] == pinned:
                del words[at : at + len(pinned)]
                break
    return tuple(words)
