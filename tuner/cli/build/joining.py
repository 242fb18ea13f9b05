"""What a worker brings to a study of several machines, and whether it is what the study was made with."""

from __future__ import annotations

import json
import socket
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tuner.cli.build.recorded import options_of
from tuner.cli.study_folder import DATABASE, WORKER
from tuner.core.cards import Bandwidth
from tuner.errors import StudyError
from tuner.runs.trial_folder import write_json
from tuner.study import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tuner.cli.build.assembly import Assembly
    from tuner.cli.build.options import TuneOptions
    from tuner.core.identity import StudyIdentity
    from tuner.core.memory.learned import Observation
    from tuner.core.rig import Device
    from tuner.study import SharedStore

#: Options that all workers share, beside those that are recorded with every study.
_OF_THE_RUN = ("budget_s", "launches", "confirm_blocks", "soak", "endure_s")


def run_options(options: TuneOptions) -> dict[str, Any]:
    """How much a study may use, and how its winner is proved, in plain JSON."""
    return {name: getattr(options, name) for name in _OF_THE_RUN}


@dataclass(frozen=True, slots=True)
class Place:
    """What is different on this machine from the one that made the study; None where it is as there."""

    results: Path
    """Where the study's folder is to be."""
    facts: Path | None = None
    """Where what this rig has taught is kept."""
    model: Path | None = None
    server: Path | None = None
    flags: Sequence[str] = ()
    """Flags for every launch instead of the study's, such as other addresses of RPC servers."""


def joined_options(store: SharedStore, place: Place) -> TuneOptions:
    """A study's own options, with what is elsewhere on this machine.

    Args:
        store: The study.
        place: This machine.

    Raises:
        UsageError: They were written by another version.
        StudyError: Who makes it has not come to its end yet.
    """
    recorded = dict(store.facts["study"]["options"])
    of_the_run = store.run_options()
    if not of_the_run:
        raise StudyError(
            f"{store.place} is not wholly made yet: run its tuner tune --storage to where it launches, and then this "
            "again"
        )
    here = {"study": folder_name(store.name), "results": place.results, "facts": place.facts}
    options = options_of(recorded, {**of_the_run, **here})
    return replace(
        options,
        model=place.model or options.model,
        server=place.server or options.server,
        flags=tuple(place.flags) or options.flags,
    )


def folder_name(study: str) -> str:
    """What a study's folder is called; that of another class of rigs has its mark behind a `+`."""
    return study.replace("@", "+")


def worker_of(folder: Path) -> Worker:
    """Who works in that folder: the same after a restart, so that what it left behind is its own.

    Raises:
        StudyError: The folder holds a study of one machine, or cannot be read.
    """
    if (folder / DATABASE).is_file():
        raise StudyError(
            f"{folder} holds a study of this machine alone; give the shared one another name, or --results DIR"
        )
    try:
        document = json.loads((folder / WORKER).read_text(encoding="utf-8"))
        return Worker(str(document["id"]), socket.gethostname())
    except FileNotFoundError:
        return Worker(uuid.uuid4().hex[:12], socket.gethostname())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StudyError(f"{folder / WORKER} cannot be read: {error}; move the folder away") from error


def keep_worker(folder: Path, worker: Worker, store: SharedStore) -> None:
    """Write down who works here, and on which study.

    Raises:
        StudyError: The folder belongs to another study of that name: its trials are not this one's.
    """
    path = folder / WORKER
    if not path.is_file():
        write_json(path, {**worker.to_json(), "study": store.uid})
    elif study_of_worker(folder) != store.uid:
        raise StudyError(
            f"{folder} holds trials of another study of that name, which is not in {store.place} any more; "
            "move it away, or give another folder with --results"
        )


def study_of_worker(folder: Path) -> str | None:
    """Which study the worker of a folder works on; None where there is none, or it cannot be read."""
    try:
        found = json.loads((folder / WORKER).read_text(encoding="utf-8"))["study"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def why_refused(store: SharedStore, identity: StudyIdentity) -> list[str]:
    """What a worker has that the study was not made with, a sentence each; nothing where it may join."""
    return [sentence.replace("now", "here", 1) for sentence in store.identity.differences(identity)]


def class_of(identity: StudyIdentity) -> str:
    """A short mark of a class of rigs."""
    return identity.parts["devices"].digest[:8]


def differs_in_rig_alone(store: SharedStore, identity: StudyIdentity) -> bool:
    """Whether it is another class of rigs, and nothing else is different but what follows from that."""
    differences = store.identity.differences(identity)
    return bool(differences) and all(one.split(":")[0] in {"devices", "space"} for one in differences)


def transferred(
    store: SharedStore, assembly: Assembly
) -> tuple[Sequence[Observation], Mapping[str, Bandwidth]]:
    """What a study of other rigs says of devices that are here too, by name and description.

    Args:
        store: The other study.
        assembly: What there is here.

    Returns:
        What it has learned of their memory, and what a decode step reaches of each.
    """
    alike = _alike(store.facts["devices"], assembly.rig.devices)
    identities = {device.identity for device in alike}
    learned = assembly.plan.rules.memory.learned_from(store.every_record())
    names = {device.name for device in alike}
    rates = {
        name: Bandwidth(float(row[0]), float(row[1])) for name, row in store.rates().items() if name in names
    }
    return [one for one in learned if one.device in identities], rates


def _alike(theirs: Sequence[Mapping[str, Any]], own: Sequence[Device]) -> list[Device]:
    known = {(row["name"], row["description"]) for row in theirs}
    return [device for device in own if (device.name, device.description) in known]
