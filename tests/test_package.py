"""What is in the checkout is in the repository and in the package."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = {".py", ".toml", ".json", ".jsonl", ".txt", ".log"}


def test_no_source_file_is_ignored_by_git() -> None:
    """The same rules decide what the wheel holds: a folder named `build` was left out once."""
    folders = ["tuner", "search_spaces", "tests"]
    command = ["git", "ls-files", "--others", "--ignored", "--exclude-standard", "--", *folders]
    ignored = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert [name for name in ignored if Path(name).suffix in SOURCES] == []
