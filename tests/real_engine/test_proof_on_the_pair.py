"""The proof of a winner on the real engine and two real devices: intervals, answers, soak."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.rpc_pair import RpcPair
from tuner.core.trial import TrialRecord
from tuner.report.best import check_best
from tuner.study import StudyStore

pytestmark = [pytest.mark.server, pytest.mark.timeout(420)]

ONE_SPLIT = """
schema_version = 1
[fixed]
gpu-layers = 999
flash-attn = "on"
[parameters.split-mode]
kind = "choice"
choices = ["layer", "tensor"]
[parameters.tensor-split]
kind = "split"
tensor_steps = 2
[parameters.cache-type-k]
kind = "choice"
choices = ["f16", "q8_0", "q4_0"]
[parameters.cache-type-v]
kind = "choice"
choices = ["f16", "q8_0"]
[[start]]
about = "layers, half of them, and 4 bits for the keys"
split-mode = "layer"
tensor-split = [16, 15]
cache-type-k = "q4_0"
[[start]]
about = "the same by tensor"
split-mode = "tensor"
tensor-split = [1, 1]
[[start]]
about = "the same with 8 bits"
split-mode = "layer"
tensor-split = [16, 15]
cache-type-k = "q8_0"
cache-type-v = "q8_0"
"""


def tune(
    folder: Path, model: Path, server: Path, pair: RpcPair, *options: str
) -> tuple[dict[str, Any], list[TrialRecord], str]:
    """A whole run; best.json, the trials and what was said."""
    space = folder / "pair.toml"
    space.write_text(ONE_SPLIT, encoding="utf-8")
    argv = [
        *(sys.executable, "-m", "tuner", "tune", str(model), "--server", str(server), "--space", str(space)),
        *("--study", "pair", "--results", str(folder), "--context", "2048", "--prompts", "short", "--yes"),
        *("--facts", str(folder / "facts"), *options, "--", "--rpc", pair.endpoints),
    ]
    environment = {**os.environ, "TMPDIR": str(folder)}
    run = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    best: dict[str, Any] = json.loads((folder / "pair" / "best.json").read_text(encoding="utf-8"))
    check_best(best)
    return best, StudyStore.open(folder / "pair" / "study.db").records(), run.stdout


def test_keys_of_4_bits_are_caught_and_another_split_mode_is_not(
    tmp_path: Path, llama_server_path: Path, smollm2_path: Path, rpc_pair: RpcPair
) -> None:
    """The reference's split over the devices is none of the candidates': layers alone change nothing."""
    best, (reference, keys, tensor, q8_0), _ = tune(
        *(tmp_path, smollm2_path, llama_server_path, rpc_pair),
        *("--launches", "4", "--requests", "2", "--tokens", "8", "--min-kv", "q4_0"),
        *("--quality", "12s", "--confirm", "0", "--endure", "off"),
    )
    assert reference.result is not None
    assert reference.result.quality is not None
    for one, least, most in ((keys, 0.01, 0.1), (tensor, 1e-6, 0.01), (q8_0, 1e-4, 0.01)):
        assert one.result is not None
        quality = one.result.quality
        assert quality is not None
        assert quality.loss is not None
        assert quality.loss.positions >= 12
        assert least < quality.loss.judged_nats < most
    assert keys.outcome is not None
    assert keys.outcome.kind == "degraded"
    assert tensor.may_win
    assert q8_0.may_win
    rows = {(row["split_mode"], row["cache_type_k"]): row for row in best["quality"]}
    assert rows["layer", "q4_0"]["degraded"] == 1
    assert rows["tensor", "f16"]["kl_nats"] < 0.01


def test_a_winner_is_confirmed_against_both_references_and_soaked(
    tmp_path: Path, llama_server_path: Path, smollm2_path: Path, rpc_pair: RpcPair
) -> None:
    current = f"{llama_server_path} -m {smollm2_path} -ngl 99 -sm layer -ts 1,1 -c 2048 -np 1"
    best, records, said = tune(
        *(tmp_path, smollm2_path, llama_server_path, rpc_pair),
        *("--launches", "5", "--requests", "2", "--tokens", "16", "--current", current),
        *("--quality", "2s", "--confirm", "3", "--endure", "1s", "--devices", "RPC0,RPC1"),
    )
    confirmation = best["confirmation"]
    assert confirmation["finished"]
    compared = {row["name"]: row for row in confirmation["references"]}
    names = {"engine-default", "current"} - {best["winner"]["reference"]}
    assert set(compared) == names
    for row in compared.values():
        low, high = row["interval"]
        assert low <= row["ratio"] <= high
        assert row["launches_a_side"] >= 2
    confirmed = [record for record in records if record.errand.purpose == "confirm"]
    assert confirmation["launches"] == len(confirmed)
    assert best["soak"]["outcome"] == "none"
    assert 1500 < best["soak"]["longest_prompt_tokens"] < 2048
    assert best["soak"]["buffers_mib"]
    assert best["endurance"]["requests"] > 0
    assert "launches a side" in said
    assert best["winner"]["quality"]["loss"]["positions"] > 0
