"""Whether the kernel's OOM killer has killed: a SIGKILL alone does not say who sent it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OOM_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class OomCounter:
    """How many processes the kernel has killed for want of memory up to some moment; None where unreadable.

    The kernel counts before it kills, so a child's death is counted by the time that it is known.
    """

    cgroup: int | None
    """In the cgroup of this process, and thus of its children."""
    machine: int | None
    """On the whole machine, containers of others included."""

    @classmethod
    def read(cls, *, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> OomCounter:
        """Read the counters.

        Args:
            proc: Where the kernel tells of processes.
            cgroups: Where cgroups are mounted.
        """
        own = (_kills(path) for path in _own_cgroup_files(proc, cgroups))
        return cls(
            cgroup=next((kills for kills in own if kills is not None), None),
            machine=_kills(proc / "vmstat"),
        )

    def killed_since(self, before: OomCounter) -> bool | None:
        """Whether it has killed between two readings; None where that cannot be told.

        The cgroup decides where it is readable: what is killed elsewhere on the machine is no child of ours.
        """
        if self.cgroup is not None and before.cgroup is not None:
            return self.cgroup > before.cgroup
        if self.machine is not None and before.machine is not None:
            return self.machine > before.machine
        return None


def _own_cgroup_files(proc: Path, cgroups: Path) -> Iterator[Path]:
    """Files that may hold the counter, the most telling first.

    A line of `/proc/self/cgroup` is `number:controllers:path`; version 2 has no controllers. In a container
    the path may be that of the host, while what is mounted begins at the container's own.
    """
    lines = [line.split(":", 2) for line in _text(proc / "self" / "cgroup").splitlines()]
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if not controllers:
            root, file = cgroups, "memory.events"
        elif "memory" in controllers.split(","):
            root, file = cgroups / "memory", "memory.oom_control"
        else:
            continue
        yield root / path.lstrip("/") / file
        yield root / file


def _kills(path: Path) -> int | None:
    found = _OOM_KILLS.search(_text(path))
    return None if found is None else int(found[1])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
