"""Two builds and two quantisations of a model in one study, on the real engines: one pair of devices a build."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import engine_setup
from tests.support.rpc_pair import RpcPair
from tuner.core.outcome import Kind
from tuner.core.quality import BOUND_NATS
from tuner.core.trial import Purpose, searched
from tuner.report.best import check_best
from tuner.study import StudyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from tuner.core.trial import TrialRecord

pytestmark = [pytest.mark.server, pytest.mark.timeout(900)]

SPACE = """
schema_version = 1
[parameters.split-mode]
kind = "choice"
choices = ["layer", "none"]
[parameters.tensor-split]
kind = "split"
[parameters.device]
kind = "devices"
[parameters.ubatch-size]
kind = "choice"
choices = [128, 512]
[[start]]
about = "most of it on the fast device"
split-mode = "layer"
tensor-split = [24, 7]
"""
LAUNCHES = 8
NAMES = ("new-SmolLM2.Q8_0", "old-SmolLM2.Q8_0", "new-SmolLM2.Q4_0", "old-SmolLM2.Q4_0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("several")


@pytest.fixture(scope="module")
def files(folder: Path, smollm2_path: Path) -> list[Path]:
    """Two quantisations, by the engine's own tool."""
    made = []
    for kind in ("Q4_0", "Q8_0"):
        path = folder / f"SmolLM2.{kind}.gguf"
        tool = engine_setup.llama_quantize()
        subprocess.run(
            [tool, "--allow-requantize", smollm2_path, path, kind],
            check=True,
            capture_output=True,
            timeout=300,
        )
        made.append(path)
    return made


@pytest.fixture(scope="module")
def servers(folder: Path, server_path: Callable[[int], Path]) -> Iterator[Mapping[str, str]]:
    """What `--server` says of each build: a path by its name, and the pair that speaks its protocol."""
    builds = {"new": engine_setup.NEW_BUILD, "old": engine_setup.OLD_BUILD}
    said = {}
    pairs = {
        # one thread each: four servers whose threads wait for each other would stand still on a busy machine
        name: RpcPair(
            folder / f"pair-{name}",
            program=engine_setup.rpc_server(build),
            fast_threads=1,
            slow_threads=1,
        )
        for name, build in builds.items()
    }
    with pairs["new"] as new, pairs["old"] as old:
        for name, pair in (("new", new), ("old", old)):
            pair.supervise()
            link = folder / name
            link.symlink_to(server_path(builds[name]).parent)
            said[name] = f"{link}/llama-server --rpc {pair.endpoints} -t 1"
        yield said


@pytest.fixture(scope="module")
def said(folder: Path, files: list[Path], servers: Mapping[str, str]) -> str:
    space = folder / "pair.toml"
    space.write_text(SPACE, encoding="utf-8")
    given = [word for text in servers.values() for word in ("--server", text)]
    run = subprocess.run(
        [
            *(sys.executable, "-m", "tuner", "tune", *map(str, files), *given),
            *("--space", str(space), "--study", "both", "--results", str(folder), "--context", "2048"),
            *("--device-memory", "RPC0=210", "--prompts", "short", "--requests", "2", "--tokens", "16"),
            *("--facts", str(folder / "facts"), "--launches", str(LAUNCHES), "--confirm", "2"),
            *("--quality", "2s", "--endure", "off", "--yes"),
        ],
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.fixture
def table(said: str, folder: Path) -> dict[str, Any]:
    assert said
    document: dict[str, Any] = json.loads((folder / "both" / "table.json").read_text(encoding="utf-8"))
    return document


def records(folder: Path, name: str) -> list[TrialRecord]:
    return StudyStore.open(folder / "both" / name / "study.db").records()


def test_each_build_measures_each_file_with_its_own_devices(table: dict[str, Any], folder: Path) -> None:
    assert {row["name"] for row in table["rows"]} == set(NAMES)
    assert len({engine["digest"] for engine in table["engines"]}) == 2
    assert sum(len(searched(records(folder, name))) for name in NAMES) == LAUNCHES
    by_name = {engine["name"]: engine for engine in table["engines"]}
    for row in table["rows"]:
        engine = by_name[row["engine"]]
        assert row["score_tok_s"] > 0
        assert row["classes_tok_s"]
        assert engine["path"] in row["command"]
        assert engine["flags"][1] in row["command"]
        kinds = {one.outcome.kind for one in records(folder, row["name"]) if one.outcome is not None}
        assert kinds <= {Kind.NONE, Kind.PRUNED, Kind.OUT_OF_MEMORY}, kinds


def test_the_largest_context_was_launched(table: dict[str, Any], folder: Path) -> None:
    for row in table["rows"]:
        if row["out"] is not None:
            continue
        stretched = [one for one in records(folder, row["name"]) if one.errand.purpose is Purpose.STRETCH]
        if row["reference"] is None:
            assert stretched
        if any(one.may_win for one in stretched):
            assert row["context_tokens"] > 2048
            assert row["context_tok_s"] > 0


def test_the_smaller_file_answers_worse_and_the_builds_alike(table: dict[str, Any]) -> None:
    rows = {row["name"]: row for row in table["rows"]}
    assert rows["new-SmolLM2.Q8_0"]["is_reference"]
    small = [rows[name]["loss"]["kl_nats"] for name in NAMES[2:]]
    assert all(nats > BOUND_NATS for nats in small), small
    assert small[0] == pytest.approx(small[1], rel=0.3)
    assert rows["old-SmolLM2.Q8_0"]["loss"]["kl_nats"] < BOUND_NATS


def test_winners_are_compared_side_by_side_and_the_winner_of_all_is_exported(
    table: dict[str, Any], folder: Path, said: str
) -> None:
    left = [row for row in table["rows"] if row["out"] is None]
    winner = next(row for row in left if row["is_winner"])
    assert winner["is_worth_having"]
    for row in left:
        if row is not winner:
            assert row["ratio"]["interval"][0] <= row["ratio"]["ratio"] <= row["ratio"]["interval"][1]
    best = json.loads((folder / "both" / "best.json").read_text(encoding="utf-8"))
    check_best(best)
    assert best["study"]["name"] == winner["name"]
    assert best["winner"]["command"] == winner["command"]
    assert (folder / "both" / "table.md").read_text(encoding="utf-8").strip() in said
