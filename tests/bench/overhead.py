"""`make bench-overhead`: what the tuner itself costs a trial, in seconds, and its resident memory.

Runs `tuner tune` with the default search space on a stand-in engine that loads and answers at once, so that
what is left is ours: proposing, journalling, recording, publishing. A trial's own share is the wall time from
one launch to the next, less what the launch spent on loading, requests and shutdown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.fake_engine import FakeEngine
from tests.support.gguf_files import write_gguf

LIMIT_S = 0.3
LIMIT_MIB = 300


def main() -> int:
    """Measure, print, and fail where a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=60)
    launches = parser.parse_args().launches
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        engine = FakeEngine(folder, time_scale=1.0).always(load_s=0.0, tok_s=400.0, prompt_tok_s=50_000.0)
        model = write_gguf(folder / "bench.gguf")
        argv = [sys.executable, "-m", "tuner", "tune", str(model), "--server", str(engine.path)]
        argv += ["--launches", str(launches), "--requests", "2", "--tokens", "8", "--prompts", "short"]
        argv += ["--results", name, "--study", "bench", "--facts", name, "--yes"]
        argv += ["--confirm", "0", "--endure", "off", "--quality", "off"]
        environment = {**engine.environment(), "TMPDIR": name}
        process = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            print(f"bench-overhead: the run ended with {process.returncode}")
            return 1
        shares = own_shares_s(folder / "bench" / "trials")
    median_s, worst_s = statistics.median(shares), max(shares)
    resident_mib = usage.ru_maxrss / 1024
    print(f"trials: {len(shares)} of {launches} launches (the last has no next one)")
    print(f"own share of a trial: median {median_s:.3f} s, largest {worst_s:.3f} s (limit {LIMIT_S} s)")
    print(f"resident memory: {resident_mib:.0f} MiB at most (limit {LIMIT_MIB} MiB)")
    return 0 if median_s < LIMIT_S and resident_mib < LIMIT_MIB else 1


def own_shares_s(trials: Path) -> list[float]:
    """Seconds of each trial that were neither loading, nor requests, nor shutdown."""
    folders = sorted(trials.iterdir(), key=lambda folder: int(folder.name))
    began = [(folder / "launch.json").stat().st_mtime for folder in folders]
    results = [json.loads((folder / "result.json").read_text(encoding="utf-8")) for folder in folders]
    return [
        end - start - result["load_s"] - result["requests_s"] - result["shutdown_s"]
        for start, end, result in zip(began[:-1], began[1:], results[:-1], strict=True)
    ]


if __name__ == "__main__":
    sys.exit(main())
