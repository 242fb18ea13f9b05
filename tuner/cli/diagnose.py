"""`tuner diagnose`: what happened to a llama-server, from its log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.core.advice import advice
from tuner.core.diagnosis import Death, examine
from tuner.core.diagnosis.devices import devices, gpu_back_end
from tuner.core.diagnosis.log_lines import is_up
from tuner.core.outcome import Kind, Outcome, Phase
from tuner.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Of a log that was flooded, so much of its start and of its end is read.
_HALF_BYTES = 8 * 2**20
#: A shell says 128 + n where `subprocess` says -n.
_SHELL_SIGNALS = range(129, 193)


def diagnose(
    log: Annotated[str, typer.Argument(metavar="LOG", help="File with what llama-server printed.")],
    exit_code: Annotated[
        int | None,
        typer.Option(metavar="N", help="Its exit code, as the shell (137) or Python (-9) says it."),
    ] = None,
    phase: Annotated[
        Phase | None, typer.Option(help="What it was doing; default: by the log.", show_default=False)
    ] = None,
    free_mib: Annotated[
        str | None,
        typer.Option(metavar="MIB,...", help="Free memory of each device at the end, in the log's order."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """Say why a llama-server died, and what to change first.

    Or what it quietly does otherwise, if it lives. The log alone is enough; exit code and free memory tell
    more. It helps to start llama-server with -lv 4.
    """
    text = _read(Path(log))
    if exit_code is not None and exit_code in _SHELL_SIGNALS:
        exit_code = 128 - exit_code
    death = Death(
        log=text,
        exit_code=exit_code,
        phase=phase or (Phase.BENCHMARK if is_up(text) else Phase.LOAD),
        free_mib={} if free_mib is None else _free_mib(free_mib, text),
    )
    outcome = examine(death)
    todo = advice(outcome, text)
    if as_json:
        typer.echo(json.dumps(_document(outcome, todo), indent=2, ensure_ascii=False))
        return
    for line in _lines(outcome, todo, text):
        typer.echo(line)


def _read(path: Path) -> str:
    """The text of a log, without the middle where it is very long.

    Raises:
        UsageError: There is no such file, it is empty, or it is no text.
    """
    try:
        with path.open("rb") as file:
            content = file.read(2 * _HALF_BYTES)
            if file.read(1):
                file.seek(-_HALF_BYTES, 2)
                content = content[:_HALF_BYTES] + b"\n" + file.read(_HALF_BYTES)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    if b"\0" in content:
        raise UsageError(f"{path} is no text: give the file that llama-server's output was written to")
    if not content.strip():
        raise UsageError(f"{path} is empty: start llama-server with `> server.log 2>&1` and try again")
    return content.decode("utf-8", errors="replace").replace("\r\n", "\n")


def _free_mib(text: str, log: str) -> dict[str, int]:
    """Free memory by device, out of `64,1400`.

    Raises:
        UsageError: It is not of that form, or there are more values than devices.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and word.isascii() for word in words):
        raise UsageError(f"--free-mib: {text!r} is not understood; write MiB a device, such as 64,1400")
    names = [device.name for device in devices(log)]
    if not names:  # at the usual verbosity no device is listed
        names = [f"{gpu_back_end(log)}{index}" for index in range(len(words))]
    if len(words) > len(names):
        raise UsageError(f"--free-mib: {len(words)} values, and the log names {', '.join(names)} only")
    return dict(zip(names, map(int, words), strict=False))


def _document(outcome: Outcome, todo: Sequence[str]) -> dict[str, object]:
    return {
        "kind": outcome.kind.value,
        "phase": outcome.phase,
        "stage": outcome.stage,
        "device": outcome.device,
        "requested_mib": outcome.requested_mib,
        "inferred": outcome.inferred,
        "evidence": outcome.evidence,
        "advice": list(todo),
    }


def _lines(outcome: Outcome, todo: Sequence[str], log: str) -> list[str]:
    if outcome.kind is Kind.NONE:
        return ["none: it started as asked, and nothing says that it failed", f"  {outcome.evidence}"]
    lines = [outcome.sentence(), f"  {outcome.evidence}"]
    lines += [f"  {device.words()}" for device in devices(log) if device.name == outcome.device]
    if todo:
        lines += ["What to change first:", *(f"  - {line}" for line in todo)]
    return lines
