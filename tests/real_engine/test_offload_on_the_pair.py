"""A mixture of experts that does not fit on two real devices: every candidate fits, and the winner beats both what
the engine does by itself and `--cpu-moe`.

The fast device computes with two threads, the slow one and the host with one each. `--cpu-moe` deals the layers out
evenly and `-fit` fills the last device first: both leave the output matrix to the slow one.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from gguf import GGMLQuantizationType

from tests.support.rpc_pair import RpcPair
from tests.support.shape_gguf import Shape, write_shape
from tuner.core.outcome import Kind
from tuner.report.best import check_best
from tuner.study import StudyStore

pytestmark = [pytest.mark.server, pytest.mark.timeout(420)]

#: Six layers with 19 MiB of experts each, of which a token reads a sixteenth, and a vocabulary of 151,936 as Qwen3's
#: mixtures have them: the output matrix is most of what a token costs. All weights are zeros.
MOE = Shape(
    "qwen3moe", n_layers=6, n_embd=1024, n_ff=768, n_head=16, n_head_kv=4, head_dim=128, n_vocab=151_936, n_mtp=0,
    n_ctx_train=32_768, n_experts=32, n_experts_used=2, weight=GGMLQuantizationType.IQ2_XXS,
)  # fmt: skip
#: What may be used of the devices, MiB: the first has room for all but the experts of most layers, the second for
#: little more than the output matrix.
ROOM = (120, 70)
PLAIN = """
schema_version = 1
[fixed]
gpu-layers = 999
flash-attn = "on"
[parameters.split-mode]
kind = "choice"
choices = ["layer", "none"]
[parameters.device]
kind = "devices"
orders = true
subsets = true
[parameters.tensor-split]
kind = "split"
[parameters.override-tensor]
kind = "in-ram"
"""


def test_what_has_to_lie_in_ram_does_and_the_winner_beats_both_references(
    tmp_path: Path, llama_server_path: Path, smollm2_path: Path
) -> None:
    """The engine is told the same room (`--fit-target`); its margin is what the machine has beyond it."""
    model = write_shape(tmp_path / "moe.gguf", smollm2_path, MOE)
    space = tmp_path / "plain.toml"
    space.write_text(PLAIN, encoding="utf-8")
    total_mib = psutil.virtual_memory().total // 2**20
    targets = ",".join(str(total_mib - room) for room in ROOM)
    patient = {"OMP_WAIT_POLICY": "passive"}  # who waits for another device leaves the cores to it
    with RpcPair(tmp_path, fast_limit_bytes=None, fast_threads=2, slow_threads=1, env=patient) as pair:
        argv = [
            *(sys.executable, "-m", "tuner", "tune", str(model), "--server", str(llama_server_path)),
            *("--space", str(space), "--study", "moe", "--results", str(tmp_path), "--context", "1024"),
            *("--device-memory", f"RPC0={ROOM[0]},RPC1={ROOM[1]}", "--reserve", "0=0,1=0"),
            *("--current", "llama-server --cpu-moe -c 1024", "--prompts", "short", "--requests", "2"),
            *("--tokens", "32", "--launches", "9", "--confirm", "8", "--quality", "off", "--endure", "off"),
            *("--facts", str(tmp_path / "facts"), "--yes", "--", "--rpc", pair.endpoints),
            *("--fit-target", targets, "--threads", "1"),
        ]
        run = subprocess.run(
            argv,
            env={**os.environ, **patient, "TMPDIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.returncode == 0, run.stdout + run.stderr
    best = json.loads((tmp_path / "moe" / "best.json").read_text(encoding="utf-8"))
    check_best(best)
    assert best["winner"]["reference"] is None, "no candidate is the winner"
    names = {"engine-default", "current"}
    compared = {row["name"]: row for row in best["confirmation"]["references"]}
    assert set(compared) == names
    for row in compared.values():
        assert row["interval"][0] > 1, row["sentence"]
    records = StudyStore.open(tmp_path / "moe" / "study.db").records()
    assert "the experts of all layers in RAM" in run.stdout
    tried = [record for record in records if record.candidate is not None]
    assert len(tried) >= 5
    for record in tried:
        assert record.outcome is not None
        assert record.outcome.kind in {Kind.NONE, Kind.PRUNED}, record.outcome
        options = record.candidate.options if record.candidate is not None else {}
        assert {"cpu-moe", "n-cpu-moe", "override-tensor"} & set(options)
        for name, room in zip(("RPC0", "RPC1"), ROOM, strict=True):
            held = {} if record.result is None else record.result.buffers_mib
            assert held.get(name, 0.0) <= room
