"""Tuning needs Linux; reading a study does not."""

import subprocess
import sys
from pathlib import Path

# a system without Linux's modules, as far as imports can tell
ELSEWHERE = """
import sys
for name in ("fcntl", "resource"):
    sys.modules[name] = None
import tuner.cli.app
sys.platform = "win32"
sys.argv = ["tuner", *sys.argv[1:]]
tuner.cli.app.main()
"""


def elsewhere(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", ELSEWHERE, *words]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)


def test_tune_says_that_it_needs_linux(tmp_path: Path) -> None:
    run = elsewhere("tune", "model.gguf", cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.splitlines() == [
        "error: tuner tune runs on Linux and WSL2; here, commands that only read files work"
    ]


def test_show_reads_studies_anywhere(tmp_path: Path) -> None:
    run = elsewhere("show", "nothing", cwd=tmp_path)
    assert run.returncode == 2
    assert run.stderr.splitlines() == ["error: nothing: no study there; results holds no study"]
