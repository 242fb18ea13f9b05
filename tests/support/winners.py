"""Winners to export, and what their exports say when they are read again."""

from __future__ import annotations

import os
import stat
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.fake_llama.builds import BUILDS
from tests.support.trials import a_record, measured
from tuner.core.candidate import Candidate
from tuner.core.launch import ENGINE_DEFAULT
from tuner.core.serving import Serving
from tuner.engine.command_line import options_to_flags, read_user_flags
from tuner.engine.help_text import HelpText
from tuner.engine.user_command import is_switched_on
from tuner.report.best import best_document, check_best
from tuner.report.exports.form import Served, served

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DATE = "2026-03-01T04:05:06+01:00"
PROGRAM = "/opt/llama.cpp/llama-server"
MODEL = "/models/qwen.gguf"
UUIDS = ("GPU-5080a-1", "GPU-3090b-2")
DEVICES = (
    ("CUDA0", "NVIDIA GeForce RTX 5080", UUIDS[0]),
    ("CUDA1", "NVIDIA GeForce RTX 3090", UUIDS[1]),
)
#: Folders and files that a path may go through: whatever a shell, a parser or a template might stumble over.
ODD_FOLDER = 'it\'s a "dir" with $HOME, `id`, %h, {a;b}, \\n & é'
CANDIDATE = Candidate.of(
    {
        "device": ("CUDA0", "CUDA1"),
        "split-mode": "layer",
        "tensor-split": (24, 7),
        "gpu-layers": 999,
        "fit": "off",
        "ctx-size": 8192,
        "parallel": 1,
        "kv-unified": False,
        "flash-attn": "on",
        "cache-type-k": "q8_0",
        "cache-type-v": "q8_0",
        "spec-type": "none",
    }
)


@cache
def help_of(build: str) -> HelpText:
    return HelpText(BUILDS[build].help_text())


def a_best(
    words: Sequence[str] | None = None,
    *,
    program: str = PROGRAM,
    model: str = MODEL,
    environment: Mapping[str, str] | None = None,
    devices: Sequence[tuple[str, str, str | None]] = DEVICES,
    others: Sequence[tuple[str, str | None]] = (),
    name: str = "Qwen 27B",
) -> dict[str, Any]:
    """best.json of a winner with these words behind `-m MODEL`, twice as fast as the engine's own choice."""
    if words is None:
        words = options_to_flags(help_of("11434"), CANDIDATE)
    facts = {
        "study": {"name": "night", "space": "dual-gpu", "seed": 1, "created": DATE},
        "engine": {"path": program, "digest": "ab" * 32, "version": "version: 0.6.0-dev (build 0)"},
        "devices": [
            {
                "name": device,
                "description": description,
                "total_mib": 16303,
                "uuid": uuid,
                "bus_id": None,
                "memory_stated": False,
            }
            for device, description, uuid in devices
        ],
        "other_devices": [{"name": device, "uuid": uuid} for device, uuid in others],
        "model": {
            "path": model,
            "name": name,
            "architecture": "qwen",
            "size_bytes": 2**30,
            "fingerprint": "f",
        },
        "workload": {
            "prompts": "default",
            "digest": "d",
            "requests": 5,
            "max_tokens": 256,
            "ctx_size": 8192,
            "seed": 1,
            "thinking": "auto",
            "sampling": {"temperature": 0.0},
            "sampling_source": "default",
        },
    }
    records = [
        a_record(0, None, measured(40.0), reference=ENGINE_DEFAULT),
        a_record(1, CANDIDATE, measured(80.0)),
    ]
    document = best_document(records, facts, date=DATE)
    assert document is not None
    document["winner"] |= {"argv": [program, "-m", model, *words], "environment": dict(environment or {})}
    check_best(document)
    return document


def a_winner(
    words: Sequence[str] | None = None,
    *,
    serving: Serving | None = None,
    build: str = "11434",
    **changes: Any,  # noqa: ANN401 - as a_best has them
) -> Served:
    """The same, ready to be exported."""
    return served(a_best(words, **changes), serving or Serving(), lambda: help_of(build))


def settings(words: Sequence[str], build: str = "11434") -> dict[str, str | bool]:
    """What a command's words set, by canonical name."""
    return {
        str(flag.name): is_switched_on(flag) if flag.value is None else flag.value
        for flag in read_user_flags(help_of(build), words)
    }


def recorder(path: Path) -> Path:
    """A program that writes down its words and its environment, and lists two cards, as llama-server does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    listed = "".join(
        f"  {name}: {description} (16303 MiB, 15900 MiB free)\\n" for name, description, _ in DEVICES
    )
    path.write_text(
        "#!/bin/sh\n"
        f"if [ \"$1\" = --list-devices ]; then printf 'Available devices:\\n{listed}'; exit; fi\n"
        'printf "%s\\0" "$@" > "$RECORD.words"\n'
        'env -0 > "$RECORD.environment"\n',
        encoding="utf-8",
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def recorded(base: Path) -> tuple[list[str], dict[str, str]]:
    """The words and the environment that a recorder wrote down."""
    words = Path(f"{base}.words").read_text(encoding="utf-8").split("\0")[:-1]
    lines = Path(f"{base}.environment").read_text(encoding="utf-8").split("\0")[:-1]
    return words, dict(line.split("=", 1) for line in lines)


def run_script(
    shell: Path | str,
    script: Path,
    *words: str,
    cards: Sequence[str] = UUIDS,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """A script by a shell, in a bare environment, on a machine whose driver lists these cards."""
    tool = script.parent / f"cards-{'-'.join(cards)}" / "nvidia-smi"
    tool.parent.mkdir(exist_ok=True)
    lines = "".join(f"GPU {index}: NVIDIA (UUID: {uuid})\\n" for index, uuid in enumerate(cards))
    tool.write_text(f"#!/bin/sh\n[ \"$1\" = -L ] && printf '{lines}'\n", encoding="utf-8")
    tool.chmod(0o755)
    return subprocess.run(
        [shell, script, *words],
        env={"PATH": f"{tool.parent}:{os.environ['PATH']}", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
