"""The table of engine by file on the disk: table.json, table.md, and the best.json of the winner of all."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tuner.cli.dates import now
from tuner.cli.study_folder import BEST, TABLE, TABLE_TEXT
from tuner.core.pareto import Worth, worth_having
from tuner.report.best import check_best
from tuner.report.table import table_document, table_markdown
from tuner.runs.comparing import YOURS, Comparing, side_by_side, still_compared
from tuner.runs.trial_folder import write_json, write_text
from tuner.search.race_state import RaceState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tuner.cli.racer import StudyRacer
    from tuner.core.table import Row
    from tuner.runs.race import Race


class SeveralTable:
    """What there is of a race's result.

    Args:
        folder: Of all its studies.
        racers: The studies.
    """

    def __init__(self, folder: Path, racers: Sequence[StudyRacer]) -> None:
        self._folder = folder
        self._racers = tuple(racers)

    def write(self, race: Race) -> None:
        """Write all of it down.

        Raises:
            ResultsError: It cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        rows, notes = self.rows(race), self.notes(race)
        document = table_document(
            rows,
            date=now(),
            engines=self._engines(),
            files=self._files(),
            notes=notes,
            state=race.state.to_json(),
        )
        write_json(self._folder / TABLE, document)
        write_text(self._folder / TABLE_TEXT, table_markdown(rows, notes) + "\n")
        winner = next((one for one in self._racers if one.name == self.winner(race)), None)
        best = None if winner is None else winner.best()
        if best is None:
            (self._folder / BEST).unlink(missing_ok=True)
        else:
            check_best(best)
            write_json(self._folder / BEST, best)

    def text(self, race: Race) -> str:
        """The table for people."""
        return table_markdown(self.rows(race), self.notes(race))

    def winner(self, race: Race) -> str | None:
        """The study whose winner is the winner of all."""
        return Comparing(race, blocks=0, worthwhile=0.0).winner()

    def rows(self, race: Race) -> list[Row]:
        """One a cell, with what follows from all of them."""
        out = {one.name: one for one in race.state.out}
        rows = [racer.row(out.get(racer.name)) for racer in self._racers]
        winner = self.winner(race)
        rows = [replace(row, is_winner=row.name == winner) for row in rows]
        if race.state.comparison is not None:
            rows = [self._beside(row, race, winner) for row in rows]
        left = [row for row in rows if row.out is None and row.score_tok_s is not None]
        worth = {left[place].name for place in worth_having([self._worth(row) for row in left])}
        return [replace(row, is_worth_having=row.name in worth) for row in rows]

    def notes(self, race: Race) -> list[str]:
        """What else is to be said, a sentence each."""
        lines = []
        reference = next((one for one in self._racers if one.is_reference), None)
        if reference is not None:
            files = {
                one.cell.file
                for one in self._racers
                if not one.has_tokens_of(reference) and one is not reference
            }
            lines += [
                f"{file} has other tokens than {reference.cell.file}: their answers cannot be compared."
                for file in sorted(files)
            ]
        if race.state.comparison is None:
            return lines
        beside = side_by_side(race)
        lines += [f"Not compared: {name}: {why}." for name, why in race.state.comparison.out.items()]
        winner = self.winner(race)
        if YOURS in beside.arms and winner is not None and winner in still_compared(race):
            interval = beside.versus(winner, YOURS)
            if interval is not None:
                lines.append(
                    f"The winner makes {interval.ratio:.2f} times as much as your command "
                    f"(95 %: {interval.low:.2f} to {interval.high:.2f})."
                )
        return lines

    def _beside(self, row: Row, race: Race, winner: str | None) -> Row:
        """With what it made beside the others."""
        beside, valid = side_by_side(race), still_compared(race)
        if row.name not in valid:
            return row
        rate = beside.rate_tok_s(row.name)
        if winner is None or winner == row.name or winner not in valid:
            return replace(row, beside_tok_s=rate)
        interval = beside.versus(row.name, winner)
        ratio = None if interval is None else (interval.ratio, interval.low, interval.high)
        return replace(row, beside_tok_s=rate, ratio=ratio)

    def _worth(self, row: Row) -> Worth:
        """What a row is worth: by its speed beside the others, where all were launched beside each other."""
        off = 0.0 if row.loss is None and row.is_reference else row.off_nats
        context = row.expected_context_tokens or row.context_tokens
        return Worth(row.beside_tok_s or row.score_tok_s, context, off, row.file)

    def _engines(self) -> list[Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for racer in self._racers:
            engine = racer.assembly.engine
            found[racer.cell.engine] = {
                "name": racer.cell.engine,
                "path": str(engine.path),
                "version": engine.version,
                "digest": engine.digest,
                "flags": list(racer.assembly.launcher.extra_flags),
            }
        return list(found.values())

    def _files(self) -> list[Mapping[str, Any]]:
        found: dict[str, Mapping[str, Any]] = {}
        for racer in self._racers:
            model = racer.assembly.model
            found[racer.cell.file] = {
                "name": racer.cell.file,
                "path": model.path,
                "size_bytes": model.size_bytes,
                "fingerprint": model.fingerprint,
            }
        return list(found.values())


def kept_state(folder: Path) -> RaceState | None:
    """Where a run before this one has left the race; None where there was none, or it cannot be read."""
    try:
        document = json.loads((folder / TABLE).read_text(encoding="utf-8"))
        return RaceState.from_json(document["state"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
