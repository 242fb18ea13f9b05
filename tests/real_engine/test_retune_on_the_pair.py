"""Tuned with one real engine, retuned with the next, each on a pair of real devices of its own build."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import engine_setup
from tests.support.rpc_pair import FAST_LIMIT_BYTES, RpcPair
from tuner.report.best import check_best
from tuner.study import StudyStore

pytestmark = [pytest.mark.server, pytest.mark.timeout(1200)]

#: Layers alone: by tensor a launch takes ten times as long on this pair.
SPACE = """
schema_version = 1
about = "Layers over a fast small and a slow large device."
[fixed]
gpu-layers = 999
flash-attn = "on"
load-mode = "none"
[parameters.split-mode]
kind = "choice"
choices = ["layer", "none"]
[parameters.device]
kind = "devices"
[parameters.tensor-split]
kind = "split"
layer_steps = "layers"
[parameters.cache-type-k]
kind = "choice"
choices = ["f16", "q8_0"]
[parameters.cache-type-v]
kind = "choice"
choices = ["f16", "q8_0"]
[[rules]]
left = "cache-type-k"
op = "=="
right = "cache-type-v"
[[start]]
about = "most on the fast device"
split-mode = "layer"
tensor-split = [24, 7]
[[start]]
about = "all on the slow one"
split-mode = "none"
device = ["RPC1"]
"""


@dataclass
class Pairs:
    """A study made with the older engine, and a pair of devices for each engine."""

    folder: Path
    old: RpcPair
    new: RpcPair

    @property
    def best(self) -> Path:
        return self.folder / "pair" / "best.json"

    def retune(self, *words: str, rpc: RpcPair, best: Path | None = None) -> subprocess.CompletedProcess[str]:
        where = ("--results", str(self.folder), "--facts", str(self.folder / "facts"), "--yes")
        argv = ["retune", str(best or self.best), *where, *words, "--", "--rpc", rpc.endpoints]
        return subprocess.run(
            [sys.executable, "-m", "tuner", *argv],
            env={**os.environ, "TMPDIR": str(self.folder), "COLUMNS": "160"},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def pairs(
    tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path, server_path: Callable[[int], Path]
) -> Iterator[Pairs]:
    folder = tmp_path_factory.mktemp("retune")
    (folder / "pair.toml").write_text(SPACE, encoding="utf-8")
    old_program = engine_setup.rpc_server(engine_setup.OLD_BUILD)
    with (
        # one thread each: four servers whose threads wait for each other would stand still on a busy machine
        RpcPair(folder / "old-pair", program=old_program, fast_threads=1, slow_threads=1) as old,
        RpcPair(
            folder / "new-pair", program=engine_setup.rpc_server(), fast_threads=1, slow_threads=1
        ) as new,
    ):
        old.supervise()
        new.supervise()
        made = Pairs(folder, old, new)
        tuned = subprocess.run(
            [
                *(sys.executable, "-m", "tuner", "tune", str(smollm2_path), "--yes", "--study", "pair"),
                *("--server", str(server_path(engine_setup.OLD_BUILD)), "--space", str(folder / "pair.toml")),
                *("--results", str(folder), "--facts", str(folder / "facts"), "--context", "2048"),
                *("--prompts", "short", "--requests", "2", "--tokens", "32", "--launches", "5"),
                *("--confirm", "8", "--quality", "2s", "--endure", "off"),
                *("--device-memory", f"RPC0={FAST_LIMIT_BYTES // 2**20}", "--", "--rpc", old.endpoints),
                *("-t", "1"),
            ],
            env={**os.environ, "TMPDIR": str(folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert tuned.returncode == 0, tuned.stdout + tuned.stderr
        yield made


def test_the_winner_keeps_its_claim_and_loses_one_that_was_raised_by_half(pairs: Pairs) -> None:
    fresh = pairs.retune("--check", rpc=pairs.old)
    assert fresh.returncode == 0, fresh.stdout + fresh.stderr
    held = pairs.retune("--check", "--measure", rpc=pairs.old)
    assert held.returncode == 0, held.stdout + held.stderr
    document: dict[str, Any] = json.loads(pairs.best.read_text(encoding="utf-8"))
    for row in document["references"]:
        row["winner_ratio"] *= 1.5
    for row in document["confirmation"]["references"]:
        row["ratio"] *= 1.5
        row["interval"] = [bound * 1.5 for bound in row["interval"]]
    raised = pairs.folder / "raised.json"
    raised.write_text(json.dumps(document), encoding="utf-8")
    refuted = pairs.retune("--check", "--measure", rpc=pairs.old, best=raised)
    assert refuted.returncode == 1, refuted.stdout + refuted.stderr
    assert "The claim does not hold" in refuted.stdout


def test_a_study_of_the_older_engine_is_retuned_for_the_newer_one(
    pairs: Pairs, server_path: Callable[[int], Path]
) -> None:
    before = pairs.best.read_bytes()
    server = str(server_path(engine_setup.NEW_BUILD))
    doubtful = pairs.retune("--check", "--server", server, rpc=pairs.new)
    assert doubtful.returncode == 1, doubtful.stdout + doubtful.stderr

    retuned = pairs.retune(
        *("--server", server, "--launches", "12", "--old-rpc", pairs.old.endpoints), rpc=pairs.new
    )

    assert retuned.returncode in {0, 1}, retuned.stdout + retuned.stderr
    assert pairs.best.read_bytes() == before
    (found,) = pairs.folder.glob("pair-*/retuned.json")
    document = json.loads(found.read_text(encoding="utf-8"))
    assert document["verdict"] in {"unchanged", "faster", "slower"}
    assert document["launches"] <= 12
    rows = {row["role"]: row for row in document["configurations"]}
    assert len(rows["best"]["now_tok_s"]) == len(rows["previous"]["now_tok_s"]) == 3
    change = rows["best"]["change"]
    low, high = change["interval"]
    assert low < change["ratio"] < high
    assert change["in_turns"]
    records = StudyStore.open(found.parent / "study.db").records()
    programs = {record.argv[0] for record in records}
    assert programs == {server, str(server_path(engine_setup.OLD_BUILD))}

    best = json.loads((found.parent / "best.json").read_text(encoding="utf-8"))
    check_best(best)
    assert best["engine"]["path"] == server
    assert best["study"]["retune"]["of"] == "pair"
    assert {row["name"] for row in best["confirmation"]["references"]} >= {"previous"}
    assert best["soak"]["outcome"] == "none"
    fresh = pairs.retune("--check", rpc=pairs.new, best=found.parent / "best.json")
    assert fresh.returncode == 0, fresh.stdout + fresh.stderr
