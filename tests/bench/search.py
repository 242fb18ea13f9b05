"""Compare strategies on played rigs: `python tests/bench/search.py --seeds 5 --launches 40`.

The score after n launches is the true rate of what would be exported then, over the true best of the
space. Every launch counts, the engine's default first; never reaching 98 % counts as 81
launches. Numbers are medians over seeds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import warnings
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this is run as a script, too

from tests.bench.search_run import MARKS, NEVER, Job, Run, played, search, summary
from tests.bench.strategies import STRATEGIES, missing

if TYPE_CHECKING:
    from collections.abc import Sequence

RIGS = Path(__file__).resolve().parents[1] / "rigs"


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    options = _parser().parse_args(argv)
    try:
        names, rigs, factors = _strategies(options.strategies), _rigs(options), _factors(options.factors)
        for name in [name for name in names if missing(name)]:
            print(missing(name), file=sys.stderr)
            names.remove(name)
        jobs = [
            Job(rig, factor, name, seed, options.launches)
            for rig in rigs
            for factor in factors
            for name in names
            for seed in range(options.seeds)
        ]
        document = report(run_all(jobs, options.jobs), options.seeds)
    except (ValueError, OSError) as error:
        print(f"search bench: {error}", file=sys.stderr)
        return 2
    print(json.dumps(document) if options.json else table(document))
    return 0


def run_all(jobs: Sequence[Job], processes: int = 1) -> list[Run]:
    """All searches, on so many processes; a rig's best is worked out once."""
    if processes == 1:
        return [search(job) for job in jobs]
    for rig, factor in dict.fromkeys((job.rig, job.factor) for job in jobs):
        played(rig, factor)  # once, before the processes are forked
    with warnings.catch_warnings():
        # NumPy has threads of its own, of which newer Pythons warn; they hold nothing that a search needs
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            return pool.map(search, jobs, chunksize=1)


def report(runs: Sequence[Run], seeds: int) -> dict[str, Any]:
    """The JSON document."""
    groups: dict[tuple[Path, float], dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        groups[run.job.rig, run.job.factor][run.job.strategy].append(run)
    rows = [
        {
            "rig": rig.stem if factor == 1 else f"{rig.stem} x{factor:g}",
            "best_tok_s": round(played(rig, factor)[2], 2),
            "strategies": [summary(of_strategy) for of_strategy in by_name.values()],
        }
        for (rig, factor), by_name in groups.items()
    ]
    return {"seeds": seeds, "rigs": rows}


def table(document: dict[str, Any]) -> str:
    """The document for people."""
    marks = "".join(f"{f'{mark} launches':>13}" for mark in MARKS)
    lines = [f"{'rig':<26}{'best tok/s':>11}  {'strategy':<9}{marks}{'to 98 %':>9}{'OOM in 20':>11}"]
    for rig in document["rigs"]:
        name, best = rig["rig"], f"{rig['best_tok_s']:.1f}"
        for one in rig["strategies"]:
            parts = (one["fraction"][str(mark)] for mark in MARKS)
            cells = "".join(f"{'-' if part is None else f'{part:.1%}':>13}" for part in parts)
            goal = one["launches_to_98"]
            goal_text = f">={NEVER}" if goal is None else f"{goal:g}"
            lines.append(
                f"{name:<26}{best:>11}  {one['name']:<9}{cells}{goal_text:>9}{one['oom_in_first_20']:>11g}"
            )
            name = best = ""
    return "\n".join(
        [*lines, f"medians over {document['seeds']} seeds; a search that never got there counts as {NEVER}"]
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rigs", type=Path, default=RIGS, metavar="DIR", help="folder of rig files")
    parser.add_argument("--launches", type=_count, default=80, metavar="N", help="launches of each search")
    parser.add_argument("--seeds", type=_count, default=5, metavar="K", help="searches of each kind")
    parser.add_argument(
        "--jobs",
        type=_count,
        default=os.cpu_count() or 1,
        metavar="J",
        help="processes; one a core by itself",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--only", metavar="RIG", help="one rig, by its file's name without .toml")
    parser.add_argument("--strategies", default=",".join(STRATEGIES), metavar="A,B")
    parser.add_argument(
        "--factors", default="1", metavar="X,Y", help="of reductions, overhead and noise; no strategy is told"
    )
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def _strategies(text: str) -> list[str]:
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in STRATEGIES:
            raise ValueError(f"no strategy {name!r}; there are {', '.join(STRATEGIES)}")
    return names


def _factors(text: str) -> list[float]:
    factors = [float(part) for part in text.split(",")]
    if any(factor <= 0 for factor in factors):
        raise ValueError(f"--factors {text}: must be above 0")
    return list(dict.fromkeys(factors))


def _rigs(options: argparse.Namespace) -> list[Path]:
    found = sorted(options.rigs.glob("*.toml"))
    if options.only is not None:
        names = ", ".join(path.stem for path in found)
        found = [path for path in found if path.stem == options.only]
        if not found:
            raise ValueError(f"{options.rigs}: no rig {options.only!r}; there are: {names or 'none'}")
    if not found:
        raise ValueError(f"{options.rigs}: no .toml file there; give a folder of rig files with --rigs")
    return found


if __name__ == "__main__":
    sys.exit(main())
