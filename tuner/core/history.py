"""What was best when, with which build: one entry a study, kept with the rig."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tuner.core.identity import digest_of
from tuner.core.launch import PREVIOUS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Entry:
    """What was best at one time."""

    date: str
    """ISO 8601."""
    study: str
    created: str
    """When the study was made: with its name, what tells it from others."""
    engine_version: str
    engine_digest: str
    model: str
    model_fingerprint: str
    context: int
    """Tokens."""
    workload: str
    """Digest of what is asked: rates of equal ones are comparable."""
    configuration: str
    """In one line, for people."""
    command: str
    score_tok_s: float | None
    reference: str | None
    """What it is compared with; None for nothing."""
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str | None = None
    """What a retune said of the best of before; None for a study of its own."""
    basis: str | None = None
    """Which result a retune was made of: `basis_of`."""
    state: str | None = None
    """Digest of everything that a result depends on, as it was then."""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; `from_json` is the inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Entry:
        """Read what `to_json` made.

        Raises:
            TypeError: A field is missing, or there is one too many.
        """
        return cls(**document)


def basis_of(best: Mapping[str, Any]) -> str:
    """What tells a result from others: its study, and the command that won."""
    return digest_of([best["study"]["name"], best["study"]["created"], best["winner"]["argv"]])


def entry_of(
    best: Mapping[str, Any],
    configuration: str,
    *,
    verdict: str | None = None,
    basis: str | None = None,
    state: str | None = None,
) -> Entry:
    """The entry of a best.json.

    Args:
        best: The document.
        configuration: Its winner in one line.
        verdict: What a retune said of the best of before.
        basis: Which result it was made of.
        state: Digest of what it depends on.
    """
    compared = (best["confirmation"] or {}).get("references", ())
    confirmed = next((row for row in compared if row["name"] != PREVIOUS), None)
    first = next((row for row in best["references"] if row["winner_ratio"] is not None), None)
    low, high = (None, None) if confirmed is None or confirmed["interval"] is None else confirmed["interval"]
    return Entry(
        date=best["date"],
        study=best["study"]["name"],
        created=best["study"]["created"],
        engine_version=best["engine"]["version"],
        engine_digest=best["engine"]["digest"],
        model=best["model"]["name"],
        model_fingerprint=best["model"]["fingerprint"],
        context=best["workload"]["ctx_size"],
        workload=best["workload"]["digest"],
        configuration=configuration,
        command=best["winner"]["command"],
        score_tok_s=best["winner"].get("score_tok_s"),
        reference=confirmed["name"] if confirmed is not None else None if first is None else first["name"],
        ratio=confirmed["ratio"]
        if confirmed is not None
        else None
        if first is None
        else first["winner_ratio"],
        low=low,
        high=high,
        verdict=verdict,
        basis=basis,
        state=state,
    )


def with_entry(entries: Iterable[Entry], entry: Entry) -> list[Entry]:
    """The entries with one more, by date; an earlier one of the same study makes way for it."""
    kept = [one for one in entries if (one.study, one.created) != (entry.study, entry.created)]
    return sorted([*kept, entry], key=lambda one: one.date)


def measured_unchanged(entries: Iterable[Entry], basis: str, state: str) -> Entry | None:
    """The retune that has shown that a result holds for a state of things; None where none has."""
    found = [one for one in entries if (one.basis, one.state, one.verdict) == (basis, state, UNCHANGED)]
    return found[-1] if found else None
