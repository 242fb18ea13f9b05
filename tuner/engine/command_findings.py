"""What is wrong with the flags of a command, whoever wrote it; nothing is launched to find out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.engine.findings.asked import asked_of, unknown, warning
from tuner.engine.findings.drafts import draft_findings
from tuner.engine.findings.memory import memory_findings
from tuner.engine.findings.placement import placement_findings
from tuner.engine.findings.variables import host_findings, variable_findings
from tuner.engine.findings.words import word_findings

if TYPE_CHECKING:
    from tuner.core.checkup.check import Check
    from tuner.core.model import ModelFile
    from tuner.engine.checked_command import CheckedCommand
    from tuner.engine.findings.asked import Asked
    from tuner.engine.help_text import HelpText

#: Where a model, or a folder of them, comes from; presets name one as well.
_MODELS = ("model", "model-url", "hf-repo", "docker-repo", "models-dir", "models-preset")
_PRESETS = ("-default", "-spec")


def flag_findings(
    command: CheckedCommand,
    help_text: HelpText,
    *,
    model: ModelFile | None,
    n_devices: int | None,
    fa_all_quants: bool | None,
    device_names: tuple[str, ...],
) -> list[Check]:
    """Everything that is wrong with a command's words, variables, placement, memory and drafts, in that order.

    Args:
        command: As read by `read_command` with the same help.
        help_text: Of the engine that would run it.
        model: What its header says; None leaves out what depends on it.
        n_devices: How many devices the engine sees; None where that is not known.
        fa_all_quants: Whether the build has FlashAttention kernels for all pairs of KV types; None where that
            cannot be read.
        device_names: The engine's names for its devices, in its order; empty where they are not known.
    """
    return findings_of(
        asked_of(
            command,
            help_text,
            model=model,
            n_devices=n_devices,
            fa_all_quants=fa_all_quants,
            device_names=device_names,
        )
    )


def findings_of(asked: Asked) -> list[Check]:
    """As `flag_findings`, for a command that has been put beside what it meets."""
    if not asked.help_text.entries:
        return [
            unknown("", "this engine's --help lists no flags, so none can be checked", "try another --server")
        ]
    return [
        *_program(asked.command),
        *word_findings(asked),
        *variable_findings(asked),
        *_model(asked),
        *placement_findings(asked),
        *memory_findings(asked),
        *draft_findings(asked),
        *host_findings(asked),
    ]


def _program(command: CheckedCommand) -> list[Check]:
    name = command.program.rpartition("/")[2]
    if not name or "server" in name:
        return []
    text = "not llama-server; what follows is checked as if it were"
    return [warning(command.program, text, "give the llama-server command itself")]


def _model(asked: Asked) -> list[Check]:
    """Without a model the server answers at once, and loads whatever a request names."""
    names = {flag.name for flag in asked.command.flags if flag.name is not None}
    if any(asked.has(name) for name in _MODELS) or any(
        name.endswith(_PRESETS) for name in names - {"spec-default"}
    ):
        return []
    text = "not given: the server starts as a router that loads what a request names"
    return [warning("-m", text, "write -m with the model's file")]
