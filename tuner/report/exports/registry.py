"""All forms of export by name."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.report.exports.best_json import BestJson
from tuner.report.exports.compose_file import ComposeFile
from tuner.report.exports.env_file import EnvFile
from tuner.report.exports.llama_swap import LlamaSwap
from tuner.report.exports.markdown_block import MarkdownBlock
from tuner.report.exports.posix_shell import PosixShell
from tuner.report.exports.powershell import PowerShell
from tuner.report.exports.preset_ini import PresetIni
from tuner.report.exports.systemd_unit import SystemdUnit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.report.exports.form import Form


class Format(StrEnum):
    """Forms of an export."""

    JSON = "json"
    SHELL = "shell"
    POWERSHELL = "powershell"
    ENV = "env"
    PRESET_INI = "preset-ini"
    LLAMA_SWAP = "llama-swap"
    SYSTEMD = "systemd"
    COMPOSE = "compose"
    MARKDOWN = "markdown"


FORMS: Mapping[Format, Form] = MappingProxyType(
    {
        Format.JSON: BestJson(),
        Format.SHELL: PosixShell(),
        Format.POWERSHELL: PowerShell(),
        Format.ENV: EnvFile(),
        Format.PRESET_INI: PresetIni(),
        Format.LLAMA_SWAP: LlamaSwap(),
        Format.SYSTEMD: SystemdUnit(),
        Format.COMPOSE: ComposeFile(),
        Format.MARKDOWN: MarkdownBlock(),
    }
)
