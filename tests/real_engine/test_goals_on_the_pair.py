"""All slots at once, and a ladder of contexts, on the real engine and two real devices."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.rpc_pair import FAST_LIMIT_BYTES, RpcPair
from tuner.report.best import check_best
from tuner.study import StudyStore

pytestmark = [pytest.mark.server, pytest.mark.timeout(420)]

SPACE = """
schema_version = 1
[fixed]
gpu-layers = 999
flash-attn = "on"
kv-unified = true
split-mode = "layer"
[parameters.tensor-split]
kind = "split"
layer_steps = "layers"
[parameters.cache-type-k]
kind = "choice"
choices = ["f16", "q8_0"]
[parameters.cache-type-v]
kind = "choice"
choices = ["f16", "q8_0"]
[parameters.ubatch-size]
kind = "choice"
choices = [128, 512]
default = 128
[parameters.spec-type]
kind = "choice"
choices = ["none", "ngram-mod"]
[[rules]]
left = "cache-type-k"
op = "=="
right = "cache-type-v"
[[start]]
about = "with drafts out of the text"
tensor-split = [16, 15]
spec-type = "ngram-mod"
"""


#: At 8,192 tokens this takes more of the fast device than it has; at 2,048 it fits.
ON_THE_FAST_ONE = """
schema_version = 1
[fixed]
gpu-layers = 999
flash-attn = "on"
split-mode = "layer"
tensor-split = [24, 7]
[parameters.ubatch-size]
kind = "choice"
choices = [128, 256, 512]
default = 128
"""


def tune(folder: Path, model: Path, server: Path, pair: RpcPair, text: str, *options: str) -> str:
    """A whole run; what was said."""
    space = folder / "pair.toml"
    space.write_text(text, encoding="utf-8")
    argv = [
        *(sys.executable, "-m", "tuner", "tune", str(model), "--server", str(server), "--space", str(space)),
        *("--study", "pair", "--results", str(folder), "--prompts", "short", "--yes", "--quality", "off"),
        *("--facts", str(folder / "facts"), *options, "--", "--rpc", pair.endpoints),
    ]
    environment = {**os.environ, "TMPDIR": str(folder)}
    run = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_four_slots_are_added_up_and_what_drafts_nothing_is_among_the_confirmed(
    tmp_path: Path, llama_server_path: Path, smollm2_path: Path, rpc_pair: RpcPair
) -> None:
    said = tune(
        *(tmp_path, smollm2_path, llama_server_path, rpc_pair, SPACE),
        *("--objective", "throughput", "--parallel", "4", "--context", "4k"),
        *("--launches", "4", "--requests", "4", "--tokens", "16", "--confirm", "2", "--endure", "off"),
    )
    best: dict[str, Any] = json.loads((tmp_path / "pair" / "best.json").read_text(encoding="utf-8"))
    check_best(best)
    rates = best["winner"]["rates"]
    assert rates["aggregate_tok_s"] == best["winner"]["score_tok_s"] > 0
    assert rates["generation_tok_s"] > 0
    assert rates["ttft_s"] > 0
    assert best["workload"]["streams"] == 4
    assert "tok/s in all" in said
    records = StudyStore.open(tmp_path / "pair" / "study.db").records()
    confirmed = [
        one.candidate for one in records if one.errand.purpose == "confirm" and one.candidate is not None
    ]
    assert any(not candidate.drafts for candidate in confirmed)
    one = next(record for record in records if record.score is not None and record.result is not None)
    assert one.result is not None
    samples = sorted(one.result.samples, key=lambda sample: sample.began_s)
    assert len(samples) == 12
    assert (
        samples[3].began_s < samples[0].began_s + samples[0].wall_s
    )  # the fourth does not wait for the first


def test_a_ladder_finds_the_wall_of_a_small_device_with_one_loss_a_rung_at_most(
    tmp_path: Path, llama_server_path: Path, smollm2_path: Path, rpc_pair: RpcPair
) -> None:
    said = tune(
        *(tmp_path, smollm2_path, llama_server_path, rpc_pair, ON_THE_FAST_ONE),
        *("--context", "1k,2k,max", "--launches", "3", "--requests", "1", "--tokens", "16"),
        *("--confirm", "0", "--endure", "off", "--device-memory", f"RPC0={FAST_LIMIT_BYTES // 2**20}"),
    )
    document = json.loads((tmp_path / "pair" / "ladder.json").read_text(encoding="utf-8"))
    contexts = [rung["context"] for rung in document["rungs"]]
    assert contexts == sorted(contexts)
    assert contexts[:2] == [1024, 2048]
    assert document["rungs"][-1]["is_max"]
    assert 2048 < contexts[-1] < 8192
    assert all(rung["out_of_memory"] <= 1 for rung in document["rungs"])
    assert all(rung["score_tok_s"] is not None for rung in document["rungs"])
    assert (tmp_path / "pair" / "ladder.md").read_text(encoding="utf-8").strip() in said
