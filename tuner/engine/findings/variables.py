"""The assignments before a command, and how the server can be reached with what it sets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tuner.engine.findings.asked import option_variables, problem, warning
from tuner.engine.findings.words import nearest, number_findings, takes, value_remedy
from tuner.engine.flag_history import variable_change

if TYPE_CHECKING:
    from tuner.core.checkup.check import Check
    from tuner.engine.findings.asked import Asked
    from tuner.engine.flag_history import VariableChange

_OPTION_PREFIX = "LLAMA_ARG_"
_NEGATED = "LLAMA_ARG_NO_"
_VISIBLE, _ORDER = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
_NUMBERS = re.compile(r"\d+(?:,\d+)*")
_KEYS = ("api-key", "api-key-file")
_LOOPBACK = re.compile(r"localhost|127\.[\d.]+|\[?::1\]?|.*\.sock")


def variable_findings(asked: Asked) -> list[Check]:
    """Variables that are gone, overridden or unknown, and those of CUDA that surprise."""
    known = option_variables(asked.help_text)
    found = [check for name in asked.command.environment for check in _option_variable(asked, name, known)]
    return [*found, *_card_order(asked), *_cuda(asked)]


def host_findings(asked: Asked) -> list[Check]:
    """An address that others can reach, without a key."""
    host = asked.value("host")
    has_key = any(asked.has(name) for name in _KEYS) or "LLAMA_API_KEY" in asked.command.environment
    if host is None or has_key:
        return []
    if all(_LOOPBACK.fullmatch(part.strip()) for part in host.split(",")):
        return []
    text = "open to your network without a key"
    return [warning(asked.written("host"), text, "add --api-key KEY, or write --host 127.0.0.1")]


def _option_variable(asked: Asked, name: str, known: dict[str, str]) -> list[Check]:
    option, value = known.get(name), asked.command.environment[name]
    if option is None:
        change = variable_change(name)
        return _unknown(name, known) if change is None else [_gone(change)]
    if asked.command.has(option):
        return [warning(name, f"overridden by {asked.written(option)}", "leave one of the two out")]
    entry = asked.help_text.option(option)
    if entry is None or not entry.takes_value:
        return []
    if takes(entry, option, value):
        return number_findings(entry, option, f"{name}=", value)
    text = "the help does not list this value, and the server does not start with it"
    return [problem(f"{name}={value}", text, value_remedy(entry, option, f"--{option}", value))]


def _gone(change: VariableChange) -> Check:
    remedy = f"write {change.new} instead" if change.new is not None else "leave it out"
    if change.new == "LLAMA_ARG_LOAD_MODE":
        remedy = "leave it out, or write --load-mode none, mmap or mlock"
    if change.stops_start:
        return problem(change.old, "removed, and the server does not start with it", remedy)
    text = f"removed (build {change.since} does not read it), so it sets nothing"
    return warning(change.old, text, remedy)


def _unknown(name: str, known: dict[str, str]) -> list[Check]:
    if not name.startswith(_OPTION_PREFIX) or name.replace(_NEGATED, _OPTION_PREFIX) in known:
        return []
    meant = nearest(name, list(known))
    remedy = "leave it out" if meant is None else f"write {meant}"
    return [warning(name, "this engine knows no such variable, so it sets nothing", remedy)]


def _card_order(asked: Asked) -> list[Check]:
    """CUDA counts the fastest card first; nvidia-smi and PCI_BUS_ID count by slot."""
    environment = asked.command.environment
    visible = environment.get(_VISIBLE, "")
    if not _NUMBERS.fullmatch(visible) or _ORDER in environment or asked.has("device"):
        return []
    if "," not in visible and (asked.n_listed is None or asked.n_listed < 2):
        return []
    text = "without CUDA_DEVICE_ORDER the numbers count the fastest card first, not in nvidia-smi's order"
    if asked.has("tensor-split"):
        text += f": {asked.written('tensor-split')} may go to the cards in the wrong order"
    remedy = f"write {_ORDER}=PCI_BUS_ID before it, or name the devices with --device"
    return [warning(f"{_VISIBLE}={visible}", text, remedy)]


def _cuda(asked: Asked) -> list[Check]:
    environment = asked.command.environment
    checks = []
    if "GGML_CUDA_ENABLE_UNIFIED_MEMORY" in environment:
        text = "where memory runs out it pages to the host's, many times slower, and nothing says so"
        checks.append(warning("GGML_CUDA_ENABLE_UNIFIED_MEMORY", text, "leave it out"))
    if environment.get("GGML_CUDA_P2P", "").lower() in {"0", "off", "false", "no"}:
        text = "any value turns peer access on, this one too"
        checks.append(warning(f"GGML_CUDA_P2P={environment['GGML_CUDA_P2P']}", text, "leave it out"))
    return checks
