"""What has changed since a best.json was made: everything is looked at, and no server is started."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.build.assembly import Assembly, assemble
from tuner.cli.build.carrying import Carrying, help_of_then
from tuner.cli.build.recorded import options_of
from tuner.cli.option_values import duration_s
from tuner.core.candidate import Candidate
from tuner.core.freshness.change import Change, Freshness
from tuner.core.freshness.compare import compared
from tuner.core.freshness.devices import renamed
from tuner.core.freshness.engines import Gone, gone_for
from tuner.core.identity import digest_of
from tuner.engine.environment import server_environment
from tuner.engine.probe import digest_at, read_help
from tuner.engine.user_command import parse_extra
from tuner.errors import StudyError
from tuner.search.coordinates import complete

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.cli.best_file import BestFile
    from tuner.engine.command_line import UserFlag
    from tuner.engine.help_text import HelpText


OFF = "off"


@dataclass(frozen=True, slots=True)
class RetuneOptions:
    """The options of `tuner retune`."""

    server: Path | None
    """The engine of now; None for the one at the place of the old."""
    old_server: Path | None
    """Where the engine of before is; None for where it was."""
    old_rpc: str | None
    """RPC servers of the engine of before; None for those that it had."""
    model: Path | None
    """Another file of the same shape; None for the same file."""
    flags: tuple[str, ...]
    results: Path
    study: str | None
    facts: Path | None
    launches: int
    seconds: float | None
    blocks: int
    quality: str | None
    """How long answers are looked at, or `off`; None for what the study was made with."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A best.json against what there is now."""

    best: BestFile
    assembly: Assembly
    """The same study, as it would be made now."""
    changes: tuple[Change, ...]
    gone: tuple[Gone, ...]
    """What of the winner the engine of now cannot be told, by what can be said to both."""
    carrying: Carrying | None
    """Into the words of now; None where nobody knows those of then."""
    old_engine: Path | None
    """Where the engine of then is; None where it is gone."""

    @property
    def lost(self) -> list[str]:
        """What of the winner cannot be carried over, a phrase each."""
        if self.carrying is None:
            return [str(one) for one in self.gone if one.value is not None]
        return [one.what for one in self.changes if one.part == "command" and one.state is Freshness.STALE]

    @property
    def pins(self) -> tuple[str, ...]:
        """Flags that are said now so that a default of then still holds."""
        parameters = self.best.document["winner"]["parameters"]
        if self.carrying is None or not parameters:
            return ()
        return self.carrying.pins(Candidate.from_json(parameters))

    @property
    def names(self) -> Mapping[str, str]:
        """What each device is called now, by what it was called."""
        return renamed(self.best.document["devices"], self.assembly.facts["devices"])

    @property
    def state(self) -> str:
        """Equal where nothing that a result depends on differs."""
        facts = self.assembly.facts
        devices = [
            {
                name: row.get(name)
                for name in _OF_DEVICES
                if not (name == "description" and row["uuid"] is None)
            }
            for row in facts["devices"]
        ]
        return digest_of(
            [
                facts["engine"]["digest"],
                facts["model"]["fingerprint"],
                facts["workload"]["digest"],
                facts["workload"]["ctx_size"],
                facts["driver"],
                devices,
            ]
        )

    def as_now(self, candidate: Candidate) -> Candidate | None:
        """A configuration of before as it is written now; None where a part of it is gone."""
        names = self.names
        carried = self._carried(candidate)
        if carried is None or any(name not in names for name in carried.devices):
            return None
        options = carried.options
        if carried.devices:
            options["device"] = tuple(names[name] for name in carried.devices)
        return complete(self.assembly.plan.rules.bound, options)

    def _carried(self, candidate: Candidate) -> Candidate | None:
        """A configuration in the words of now."""
        if self.carrying is not None:
            return self.carrying.candidate(candidate)
        gone = {one.option for one in self.gone if one.value is None}
        return Candidate.of({name: value for name, value in candidate.items if name not in gone})


