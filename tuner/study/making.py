"""What a shared study is made with, and making it, by whoever comes first."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import optuna
from optuna.study import StudyDirection

from tuner.errors import StudyError
from tuner.study.trial_store import FACTS, FORMAT, IDENTITY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optuna.storages import BaseStorage

    from tuner.core.identity import StudyIdentity

#: Version of what is stored; a study of another one is not read.
SHARED_FORMAT = "machines-1"
LEASE, UID, PARENT, PER_CLASS = "lease_s", "uid", "parent", "per_rig_class"
#: What does not change any more once a study is made.
FIXED = (IDENTITY, FACTS, LEASE, UID, PARENT, PER_CLASS)
#: After so long, who was making a study has died.
_MAKING_S = 5.0


@dataclass(frozen=True, slots=True)
class Making:
    """What a new study is made with."""

    identity: StudyIdentity
    facts: Mapping[str, Any]
    lease_s: float
    parent: str | None = None
    """The study that it is made beside, for another class of rigs."""
    per_rig_class: bool = False
    """Whether rigs of another class get a study of their own beside it."""


def make(storage: BaseStorage, name: str, making: Making) -> None:
    """Make a study, or finish making one."""
    try:
        study_id = storage.create_new_study([StudyDirection.MAXIMIZE], study_name=name)
    except optuna.exceptions.DuplicatedStudyError:
        study_id = storage.get_study_id_from_name(name)
        end_s = time.monotonic() + _MAKING_S  # two that made one would give it two identities
        while FORMAT not in storage.get_study_user_attrs(study_id) and time.monotonic() < end_s:
            time.sleep(_MAKING_S / 50)
    if FORMAT in storage.get_study_user_attrs(study_id):
        return
    for key, value in (
        (FACTS, dict(making.facts)),
        (IDENTITY, making.identity.to_json()),
        (LEASE, making.lease_s),
        (UID, uuid.uuid4().hex),
        (PARENT, making.parent),
        (PER_CLASS, making.per_rig_class),
        (FORMAT, SHARED_FORMAT),
    ):
        storage.set_study_user_attr(study_id, key, value)


def check_version(place: str, notes: Mapping[str, Any]) -> None:
    """Refuse what another version has written.

    Raises:
        StudyError: It has.
    """
    version = notes.get(FORMAT)
    if version != SHARED_FORMAT:
        raise StudyError(f"{place}: format {version}, this version of the tuner reads {SHARED_FORMAT}")


def known_names(storage: BaseStorage) -> str:
    """Which studies there are, for a message."""
    names = names_of(storage)
    return f"studies: {', '.join(names)}" if names else "it holds no study"


def names_of(storage: BaseStorage) -> list[str]:
    """Of all studies, in order."""
    return sorted(study.study_name for study in storage.get_all_studies())
