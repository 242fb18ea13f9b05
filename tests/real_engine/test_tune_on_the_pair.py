"""The main job on the real engine and two real devices: what the demo shows, asserted."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.support.rpc_pair import FAST_LIMIT_BYTES, RpcPair
from tuner.core.outcome import Kind, Stage
from tuner.core.trial import TrialRecord
from tuner.report.best import check_best
from tuner.study import StudyStore

pytestmark = [pytest.mark.server, pytest.mark.timeout(420)]

SPACE = """
schema_version = 1
[parameters.split-mode]
kind = "choice"
choices = ["layer", "tensor"]
[parameters.tensor-split]
kind = "split"
tensor_steps = 3
[parameters.cache-type-k]
kind = "choice"
choices = ["f16", "q8_0"]
[parameters.cache-type-v]
kind = "choice"
choices = ["f16", "q8_0"]
[[start]]
about = "f16"
split-mode = "layer"
tensor-split = [24, 7]
[[start]]
about = "q8_0"
split-mode = "layer"
tensor-split = [24, 7]
cache-type-k = "q8_0"
cache-type-v = "q8_0"
[[start]]
about = "tensor, too much for the fast device"
split-mode = "tensor"
tensor-split = [2, 1]
"""

Tune = Callable[..., list[str]]


@pytest.fixture
def tune(tmp_path: Path, llama_server_path: Path, smollm2_path: Path, rpc_pair: RpcPair) -> Tune:
    """The command for the pair, with everything of its own in the test's folder."""
    space = tmp_path / "pair.toml"
    space.write_text(SPACE, encoding="utf-8")

    def argv(*options: str) -> list[str]:
        return [
            *(sys.executable, "-m", "tuner", "tune", str(smollm2_path), "--server", str(llama_server_path)),
            *("--space", str(space), "--study", "pair", "--results", str(tmp_path), "--context", "8192"),
            # more than it has, so that it is launched what cannot fit
            *("--device-memory", "RPC0=300", "--prompts", "short", "--facts", str(tmp_path / "facts")),
            *("--requests", "2", "--tokens", "24", "--yes"),
            *("--confirm", "0", "--endure", "off", "--quality", "off", *options),
            *("--", "--rpc", rpc_pair.endpoints),
        ]

    return argv


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(tmp_path)}


def records(tmp_path: Path) -> list[TrialRecord]:
    return StudyStore.open(tmp_path / "pair" / "study.db").records()


