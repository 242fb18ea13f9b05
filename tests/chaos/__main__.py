"""`make chaos`: everything that can go wrong in a night, and whether the study survives it."""

import argparse
import secrets
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.chaos import Plan, wreak


def main() -> int:
    """Wreak, print, and fail on any violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(10_000), help="default: another each time"
    )
    parser.add_argument(
        "--launches",
        type=int,
        default=60,
        help="of servers that fail, at least; each fault is met in any case",
    )
    parser.add_argument("--kills", type=int, default=200, help="of the tuner")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="a new folder for all studies, kept for a look"
    )
    words = parser.parse_args()
    plan = Plan(words.seed, words.launches, words.kills)
    print(
        f"chaos: {plan.launches} launches at least, {plan.kills} kills; --seed {plan.seed} repeats it",
        flush=True,
    )
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        result = wreak(words.keep or Path(name), plan)
    print(*result.lines(), sep="\n")
    print(f"\nchaos: {time.monotonic() - started:.0f} s, {len(result.violations)} violations")
    for violation in result.violations:
        print(f"chaos: {violation}", file=sys.stderr)
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
