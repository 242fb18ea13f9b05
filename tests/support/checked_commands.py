"""Commands that are checked with the help texts of two real builds, and what is said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.fake_llama.builds import BUILDS
from tests.support.models import model
from tuner.core.checkup.check import Check, Level, Topic
from tuner.engine.checked_command import read_command
from tuner.engine.command_findings import flag_findings
from tuner.engine.help_text import HelpText

if TYPE_CHECKING:
    from tuner.core.model import ModelFile

NEW, OLD = (HelpText(BUILDS[build].help_text()) for build in ("11434", "9246"))
#: 64 layers, one MTP layer and the output: 66 units.
MODEL = model(n_mtp=1, heads=(4,) * 65)
CARDS = ("CUDA0", "CUDA1")
#: Nothing is to be said of this one.
SOUND = "llama-server -m m.gguf -c 32768 -np 1"

PROBLEM, WARNING, UNKNOWN = Level.PROBLEM, Level.WARNING, Level.UNKNOWN


def findings(
    command: str,
    help_text: HelpText = NEW,
    *,
    of_model: ModelFile | None = MODEL,
    devices: tuple[str, ...] = CARDS,
    all_quants: bool | None = False,
) -> list[Check]:
    return flag_findings(
        read_command(help_text, command),
        help_text,
        model=of_model,
        n_devices=len(devices) or None,
        fa_all_quants=all_quants,
        device_names=devices,
    )


def said(checks: list[Check]) -> list[tuple[Level, str]]:
    return [(check.level, check.subject) for check in checks]


def one(
    words: str,
    help_text: HelpText = NEW,
    *,
    of_model: ModelFile | None = MODEL,
    devices: tuple[str, ...] = CARDS,
    all_quants: bool | None = False,
) -> Check:
    """The one finding of words that are added to a sound command."""
    (check,) = findings(
        f"{SOUND} {words}", help_text, of_model=of_model, devices=devices, all_quants=all_quants
    )
    assert check.topic is Topic.COMMAND
    return check
