"""Every number of docs/search.md comes from the data files beside it, and they keep what is promised."""

import pytest

from tests.support.played_rigs import RIGS
from tests.support.search_tables import (
    DOCS,
    NEVER,
    document,
    factors_table,
    main_table,
    share_of_tpe,
    strategies,
)

TEXT = (DOCS / "search.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_data() -> None:
    assert main_table() in TEXT
    assert factors_table() in TEXT
    assert f"medians over {document('search.json')['seeds']} seeds" in TEXT


def test_every_rig_is_in_the_table() -> None:
    assert {rig["rig"] for rig in document("search.json")["rigs"]} == {
        path.stem for path in RIGS.glob("*.toml")
    }


@pytest.mark.parametrize("name", ["search.json", "search-factors.json"])
def test_twenty_launches_come_near_the_best_on_every_rig(name: str) -> None:
    for rig in document(name)["rigs"]:
        found = strategies(rig)["tuner"]
        assert found["fraction"]["20"] >= 0.97, rig["rig"]
        assert (found["fraction"]["40"] or found["fraction"]["20"]) >= 0.99, rig["rig"]
        assert found["oom_in_first_20"] <= 2, rig["rig"]


def test_it_takes_at_most_half_of_the_launches_of_tpe_on_every_rig_and_a_third_in_the_median() -> None:
    for rig in document("search.json")["rigs"]:
        rows = strategies(rig)
        assert rows["tuner"]["launches_to_98"] <= (rows["tpe"]["launches_to_98"] or NEVER) / 2, rig["rig"]
    assert share_of_tpe() <= 1 / 3
    assert f"{share_of_tpe():.0%} of TPE's" in TEXT


def test_what_is_said_of_the_worst_is_so() -> None:
    rows = {rig["rig"]: strategies(rig)["tuner"] for rig in document("search.json")["rigs"]}
    least = min(rows, key=lambda name: rows[name]["fraction"]["20"])
    assert f"{rows[least]['fraction']['20']:.1%} after 20 launches, on {least}" in TEXT
    others = {rig["rig"]: rig["strategies"][0] for rig in document("search-factors.json")["rigs"]}
    least = min(others, key=lambda name: others[name]["fraction"]["20"])
    assert f"{others[least]['fraction']['20']:.1%} after 20 launches, on {least}" in TEXT


def test_the_readme_says_the_same() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    parts = [strategies(rig)["tuner"]["fraction"]["20"] for rig in document("search.json")["rigs"]]
    assert f"at {min(parts):.1%} or more of the true best after 20 launches" in readme
    goals = [strategies(rig)["tuner"]["launches_to_98"] for rig in document("search.json")["rigs"]]
    others = [strategies(rig)["tpe"]["launches_to_98"] or NEVER for rig in document("search.json")["rigs"]]
    assert f"it takes {min(goals):g} to {max(goals):g} launches, Optuna's TPE {min(others):g} to" in readme
    assert max(others) == NEVER
