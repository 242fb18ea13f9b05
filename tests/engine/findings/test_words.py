"""Words that an engine does not take as they stand; what is said of them holds for the real one."""

from __future__ import annotations

import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.checked_commands import OLD, PROBLEM, SOUND, findings, one
from tuner.engine.help_text import HelpText

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("words", "subject", "remedy"),
    [
        ("--n-gpu-layer 9", "--n-gpu-layer", "write --n-gpu-layers"),
        ("--ngl 9", "--ngl", "write -ngl"),
        ("-ctx-size 9", "-ctx-size", "write --ctx-size"),
        ("--flash 1", "--flash", "write --flash-attn"),
        (
            "--no-such-thing-at-all 1",
            "--no-such-thing-at-all",
            "leave it out, or use a llama.cpp that has it",
        ),
        ("--threads=8", "--threads=", "write --threads 8"),
        ("--api-key=hunter2", "--api-key=", "write --api-key VALUE"),
        ("--no-mmap", "--no-mmap", "write --load-mode none instead"),
        ("--no-mmap --mlock", "--no-mmap --mlock", "write --load-mode mlock instead"),
        ("-ndio", "-ndio", "leave it out"),
        ("--draft-max 16", "--draft-max 16", "write --spec-draft-n-max 16 instead"),
        ("-cpent 4096", "-cpent 4096", "write --checkpoint-min-step 4096 instead"),
        ("--fit-print on", "--fit-print on", "leave it out"),
        ("-sm rows", "-sm rows", "write -sm with one of layer, none, tensor"),
        ("-sm tensr", "-sm tensr", "write -sm tensor"),
        ("-ctk Q8_0", "-ctk Q8_0", "write -ctk q8_0"),
        ("--spec-type mtp", "--spec-type mtp", "write --spec-type draft-mtp"),
        ("--spec-type mtp,ngram-mod", "--spec-type mtp,ngram-mod", "write --spec-type draft-mtp,ngram-mod"),
        ("-fa", "-fa", "write -fa on"),
        ("--threads", "--threads", "write --threads N"),
        ("stray", "stray", "leave it out, or quote it"),
        ("-kvu on", "on", "write -kvu alone"),
        ("–ts 3,2", "–ts 3,2", "write -ts 3,2"),  # noqa: RUF001 - what a text editor makes of it
        ("—ctx-size 5", "—ctx-size 5", "write --ctx-size 5"),
        ("-b 4k", "-b 4k", "write -b 4096"),
        ("-b 4,096", "-b 4,096", "write -b 4096"),
        ("-b 2048.5", "-b 2048.5", "write -b with a number alone"),
        ("--temp warm", "--temp warm", "write --temp N"),
        ("--version", "--version", "leave it out"),
        ("-lzm 1", "-lzm 1", "write -lzm with one of auto, off, on"),
        (
            "--spec-type 'ngram-mod, draft-mtp'",
            "--spec-type ngram-mod, draft-mtp",
            "write --spec-type ngram-mod,draft-mtp",
        ),
    ],
)
def test_word_that_the_engine_does_not_take_is_a_problem(words: str, subject: str, remedy: str) -> None:
    check = one(words)
    assert (check.level, check.subject, check.remedy) == (PROBLEM, subject, remedy)


def test_flag_of_a_newer_build_is_written_as_the_old_one_has_it() -> None:
    assert one("--load-mode none", OLD).remedy == "write --no-mmap instead"
    assert one("-cms 4096", OLD).remedy == "leave it out, or use a llama.cpp that has it"
    assert one("--checkpoint-min-step 9", OLD).remedy == "write --checkpoint-every-n-tokens 9 instead"
    assert findings(f"{SOUND} --no-mmap --mlock", OLD) == []


def test_no_value_of_a_key_is_repeated() -> None:
    checks = findings("HF_TOKEN=hunter2 llama-server -hft hunter3 -hft hunter4 --api-key=hunter5 -np 1 -c 1")
    assert len(checks) == 4
    assert "hunter" not in "".join(f"{check.subject}{check.text}{check.remedy}" for check in checks)


# --- the real engine

REFUSED = (
    "--n-gpu-layer 9",
    "--ngl 9",
    "--threads=8",
    "--no-mmap",
    "-ndio",
    "--draft-max 16",
    "-cpent 4096",
    "--fit-print on",
    "-sm rows",
    "-sm 'layer '",
    "-ctk Q8_0",
    "-lzm 1",
    "--numa here",
    "--pooling all",
    "--spec-type mtp",
    "--spec-type 'ngram-mod, draft-mtp'",
    "-fa",
    "stray",
    "-kvu on",
    "\u2013ts 3,2",
    "--temp warm",
    "-c many",
    "-ts most,rest",
    "-np 0",
)
TAKEN = (
    "-c 4k",
    "-b 4,096",
    "-ngl all",
    "-ngl auto",
    "-fa 1",
    "-fa -1",
    "-fit enabled",
    "-lv 9",
    "--log-colors 0",
    "--reasoning 1",
    "--reasoning-format auto",
    "--poll-batch 5",
    "--spec-type ngram-mod --spec-type draft-mtp",
    "-ts 60%,40%",
    "-ts '3, 2'",
    "--cache_type_k q8_0",
    "-no-kvu",
)


@pytest.mark.server
def test_real_engine_refuses_what_is_said_to_keep_it_from_starting(llama_server_path: Path) -> None:
    help_text = HelpText(_run(llama_server_path, "--help").stdout)
    for words in REFUSED + TAKEN:
        checks = findings(f"{SOUND} {words}", help_text, devices=())
        refusing = [check for check in checks if check.level is PROBLEM and "reads it as" not in check.text]
        # the words come first: the engine reads them all before it tells its version and ends
        ended = _run(llama_server_path, *shlex.split(words), "--version")
        assert (ended.returncode, words) == (int(words in REFUSED), words)
        assert bool(refusing) == (words in REFUSED), words


@pytest.mark.server
@pytest.mark.parametrize(
    ("assigned", "code"),
    [
        ("LLAMA_ARG_DRAFT_MAX=16", 1),
        ("LLAMA_ARG_SPLIT_MODE=rows", 1),
        ("LLAMA_ARG_MLOCK=1", 0),
        ("LLAMA_ARG_UBATCH=1k", 0),
        ("LLAMA_ARG_FLASH_ATTN=1", 0),
    ],
)
def test_real_engine_ends_at_such_a_variable(llama_server_path: Path, assigned: str, code: int) -> None:
    ended = _run(llama_server_path, "--version", variable=assigned)
    assert ended.returncode == code
    checks = findings(f"{assigned} {SOUND}")
    assert any("does not start" in check.text for check in checks) == bool(code)


def _run(program: Path, *words: str, variable: str = "") -> subprocess.CompletedProcess[str]:
    name, _, value = variable.partition("=")
    return subprocess.run(
        [str(program), *words],
        env={name: value} if name else {},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
