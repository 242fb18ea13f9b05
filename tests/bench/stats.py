"""Coverage and power of the confirmation, played: `python tests/bench/stats.py --runs 20000`.

Each scenario is a confirmation with known rates, played many times with the functions of the tuner, its stopping rule
included. An interval that is valid covers the true ratio in at least 95 % of runs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this is run as a script, too

from tests.support.confirmation_runs import Scenario, Summary, simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

SCENARIOS = (
    Scenario("naive: 2 equal leaders", (1, 1), naive=True),
    Scenario("2 equal leaders", (1, 1)),
    Scenario("2 equal leaders, 16 blocks", (1, 1), blocks=16),
    Scenario("3 equal leaders, 1 equal reference", (1, 1, 1), (1,)),
    Scenario("  the same, 5 % drift", (1, 1, 1), (1,), drift=0.05),
    Scenario("  the same, 5 % noise", (1, 1, 1), (1,), noise=0.05),
    Scenario("  the same, time runs out", (1, 1, 1), (1,), timed=True),
    Scenario("2 leaders, one 3 % ahead", (1, 0.97)),
    Scenario("3 leaders, one 3 % ahead", (1, 0.97, 0.97)),
    Scenario("2 equal leaders, references 10 % behind", (1, 1), (0.9, 0.9)),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    options = _parser().parse_args(argv)
    jobs = [(scenario, options.runs, options.seed) for scenario in SCENARIOS]
    if options.jobs == 1:
        found = [simulate(*job) for job in jobs]
    else:
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            found = pool.starmap(simulate, jobs, chunksize=1)
    document = report(found, options.seed)
    print(json.dumps(document) if options.json else table(document))
    return 0


def report(found: Sequence[Summary], seed: int) -> dict[str, Any]:
    """The JSON document."""
    rows = [
        {
            "name": scenario.name.strip(),
            "indent": len(scenario.name) - len(scenario.name.strip()),
            "max_blocks": scenario.blocks,
            **asdict(summary),
        }
        for scenario, summary in zip(SCENARIOS, found, strict=True)
    ]
    return {"runs": found[0].runs, "seed": seed, "scenarios": rows}


def table(document: dict[str, Any]) -> str:
    """The document for people."""
    heads = ("runner-up", "reference", "all", "one", "runner-up", "all", "blocks", "launches", "early")
    keys = ("covers_runner_up", "covers_reference", "covers_all", "finds", "finds_runner_up", "finds_all")
    lines = [
        f"{'':<40}{'covers':>11}{'finds':>33}",
        f"{'scenario':<40}" + "".join(f"{head:>11}" for head in heads),
    ]
    for row in document["scenarios"]:
        shares = [_percent(row[key]) for key in keys]
        used = f"{row['blocks']:.1f} of {row['max_blocks']}"
        cells = [*shares, used, f"{row['launches']:.1f}", _percent(row["early"])]
        lines.append(f"{' ' * row['indent'] + row['name']:<40}" + "".join(f"{cell:>11}" for cell in cells))
    return "\n".join(
        [
            *lines,
            "covers: how often the winner's interval against the runner-up, the first reference, all others at",
            "once, covers the true ratio; finds: how often the true best wins and its interval against one other",
            "leader, the runner-up, all other leaders at once, excludes 1; blocks, launches: means;",
            "early: how often it stopped before the blocks or the time ran out",
            f"{document['runs']} runs each, seed {document['seed']}; a launch's noise is 1 % where not said",
        ]
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=_count, default=20_000, metavar="N", help="confirmations a scenario")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the noise")
    parser.add_argument(
        "--jobs",
        type=_count,
        default=os.cpu_count() or 1,
        metavar="J",
        help="processes; one a core by itself",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


if __name__ == "__main__":
    sys.exit(main())
