"""What has changed since a best.json was made: everything is looked at, and no server is started."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.build.assembly import Assembly, assemble
from tuner.cli.build.recorded import options_of
from tuner.cli.option_values import duration_s
from tuner.core.candidate import Candidate
from tuner.core.freshness.change import Change, Freshness
from tuner.core.freshness.compare import compared
from tuner.core.freshness.devices import renamed
from tuner.core.freshness.engines import Gone, gone_for
from tuner.core.identity import digest_of
from tuner.engine.environment import server_environment
from tuner.engine.probe import probe
from tuner.engine.user_command import parse_extra
from tuner.errors import StudyError
from tuner.search.coordinates import complete

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.cli.best_file import BestFile
    from tuner.cli.build.options import TuneOptions
    from tuner.engine.command_line import UserFlag


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
    """What of the winner the engine of now cannot be told."""

    @property
    def refused(self) -> str:
        """Why the winner cannot be launched at all; empty where it can, without the options that are gone."""
        return "; ".join(str(one) for one in self.gone if one.value is not None)

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
        """A configuration of before as it is written now; None where a device of it is gone."""
        names, options = self.names, dict(candidate.options)
        for one in self.gone:
            if one.value is None:
                options.pop(one.option, None)
        if candidate.devices:
            if any(name not in names for name in candidate.devices):
                return None
            options["device"] = tuple(names[name] for name in candidate.devices)
        return complete(self.assembly.plan.rules.bound, options)


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
    now = replace(
        then,
        server=options.server or then.server or Path(best.document["engine"]["path"]),
        model=options.model or then.model,
        quality_s=_quality_s(options.quality, then.quality_s),
    )
    now = replace(now, flags=_flags(now, options.flags, environ, config_home))
    assembly = assemble(now, environ, config_home, created=created)
    changes = compared(best.document, assembly.facts)
    winner, engine = best.document["winner"]["parameters"], best.document["engine"]
    capabilities = assembly.facts["engine"]["capabilities"]
    gone = gone_for(winner, engine.get("capabilities") or capabilities, capabilities)
    found = Changed(best, assembly, tuple(changes), tuple(gone))
    return replace(found, changes=(*changes, *_fits(found)))


def _quality_s(asked: str | None, then_s: float | None) -> float | None:
    if asked is None:
        return then_s
    return None if asked == OFF else duration_s(asked, "--quality")


def _flags(
    options: TuneOptions, given: Sequence[str], environ: Mapping[str, str], config_home: Path
) -> tuple[str, ...]:
    """The flags of before, with those that are given now in the place of their like."""
    if not given:
        return options.flags
    environment = server_environment(environ, config_home, allow_p2p=options.allow_p2p)
    engine = probe(options.server or Path("llama-server"), environment)
    mine = parse_extra(engine.help, list(given))
    kept = [one for one in parse_extra(engine.help, list(options.flags)) if not _is_among(one, mine)]
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
