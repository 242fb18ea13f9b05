"""All configurations that the speed model tells apart."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings

from tests.bench.task import task_of
from tests.support.models import splits_of
from tests.support.played_rigs import simulated, small
from tests.support.strategies import bound_spaces
from tuner.core.space import Choice, SearchSpace, Split, broken_rule
from tuner.core.space_document import parse_space
from tuner.search.coordinates import BoundSpace, complete, coordinates
from tuner.search.speed.pool import Pool

if TYPE_CHECKING:
    from tuner.core.options import Value
    from tuner.search.speed.model import Rows

SPACES = Path(__file__).parents[3] / "search_spaces"
PAIR = task_of(simulated("rtx5080-3090")).bound
PLAIN = task_of(simulated("rtx4070s-3060-8b")).bound


def of_space(name: str, devices: tuple[str, ...] = ("CUDA0", "CUDA1")) -> BoundSpace:
    document = tomllib.loads((SPACES / f"{name}.toml").read_text(encoding="utf-8"))
    return BoundSpace(parse_space(name, document), devices, splits_of(12), {"ctx-size": 8192})


BOUNDS = {
    "dual-gpu of a pair": task_of(small()).bound,
    "without MTP layers": PLAIN,
    **{name: of_space(name) for name in ("quick", "long-context", "demo", "session")},
    "quick of three": of_space("quick", ("CUDA0", "CUDA1", "CUDA2")),
}
EVERY = pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS)


def columns(rows: Rows) -> np.ndarray:
    return np.column_stack(
        (rows.tensor, rows.read_bytes, rows.boundaries, rows.depth, rows.quantised, rows.internal, rows.ngram)
    )


def two_way(**fixed: Value) -> BoundSpace:
    """A space that varies the split mode alone."""
    options = {name.replace("_", "-"): value for name, value in fixed.items()}
    space = SearchSpace("s", "", options, (Choice("split-mode", ("layer", "tensor"), "layer"),))
    return BoundSpace(space, ("CUDA0", "CUDA1"), splits_of(12), {})


@EVERY
def test_no_entry_is_there_twice(bound: BoundSpace) -> None:
    pool = Pool(bound)
    assert len(pool.entries) == len(set(pool.entries)) == len(pool.rows) > 0


@EVERY
def test_an_entry_completes_to_a_candidate_of_the_space_at_its_site(bound: BoundSpace) -> None:
    pool = Pool(bound)
    keys = set()
    for place, (site, variant) in enumerate(pool.entries):
        candidate = complete(bound, pool.options(place))
        assert (candidate.get("split-mode"), candidate.devices) == (site.mode, site.devices)
        assert candidate.split == site.split
        assert candidate.draft_depth == variant.depth
        assert broken_rule(bound.space, candidate.options) is None
        keys.add(candidate.key())
    assert len(keys) == len(pool.entries)


@EVERY
def test_an_entry_takes_values_that_the_space_has(bound: BoundSpace) -> None:
    pool = Pool(bound)
    for place in range(0, len(pool.entries), 7):
        candidate = complete(bound, pool.options(place))
        varied = {one.name: one for one in bound.space.parameters}
        for name, value in candidate.items:
            parameter = varied.get(name)
            if isinstance(parameter, Choice):
                assert value in parameter.choices
            elif parameter is None and name in bound.space.fixed and name not in bound.imposed:
                assert value == bound.space.fixed[name]
        coordinates(bound, candidate)


@EVERY
def test_vectors_of_a_candidate_are_those_of_its_entry(bound: BoundSpace) -> None:
    pool = Pool(bound)
    found = pool.rows_of([complete(bound, pool.options(place)) for place in range(len(pool.entries))])
    assert columns(found) == pytest.approx(columns(pool.rows))


@settings(max_examples=6, deadline=None)
@given(bound_spaces())
def test_any_space_has_a_pool_of_its_candidates(bound: BoundSpace) -> None:
    pool = Pool(bound)
    places = range(0, len(pool.entries), max(len(pool.entries) // 40, 1))
    made = [complete(bound, pool.options(place)) for place in places]
    taken = pool.rows.take(np.array(list(places), dtype=int))
    if bound.imposed.get("gpu-layers", bound.space.fixed["gpu-layers"]) == 999:
        assert columns(pool.rows_of(made)) == pytest.approx(columns(taken))


def test_options_beside_the_site_change_no_vector() -> None:
    pool = Pool(PAIR)
    candidate = complete(PAIR, pool.options(0))
    other = candidate.with_options({"ubatch-size": 128, "batch-size": 4096, "kv-unified": True})
    assert (columns(pool.rows_of([candidate])) == columns(pool.rows_of([other]))).all()


def test_vectors_say_what_the_options_do() -> None:
    pool = Pool(PAIR)
    options: dict[str, Value] = {"split-mode": "tensor", "tensor-split": (1, 1), "spec-draft-n-max": 4}
    options |= {"cache-type-k": "q8_0", "cache-type-v": "q8_0", "spec-type": "ngram-mod,draft-mtp"}
    rows = pool.rows_of([complete(PAIR, {**options, "GGML_CUDA_ALLREDUCE": "internal"})])
    flags = (rows.tensor, rows.depth, rows.quantised, rows.internal, rows.ngram, rows.boundaries)
    assert [one[0] for one in flags] == [True, 4, 1, 1, 1, 0]
    plain = pool.rows_of([complete(PAIR, {"split-mode": "layer", "spec-type": "ngram-mod"})])
    flags = (plain.tensor, plain.depth, plain.quantised, plain.internal, plain.ngram, plain.boundaries)
    assert [one[0] for one in flags] == [False, 0, 0, 0, 1, 1]


def test_a_quantised_cache_takes_less() -> None:
    pool = Pool(PAIR)
    least = pool.least_bytes(131_072)
    quantised = pool.rows.quantised > 0
    assert (least >= pool.rows.read_bytes).all()
    model = PAIR.splits.model
    for kind, bits in ((~quantised, 16), (quantised, 8.5)):
        cache = (least - pool.rows.read_bytes)[kind].sum(axis=1)
        assert cache == pytest.approx(model.kv_bytes(131_072, bits, bits))


def test_without_a_context_only_the_weights_count() -> None:
    pool = Pool(PLAIN)
    assert (pool.least_bytes(0) == pool.rows.read_bytes).all()


# --- spaces that vary less


def test_a_fixed_split_is_the_only_one() -> None:
    pool = Pool(two_way(tensor_split=(3, 1)))
    assert {(site.mode, site.split) for site, _ in pool.entries} == {("layer", (9, 3)), ("tensor", (3, 1))}


def test_where_nothing_says_how_to_split_the_pool_does_not_either() -> None:
    bound = two_way()
    pool = Pool(bound)
    assert [pool.options(place).get("tensor-split") for place in range(len(pool.entries))] == [None, None]
    assert complete(bound, pool.options(0)).split == ()
    assert pool.rows.read_bytes.sum(axis=1) == pytest.approx(pool.reading.total)


def test_fixed_caches_and_imposed_modes_stay() -> None:
    bound = two_way(cache_type_k="q8_0", cache_type_v="f16", tensor_split=(1, 1))
    assert Pool(bound).options(0).get("cache-type-k") == "q8_0"
    assert complete(bound, Pool(bound).options(0)).get("cache-type-v") == "f16"
    imposed = BoundSpace(bound.space, bound.devices, bound.splits, {"split-mode": "tensor"})
    assert {site.mode for site, _ in Pool(imposed).entries} == {"tensor"}


def test_one_device_has_it_all() -> None:
    space = SearchSpace(
        "s", "", {}, (Split("tensor-split", None, 20), Choice("cache-type-k", ("f16", "q8_0"), "f16"))
    )
    pool = Pool(BoundSpace(space, ("CUDA0",), splits_of(12), {}))
    assert [site.mode for site, _ in pool.entries] == ["none", "none"]
    assert (pool.rows.read_bytes == pool.reading.total).all()
