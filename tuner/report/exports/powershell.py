"""`powershell`: the same as the shell script, for PowerShell 7."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tuner.engine.environment import NOTED_PREFIXES, SERVING_VARIABLES
from tuner.report.exports.about import about, commented
from tuner.report.exports.grouping import grouped

if TYPE_CHECKING:
    from tuner.report.exports.form import Served

#: PowerShell takes each of these for the end of a text in single quotes; twice, it stands for itself.
_QUOTES = re.compile("(['\u2018\u2019\u201a\u201b])")

_ENVIRONMENT = """\
# The environment that it was measured with: nothing of the caller's that would change it, no config files.
$kept = @({kept})
Get-ChildItem Env: |
  Where-Object {{ $_.Name -cmatch {unset} -and $kept -cnotcontains $_.Name }} |
  ForEach-Object {{ Remove-Item -LiteralPath "Env:$($_.Name)" }}
if ($IsLinux) {{ $env:XDG_CONFIG_HOME = '/dev/null' }}
"""

_CHECK = """\
# Are these the cards that it was tuned on? SPLIT_RATIO_ANYWAY=1 starts it whatever they are.
if ($env:SPLIT_RATIO_ANYWAY -ne '1') {
"""

_UUIDS = """\
  if (Get-Command nvidia-smi -ErrorAction SilentlyContinue) {{
    $cards = (& nvidia-smi -L) -join "`n"
    foreach ($uuid in @({uuids})) {{
      if (-not $cards.Contains($uuid)) {{
        throw "the card $uuid is not here; set SPLIT_RATIO_ANYWAY=1 to start it all the same"
      }}
    }}
  }}
"""

_NAMES = """\
  $devices = (& $server --list-devices 2>$null) -join "`n"
  foreach ($device in @({names})) {{
    if (-not $devices.Contains(" $device (")) {{
      throw "llama-server does not list $device; set SPLIT_RATIO_ANYWAY=1 to start it all the same"
    }}
  }}
"""


class PowerShell:
    """Needs PowerShell 7.3: older ones lose quotation marks on the way to a program."""

    def write(self, served: Served) -> str:
        """The script."""
        pattern = f"^({'|'.join(('LLAMA_', *NOTED_PREFIXES))})"
        exports = "".join(f"$env:{name} = {_quoted(value)}\n" for name, value in served.environment.items())
        lines = [", ".join(map(_quoted, group)) for group in grouped(served.words)]
        parts = [
            "#Requires -Version 7.3\n" + commented(about(served)) + "$ErrorActionPreference = 'Stop'\n",
            f"$server = {_quoted(served.program)}\n",
            _ENVIRONMENT.format(kept=", ".join(map(_quoted, SERVING_VARIABLES)), unset=_quoted(pattern))
            + exports,
            _check(served),
            "$words = @(\n" + ",\n".join(f"  {line}" for line in lines) + "\n)\n"
            "& $server @words @args\nexit $LASTEXITCODE\n",
        ]
        return "\n".join(part for part in parts if part)


def _check(served: Served) -> str:
    local = [device for device in served.devices if not device.name.startswith("RPC")]
    if not local:
        return ""
    names = ", ".join(_quoted(f"{device.name}: {device.description}") for device in local)
    uuids = _UUIDS.format(uuids=", ".join(map(_quoted, served.pinned))) if served.pinned else ""
    return f"{_CHECK}{uuids}{_NAMES.format(names=names)}}}\n"


def _quoted(text: str) -> str:
    return "'" + _QUOTES.sub(r"\1\1", text) + "'"
