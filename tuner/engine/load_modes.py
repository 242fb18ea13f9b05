"""How weights are read: the switches of builds up to 10001, and the one flag that took their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.engine.flag_history import flag_change

if TYPE_CHECKING:
    from collections.abc import Sequence

#: What stands for a mode where there is no `--load-mode`; memory mapping is on there where nobody says otherwise.
SWITCHES: dict[str, tuple[str, ...]] = {
    "auto": (),
    "none": ("--no-mmap",),
    "mmap": ("--mmap",),
    "mlock": ("--no-mmap", "--mlock"),
    "mmap+mlock": ("--mmap", "--mlock"),
    "dio": ("--direct-io",),
}

#: Where a build has the switches beside `--load-mode`, each sets all of it: `--mlock` no longer maps.
_ALONE = {
    "--no-mmap": "none",
    "--mmap": "mmap",
    "--mlock": "mlock",
    "--direct-io": "dio",
    "--no-direct-io": "none",
}


def load_mode(spellings: Sequence[str]) -> str | None:
    """The `--load-mode` that switches of one command come to; None where they change nothing.

    Memory mapping is on unless `--no-mmap` comes last of the two, and reading past the page cache comes before it.

    Args:
        spellings: As written, in the order of the command; what is none of the switches is passed over.
    """
    is_mapped, is_locked, is_direct, is_said = True, False, False, False
    for spelling in spellings:
        match _first_spelling(spelling):
            case "--no-mmap" | "--mmap" as switch:
                is_mapped, is_said = switch == "--mmap", True
            case "--mlock":
                is_locked = True
            case "--direct-io" | "--no-direct-io" as switch:
                is_direct = switch == "--direct-io"
            case _:
                pass
    if is_direct:
        return "dio"
    if is_locked:
        return "mmap+mlock" if is_mapped else "mlock"
    if not is_mapped:
        return "none"
    return "mmap" if is_said else None


def last_mode(spelling: str) -> str | None:
    """The `--load-mode` that a switch comes to in a build that has both; None for any other flag."""
    return _ALONE.get(_first_spelling(spelling) or "")


def _first_spelling(spelling: str) -> str | None:
    change = flag_change(spelling)
    return None if change is None else change.old[0]
