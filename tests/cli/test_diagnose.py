"""`tuner diagnose`: what a user is told about a log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.known_logs import FOLDER, KNOWN, Known

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.tuner_command import TunerCommand

FIELDS = ["kind", "phase", "stage", "device", "requested_mib", "inferred", "evidence", "advice"]


def _log(name: str) -> str:
    return str(FOLDER / f"{name}.log")


def _json(command: TunerCommand, *words: str) -> dict[str, Any]:
    ended = command.run("diagnose", *words, "--json")
    assert ended.code == 0, ended
    document: dict[str, Any] = json.loads(ended.stdout)
    assert list(document) == FIELDS
    return document


@pytest.mark.parametrize("known", [k for k in KNOWN if k.died or k.kind == "degraded"], ids=str)
def test_the_log_alone_is_enough(command: TunerCommand, known: Known) -> None:
    found = _json(command, _log(known.name))
    assert (found["kind"], found["stage"], found["device"]) == (known.kind, known.stage, known.device)
    assert found["advice"] or known.kind == "stopped"


def test_a_person_reads_what_happened_the_line_the_card_and_what_to_change(command: TunerCommand) -> None:
    ended = command.run("diagnose", _log("O-load-layer"), "--exit-code", "1")
    lines = ended.stdout.splitlines()
    assert lines[0] == "out-of-memory at weights on CUDA0 (18,136 MiB asked for)"
    assert lines[1].endswith("allocating 18135.76 MiB on device 0: cudaMalloc failed: out of memory")
    assert lines[2] == "  CUDA0: NVIDIA H200 at 0000:00:06.0 with 15,629 MiB free at the start"
    assert lines[3] == "What to change first:"
    assert lines[4] == "  - less on CUDA0: a smaller number 1 of 2 in -ts"


@pytest.mark.parametrize(("exit_code", "kind"), [("0", "none"), ("143", "stopped"), ("-15", "stopped")])
def test_a_server_that_ran_well_and_was_stopped(command: TunerCommand, exit_code: str, kind: str) -> None:
    assert _json(command, _log("default"), "--exit-code", exit_code)["kind"] == kind
    assert _json(command, _log("default"))["kind"] == "stopped"


def test_a_server_that_does_well_is_said_to(command: TunerCommand, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("0.00.000.001 I srv  llama_server: listening on http://127.0.0.1:8080\n", encoding="utf-8")
    ended = command.run("diagnose", str(log))
    assert (ended.code, ended.stdout.splitlines()[0][:5]) == (0, "none:")


@pytest.mark.parametrize("exit_code", ["134", "-6"])
def test_exit_codes_are_read_as_shells_and_as_python_say_them(command: TunerCommand, exit_code: str) -> None:
    found = _json(command, _log("oom-tensor-load"), "--exit-code", exit_code, "--free-mib", "64,1400")
    assert (found["kind"], found["device"], found["inferred"]) == ("out-of-memory", "CUDA0", True)


def test_free_memory_is_counted_in_the_logs_order(command: TunerCommand, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "using device CUDA1 (NVIDIA RTX A) (0000:0b:00.0) - 24000 MiB free\n"
        "using device CUDA0 (NVIDIA RTX B) (0000:01:00.0) - 16000 MiB free\n"
        "listening on http://127.0.0.1:8080\n",
        encoding="utf-8",
    )
    found = _json(command, str(log), "--exit-code", "-6", "--free-mib", "64,9000")
    assert (found["kind"], found["device"], found["phase"]) == ("out-of-memory", "CUDA1", "benchmark")
    ended = command.run("diagnose", str(log), "--free-mib", "1,2,3")
    assert (ended.code, "CUDA1, CUDA0" in ended.stderr) == (2, True)


def test_the_phase_can_be_said(command: TunerCommand) -> None:
    found = _json(command, _log("oom-tensor-load"), "--phase", "warmup")
    assert (found["phase"], found["kind"]) == ("warmup", "out-of-memory")


def test_a_flooded_log_is_read_at_both_ends(
    command: TunerCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.cli.diagnose._HALF_BYTES", 400)
    log = tmp_path / "server.log"
    flood = "0.00.100.000 I slot print_timing: id  0 | task 10 |\n" * 100
    start = "using device CUDA0 (NVIDIA RTX A) (0000:0b:00.0) - 24000 MiB free\nlistening on http://x:1\n"
    end = "CUDA error: out of memory\n  current device: 0, in function alloc at x.cu:1\n"
    log.write_text(start + flood + end, encoding="utf-8")
    found = _json(command, str(log))
    assert (found["kind"], found["phase"], found["device"]) == ("out-of-memory", "benchmark", "CUDA0")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read: No such file"),
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"\x7fELF\x00\x00", "is no text"),
    ],
)
def test_what_is_no_log_is_refused(
    command: TunerCommand, tmp_path: Path, content: bytes | None, says: str
) -> None:
    log = tmp_path / "server.log"
    if content is not None:
        log.write_bytes(content)
    ended = command.run("diagnose", str(log))
    assert (ended.code, ended.stdout) == (2, "")
    assert says in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_a_folder_is_refused(command: TunerCommand, tmp_path: Path) -> None:
    assert command.run("diagnose", str(tmp_path)).code == 2


@pytest.mark.parametrize("text", ["", "a", "1,", "-5", "1.5", "²"])
def test_free_memory_that_is_no_list_of_mib_is_refused(command: TunerCommand, text: str) -> None:
    ended = command.run("diagnose", _log("default"), f"--free-mib={text}")
    assert (ended.code, "--free-mib" in ended.stderr) == (2, True)


def test_text_of_any_encoding_and_line_end_is_read(command: TunerCommand, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(b"\xff\xfe caf\xe9\r\n0.00.000.001 E error: invalid argument: --no-mmap\r\n")
    found = _json(command, str(log))
    assert (found["kind"], found["evidence"]) == ("bad-flag", "error: invalid argument: --no-mmap")
