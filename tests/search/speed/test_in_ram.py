"""Where a model that does not fit can lie, on played rigs of mixtures of experts."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import pytest

from tests.bench.strategies import TunerSearch
from tests.bench.task import Task, task_of
from tests.support.played_rigs import simulated
from tuner.core.memory.predict import Predictor
from tuner.search.coordinates import complete
from tuner.search.in_ram_starts import starts_in_ram
from tuner.search.memory_gate import MemoryGate
from tuner.search.speed.in_ram import RamSites
from tuner.search.speed.pool import Pool

if TYPE_CHECKING:
    from tuner.core.options import Value

RIGS = ("rtx5060ti-4060ti-moe", "rtx3090-5060ti-120b")


@lru_cache
def gate_of(name: str) -> tuple[Task, MemoryGate]:
    task = task_of(simulated(name))
    predictor = Predictor(task.bound.splits, task.devices)
    host = task.host_room_mib
    return task, MemoryGate(predictor, task.devices, reserve_mib={}, source="played", host_room_mib=host)


@lru_cache
def pool_of(name: str) -> Pool:
    task, gate = gate_of(name)
    return Pool(task.bound, ram=RamSites(task.bound, gate.predictor, gate.room_mib, gate.host_room_mib))


@pytest.mark.parametrize("name", RIGS)
def test_every_site_fits_with_something_and_none_has_far_more_in_ram_than_it_must(name: str) -> None:
    task, gate = gate_of(name)
    pool = pool_of(name)
    lean: dict[str, Value] = {
        "cache-type-k": "q8_0",
        "cache-type-v": "q8_0",
        "ubatch-size": 512,
        "spec-type": "none",
    }
    counts = []
    for place, (site, _) in enumerate(pool.entries):
        candidate = complete(task.bound, {**pool.options(place), **lean})
        assert gate.chance_to_fit(candidate) > 0.5, candidate.summary()
        if len(site.devices) > 1:
            counts.append(len(site.in_ram))
    assert max(counts) <= 1.6 * min(counts)


@pytest.mark.parametrize("name", RIGS)
def test_the_best_that_there_is_is_among_them(name: str) -> None:
    task, _ = gate_of(name)
    pool = pool_of(name)
    best, _ = simulated(name).best(task.bound)
    held = task.bound.splits.host_parts.in_ram(best.options)
    assert any(
        (site.devices, site.split, site.in_ram) == (best.devices, best.split, held)
        for site, _ in pool.entries
    )


@pytest.mark.parametrize("name", RIGS)
def test_candidates_read_as_the_entries_that_they_were_made_of(name: str) -> None:
    task, _ = gate_of(name)
    pool = pool_of(name)
    places = range(0, len(pool.entries), 17)
    rows = pool.rows_of([complete(task.bound, pool.options(place)) for place in places])
    assert rows.host_bytes.tolist() == pool.rows.host_bytes[list(places)].tolist()
    assert rows.read_bytes.tolist() == pool.rows.read_bytes[list(places)].tolist()
    assert (rows.host_bytes > 0).all()


@pytest.mark.parametrize("name", RIGS)
def test_it_begins_with_the_fewest_layers_in_ram_and_ends_with_all(name: str) -> None:
    task, gate = gate_of(name)
    rig = simulated(name)
    proposal: dict[str, Value] = {"split-mode": "layer", "tensor-split": (1, 1), "n-cpu-moe": 30}
    (few, fewest), (engines, proposed), (every, most) = starts_in_ram(task.bound, gate, proposal)
    assert few.startswith("the fewest layers in RAM: ")
    assert "llama-fit-params" in engines
    assert proposed.get("n-cpu-moe") == 30
    assert every == "the experts of all layers in RAM"
    assert most.get("cpu-moe") is True
    slow, fast = rig.true_rate(most), rig.true_rate(fewest)
    assert slow is not None
    assert fast is not None
    assert fast > 1.5 * slow


def test_the_first_proposal_beats_the_engines_own_fit() -> None:
    rig = simulated(RIGS[0])
    default = rig.true_rate(rig.engine_default())
    found = TunerSearch(task_of(rig), seed=1).propose(())
    assert found is not None
    rate = rig.true_rate(found)
    assert rate is not None
    assert default is not None
    assert rate > 1.05 * default