_OF_DEVICES = (
    "name",
    "uuid",
    "description",
    "bus_id",
    "total_mib",
    "power_limit_w",
    "pcie_generation",
    "pcie_width",
)


def look_at(
    best: BestFile,
    options: RetuneOptions,
    environ: Mapping[str, str],
    config_home: Path,
    *,
    created: str,
) -> Changed:
    """Compare a best.json with what there is now.

    Args:
        best: The file.
        options: As typed.
        environ: The user's environment.
        config_home: An empty folder for the engine's config files.
        created: The date, ISO 8601.

    Raises:
        TunerError: Something that it needs is gone, or cannot be asked.
    """
    recorded = best.document["study"].get("options")
    if recorded is None:
        raise StudyError(
            f"{best.path} does not say with which options it was made: an older version wrote it; tune again"
        )
    of_the_run = {
        "study": options.study or best.document["study"]["name"],
        "results": options.results,
        "budget_s": options.seconds,
        "launches": options.launches,
        "confirm_blocks": options.blocks,
        "soak": True,
        "endure_s": 0.0,
        "facts": options.facts,
    }
    then = options_of(recorded, of_the_run)
    asked = replace(
        then,
        server=options.server or then.server or Path(best.document["engine"]["path"]),
        model=options.model or then.model,
        quality_s=_quality_s(options.quality, then.quality_s),
    )
    environment = server_environment(environ, config_home, allow_p2p=then.allow_p2p)
    old_engine = _old_engine(best, options, environment)
    words = help_of_then(best, old_engine, environment)
    help_text = read_help(asked.server or Path(), environment)
    carrying = None if words is None else Carrying(words, help_text)
    asked = asked if carrying is None else carrying.options(asked)
    asked = replace(asked, flags=_flags(asked.flags, options.flags, help_text))
    assembly = assemble(asked, environ, config_home, created=created)
    engine, capabilities = best.document["engine"], assembly.facts["engine"]["capabilities"]
    gone = gone_for(
        best.document["winner"]["parameters"], engine.get("capabilities") or capabilities, capabilities
    )
    command = None if carrying is None else carrying.changes(best.document["winner"]["argv"][1:])
    changes = compared(best.document, assembly.facts, command=command)
    found = Changed(best, assembly, tuple(changes), tuple(gone), carrying, old_engine)
    return replace(found, changes=(*changes, *_fits(found)))


def _old_engine(best: BestFile, options: RetuneOptions, environment: Mapping[str, str]) -> Path | None:
    """Where the engine of then is; None where another is there now, or none."""
    path = options.old_server or Path(best.document["engine"]["path"])
    return path if digest_at(path, environment) == best.document["engine"]["digest"] else None


def _quality_s(asked: str | None, then_s: float | None) -> float | None:
    if asked is None:
        return then_s
    return None if asked == OFF else duration_s(asked, "--quality")


def _flags(then: Sequence[str], given: Sequence[str], help_text: HelpText) -> tuple[str, ...]:
    """The flags of before, with those that are given now in the place of their like."""
    if not given:
        return tuple(then)
    mine = parse_extra(help_text, list(given))
    kept = [one for one in parse_extra(help_text, list(then)) if not _is_among(one, mine)]
    return tuple(token for flag in (*kept, *mine) for token in flag.tokens)


def _is_among(flag: UserFlag, others: Sequence[UserFlag]) -> bool:
    return any((one.name or one.tokens[0]) == (flag.name or flag.tokens[0]) for one in others)


def _fits(found: Changed) -> list[Change]:
    """Whether the winner still fits, by prediction."""
    parameters = found.best.document["winner"]["parameters"]
    if not parameters:
        return []
    candidate = found.as_now(Candidate.from_json(parameters))
    if candidate is None:
        return []
    over = found.assembly.plan.rules.memory.excess(candidate)
    if over is None:
        return []
    what = f"by prediction it exceeds {over.device} by {max(over.over_mib, 1):,.0f} MiB"
    return [Change("fit", Freshness.DOUBTFUL, what, "whether it still runs")]
