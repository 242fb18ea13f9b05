"""`shell`: a POSIX script that checks its cards and starts the server."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from tuner.engine.environment import NO_CONFIG_FILES, NOTED_PREFIXES, SERVING_VARIABLES
from tuner.report.exports.about import about, commented
from tuner.report.exports.grouping import grouped

if TYPE_CHECKING:
    from tuner.report.exports.form import Served

_ENVIRONMENT = """\
# The environment that it was measured with: nothing of the caller's that would change it, no config files.
for name in $(env | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p'); do
  case $name in
    {kept}) ;;
    {unset}) unset "$name" ;;
  esac
done
"""

_CHECK = """\
# Are these the cards that it was tuned on? SPLIT_RATIO_ANYWAY=1 starts it whatever they are.
differs() {
  printf '%s: %s\\nSet SPLIT_RATIO_ANYWAY=1 to start it all the same.\\n' "$0" "$1" >&2
  exit 1
}
if [ "${SPLIT_RATIO_ANYWAY:-}" != 1 ]; then
"""

_UUIDS = """\
  if command -v nvidia-smi >/dev/null 2>&1; then
    cards=$(nvidia-smi -L)
    for uuid in {uuids}; do
      case $cards in
        *"$uuid"*) ;;
        *) differs "the card $uuid is not here" ;;
      esac
    done
  fi
"""

_NAMES = """\
  devices=$("$server" --list-devices 2>/dev/null)
  is_listed() {{
    case $devices in
      *" $1: $2 ("*) ;;
      *) differs "$1 is not '$2' as llama-server lists it" ;;
    esac
  }}
{calls}"""


class PosixShell:
    """Runs with any POSIX shell; words that are given to the script go to the server, behind its own."""

    def write(self, served: Served) -> str:
        """The script."""
        environment = {**NO_CONFIG_FILES, **served.environment}
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environment.items())
        command = ['exec "$server"', *(shlex.join(group) for group in grouped(served.words)), '"$@"']
        parts = [
            "#!/bin/sh\n" + commented(about(served)),
            (
                f"server={shlex.quote(served.program)}\n"
                '[ -x "$server" ] || { printf \'%s: %s is no program\\n\' "$0" "$server" >&2; exit 1; }\n'
            ),
            _ENVIRONMENT.format(
                kept=" | ".join(SERVING_VARIABLES),
                unset=" | ".join(f"{prefix}*" for prefix in ("LLAMA_", *NOTED_PREFIXES)),
            )
            + exports,
            _check(served),
            " \\\n  ".join(command) + "\n",
        ]
        return "\n".join(part for part in parts if part)


def _check(served: Served) -> str:
    """Names against product names, and UUIDs where they are pinned; an RPC server's address is in the command."""
    local = [device for device in served.devices if not device.name.startswith("RPC")]
    if not local:
        return ""
    calls = "".join(f"  is_listed {shlex.join((one.name, one.description))}\n" for one in local)
    uuids = _UUIDS.format(uuids=shlex.join(served.pinned)) if served.pinned else ""
    return f"{_CHECK}{uuids}{_NAMES.format(calls=calls)}fi\n"