def test_the_wall_is_found_and_the_devices_survive_it(tmp_path: Path, tune: Tune, rpc_pair: RpcPair) -> None:
    """f16 24,7 and tensor 2,1 run out of memory, q8_0 24,7 does not, and the RPC servers live on."""
    pids = rpc_pair.pids
    run = subprocess.run(
        tune("--launches", "4"), env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    reference, f16, q8_0, tensor = records(tmp_path)

    assert reference.reference == "engine-default"
    assert reference.score is not None
    assert f16.outcome is not None
    assert (f16.outcome.kind, f16.outcome.stage, f16.outcome.device, f16.outcome.inferred) == (
        Kind.OUT_OF_MEMORY,
        Stage.COMPUTE,
        "RPC0",
        False,
    )
    assert q8_0.outcome is not None
    assert q8_0.outcome.kind is Kind.NONE
    assert q8_0.score is not None
    assert q8_0.result is not None
    assert q8_0.result.buffers_mib["RPC0"] > q8_0.result.buffers_mib["RPC1"]
    assert tensor.outcome is not None
    assert tensor.outcome.kind is Kind.OUT_OF_MEMORY
    # the engine's assert can end it before its log thread has printed the allocator's line
    assert tensor.outcome.device == "RPC0" or tensor.outcome.inferred
    assert rpc_pair.pids == pids
    assert rpc_pair.restarts == 0

    best = json.loads((tmp_path / "pair" / "best.json").read_text(encoding="utf-8"))
    check_best(best)
    assert best["study"]["trials"] == {"total": 4, "measured": 2, "out-of-memory": 2}
    assert "24,7" in best["winner"]["argv"] or best["winner"]["reference"] == "engine-default"
    for trial in range(4):
        folder = tmp_path / "pair" / "trials" / str(trial)
        assert {file.name for file in folder.iterdir()} == {
            "launch.json",
            "process.json",
            "result.json",
            "server.log",
        }


def test_what_cannot_fit_is_not_launched_and_counted(tmp_path: Path, tune: Tune) -> None:
    """With the memory that RPC0 really has, f16 24,7 and tensor 2,1 are known not to fit beforehand."""
    stated = f"RPC0={FAST_LIMIT_BYTES // 2**20}"
    run = subprocess.run(
        tune("--launches", "2", "--device-memory", stated),
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    reference, q8_0 = records(tmp_path)
    assert reference.reference == "engine-default"
    assert q8_0.candidate is not None
    assert q8_0.candidate.get("cache-type-k") == "q8_0"
    assert q8_0.score is not None
    assert "not launched: layer · 24,7 · ub 512 · kv f16: it exceeds RPC0 by " in run.stdout
    assert "1 not launched: it exceeds RPC0 (127.0.0.1:" in run.stdout
    launch = json.loads((tmp_path / "pair" / "trials" / "1" / "launch.json").read_text(encoding="utf-8"))
    predicted, result = launch["memory_mib"]["devices"], q8_0.result
    assert result is not None
    for device in ("RPC0", "RPC1"):
        need = predicted[device]
        assert need["weights"] + need["kv"] + need["compute"] == pytest.approx(
            result.buffers_mib[device], rel=0.03
        )


def test_a_killed_tuner_resumes_and_ends_its_orphan(tmp_path: Path, tune: Tune) -> None:
    """After `kill -9` in a trial, the same command ends the orphan, goes on, and counts no trial twice."""
    argv, env = tune("--launches", "2"), environment(tmp_path)
    process_file = tmp_path / "pair" / "trials" / "0" / "process.json"
    with (tmp_path / "first.log").open("w", encoding="utf-8") as log:
        first = subprocess.Popen(argv, env=env, stdout=log, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 60
    while not process_file.exists():
        assert first.poll() is None, (tmp_path / "first.log").read_text(encoding="utf-8")
        assert time.monotonic() < deadline
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    orphan = json.loads(process_file.read_text(encoding="utf-8"))["pid"]

    second = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)

    assert second.returncode == 0, second.stdout + second.stderr
    assert not psutil.pid_exists(orphan)
    kinds = [(r.reference, None if r.outcome is None else r.outcome.kind) for r in records(tmp_path)]
    assert kinds == [
        ("engine-default", Kind.STOPPED),
        ("engine-default", Kind.NONE),
        (None, Kind.OUT_OF_MEMORY),
    ]
    check_best(json.loads((tmp_path / "pair" / "best.json").read_text(encoding="utf-8")))


def test_a_device_that_goes_away_is_rpc_lost(tmp_path: Path, tune: Tune, rpc_pair: RpcPair) -> None:
    """A killed RPC server is named as such, restarted by its supervisor, and the launch is made again."""
    argv, env = tune("--launches", "2"), environment(tmp_path)
    log = tmp_path / "pair" / "trials" / "0" / "server.log"
    restarts = rpc_pair.restarts
    run = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (log.exists() and b"listening on" in log.read_bytes()):
        assert run.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(rpc_pair.pids[0], signal.SIGKILL)
    run.wait(300)
    assert run.returncode in {0, 1}
    first = records(tmp_path)[0]
    assert first.outcome is not None
    assert first.outcome.kind is Kind.RPC_LOST
    assert records(tmp_path)[1].reference == "engine-default"
    assert rpc_pair.restarts == restarts + 1


def test_prompts_of_ones_own_leave_no_trace_in_the_engines_log_either(tmp_path: Path, tune: Tune) -> None:
    chats = [
        {"conversations": [{"from": "human", "value": f"{n}: what is heliotrope? Say heliotrope again."}]}
        for n in range(2)
    ]
    export = tmp_path / "chats.json"
    export.write_text(json.dumps(chats), encoding="utf-8")
    options = ("--prompts", str(export), "--quality", "1s", "--launches", "3")
    run = subprocess.run(
        tune(*options), env=environment(tmp_path), capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    files = [path for path in (tmp_path / "pair").rglob("*") if path.is_file()]
    assert {"server.log", "answers.json", "result.json", "study.db", "best.json"} <= {f.name for f in files}
    for file in files:
        assert b"heliotrope" not in file.read_bytes().lower(), file
