"""`make demo`: the main job on this machine, on two CPU devices made unequal.

Starts two RPC servers of the engine (the fast one limited to 210 MiB), runs `tuner tune` on them for at most
five minutes, and ends both. Results of an earlier demo are replaced.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.support import engine_setup
from tests.support.rpc_pair import FAST_LIMIT_BYTES, RpcPair
from tuner.errors import RigError
from tuner.rig.lock import RigLock

ROOT = Path(__file__).parent.parent
STUDY = ROOT / "results" / "demo"
BUDGET = "4m30s"


def demo_argv(rpc: str, *, study: str = "demo", budget: str = BUDGET) -> list[str]:
    """The command that a user would type for this pair."""
    return [
        str(ROOT / ".venv" / "bin" / "tuner"),
        "tune",
        str(engine_setup.model_path()),
        *("--server", str(engine_setup.llama_server())),
        *("--space", "demo", "--study", study, "--results", str(ROOT / "results")),
        *("--context", "8192", "--prompts", "short", "--tokens", "64", "--requests", "3"),
        *("--device-memory", f"RPC0={FAST_LIMIT_BYTES // 2**20}"),
        *("--facts", str(ROOT / "results" / "demo-facts"), "--budget", budget, "--quality", "2s", "--yes"),
        *("--", "--rpc", rpc),
    ]


def main() -> int:
    """Run the demo; returns the tuner's exit code."""
    with RigLock((str(STUDY.resolve()),), what="study"):  # never from under a demo that still runs
        shutil.rmtree(STUDY, ignore_errors=True)
        STUDY.mkdir(parents=True)
    with RpcPair(STUDY / "rpc") as pair:
        pair.supervise()
        print(f"demo: two RPC servers run as devices RPC0 (fast, small) and RPC1 (slow), pids {pair.pids}")
        argv = ["setpriv", "--pdeathsig", "TERM", "--", *demo_argv(pair.endpoints)]
        code = subprocess.run(argv, cwd=ROOT, check=False).returncode
        if pair.restarts:
            print(f"demo: an RPC server died {pair.restarts} times and was started again")
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RigError as error:
        sys.exit(f"demo: {error}")
