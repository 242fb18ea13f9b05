"""What is predicted of each device's memory, against what the engine says and what it really asks for.

In tensor mode the engine prints no size of a single device: what its RPC servers write down tells them.
"""

from __future__ import annotations

import re
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from tests.support.memory_bench import BASE, DEVICES, MemoryBench, talking_pair
from tests.support.shape_gguf import Shape, write_shape

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.memory_bench import Launch
    from tests.support.rpc_pair import RpcPair
    from tuner.core.memory.need import DeviceNeed, Prediction
    from tuner.core.options import Value

pytestmark = [pytest.mark.server, pytest.mark.timeout(240)]

Split = tuple[int, int]

#: Two full-attention and six recurrent layers, small enough to be loaded: its weights are zeros.
SMALL_HYBRID = Shape(
    n_layers=8, n_embd=1024, n_ff=3584, n_head=8, n_head_kv=4, head_dim=128,
    n_vocab=49_152, n_mtp=0, n_ctx_train=32_768, key_heads=8, value_heads=24,
)  # fmt: skip

_BUFFER = re.compile(
    r" RPC\d+\[(?P<endpoint>[^\]]+)\] (?P<part>model|KV|RS|compute) buffer size =\s+(?P<mib>[\d.]+) MiB"
)
_UNIT = re.compile(r"layer +\d+ assigned to device (\w+),")


@pytest.fixture(scope="module")
def pair_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pair")


@pytest.fixture(scope="module")
def pair(rpc_server_path: Path, pair_folder: Path) -> Iterator[RpcPair]:
    with talking_pair(rpc_server_path, pair_folder) as pair:
        yield pair


@pytest.fixture(scope="module")
def bench(llama_server_path: Path, smollm2_path: Path, pair: RpcPair, pair_folder: Path) -> MemoryBench:
    return MemoryBench(llama_server_path, smollm2_path, pair, pair_folder)


@pytest.fixture(scope="module")
def small_hybrid_path(smollm2_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shape(tmp_path_factory.mktemp("hybrid") / "hybrid.gguf", smollm2_path, SMALL_HYBRID)


def options_of(
    split: tuple[int, ...], cache: str = "f16", ubatch: int = 512, context: int = 8192
) -> dict[str, Value]:
    return {
        "tensor-split": split,
        "cache-type-k": cache,
        "cache-type-v": cache,
        "ubatch-size": ubatch,
        "ctx-size": context,
    }


# --- a 27B model, by its header: the engine's own tool


FIT_CASES: list[tuple[Split, int, str, int]] = [
    ((50, 16), 8_192, "f16", 512),
    ((75, 25), 8_192, "f16", 512),
    ((50, 16), 8_192, "f16", 128),
    ((50, 16), 8_192, "f16", 2048),
    ((50, 16), 32_768, "q8_0", 512),
    ((50, 16), 131_072, "f16", 512),
    ((50, 16), 229_376, "q8_0", 1024),
    ((33, 33), 8_192, "q8_0", 512),
    ((33, 33), 65_536, "q4_0", 1024),
    ((33, 33), 262_144, "q8_0", 256),
    ((33, 33), 4_096, "f16", 64),
    ((16, 50), 8_192, "f16", 512),
    ((16, 50), 32_768, "q5_1", 2048),
    ((16, 50), 131_072, "q4_0", 512),
    ((60, 6), 8_192, "f16", 2048),
    ((60, 6), 100_000, "f16", 512),
    ((10, 56), 16_384, "bf16", 256),
    ((4, 62), 8_192, "f16", 512),
    ((3, 63), 8_192, "q8_0", 512),  # no layer with attention on the first device
    ((1, 65), 32_768, "f16", 1024),
    ((64, 2), 8_192, "f16", 512),  # the MTP layer, which is not loaded, and the output
    ((65, 1), 65_536, "q8_0", 512),
    ((66, 0), 8_192, "f16", 512),
    ((0, 66), 8_192, "q8_0", 512),
    ((1, 1), 131_072, "q4_0", 2048),
]


def test_a_27b_model_takes_what_the_engines_own_tool_says(
    llama_server_path: Path, smollm2_path: Path, pair: RpcPair, tmp_path: Path
) -> None:
    """Within 1 %, but for the compute buffer beside the output: there the tool overstates."""
    path = write_shape(tmp_path / "27b.gguf", smollm2_path, Shape())
    bench = MemoryBench(llama_server_path, path, pair, tmp_path)
    wrong: list[str] = []
    for split, context, cache, ubatch in FIT_CASES:
        options = {**BASE, **options_of(split, cache, ubatch, context)}
        query = bench.predictor.query(options)
        rows = bench.fit_params.ask(query, split, model_path=str(path), rpc=pair.endpoints)
        assert rows is not None, options
        prediction = bench.predictor.predict_query(query)
        with_output = prediction.owners[-1]
        for place, row in enumerate(rows[:2]):
            need = prediction.devices[row.device]
            said: float = row.model_mib + row.context_mib
            ours = need.weights + need.kv + need.recurrent
            if place != with_output:
                said, ours = said + row.compute_mib, ours + need.compute
            if abs(ours - said) > 0.01 * said + 2:
                wrong.append(f"{split} {context} {cache} {ubatch} {row.device}: {ours:.1f}, not {said}")
            if place == with_output and need.compute > row.compute_mib + 1:
                wrong.append(
                    f"{split} {context} {cache} {ubatch} {row.device}: {need.compute:.1f} to compute"
                )
    assert not wrong, "\n".join(wrong)


# --- the small model, launched in layer mode: the engine's own lines


LAYER_RATIOS: list[Split] = [
    (24, 7), (16, 15), (50, 50), (49, 51), (51, 49), (3, 1), (1, 3), (31, 0), (0, 31), (30, 1), (1, 30),
    (29, 2), (2, 29), (28, 3), (27, 4), (4, 27), (60, 40), (67, 33), (90, 10), (99, 1), (1, 99), (98, 2),
]  # fmt: skip
LAYER_SETTINGS = (("f16", 512), ("q8_0", 512), ("f16", 128), ("q8_0", 128))


def test_layer_mode_asks_for_what_was_predicted(bench: MemoryBench) -> None:
    """Units exactly, weights and KV cache to the hundredth that is printed, compute within 3 % or 2 MiB."""
    wrong: list[str] = []
    for split, (cache, ubatch) in zip(LAYER_RATIOS, cycle(LAYER_SETTINGS), strict=False):
        options = options_of(split, cache, ubatch)
        wrong += [f"{split} {cache} {ubatch} {line}" for line in layer_mode_errors(bench, options)]
    assert not wrong, "\n".join(wrong)


def layer_mode_errors(bench: MemoryBench, options: dict[str, Value]) -> list[str]:
    launch, prediction = bench.launch(options), bench.predict(options)
    owners = [DEVICES[place] for place in prediction.owners if place is not None]
    wrong = [] if owners == _UNIT.findall(launch.log) else ["units differ"]
    said: dict[tuple[str, str], float] = {}
    names = dict(zip(bench.pair.endpoints.split(","), DEVICES, strict=True))
    for match in _BUFFER.finditer(launch.log):
        said[names[match["endpoint"]], match["part"]] = float(match["mib"])
    for name, need in prediction.devices.items():
        parts = {"model": need.weights, "KV": need.kv, "RS": need.recurrent, "compute": need.compute}
        for part, ours in parts.items():
            real = said.get((name, part), 0.0)
            if abs(ours - real) > (max(2.0, 0.03 * real) if part == "compute" else 0.05):
                wrong.append(f"{name} {part}: {ours:.2f}, not {real:.2f} MiB")
    return wrong


# --- the small model, launched in tensor mode: what the RPC servers were asked for


TENSOR_RATIOS: list[Split] = [
    (1, 1), (2, 1), (66, 34), (3, 1), (5, 1), (1, 2), (1, 3), (3, 2), (2, 3), (4, 1), (1, 9),
    (99, 1), (1, 99), (1, 0), (0, 1), (55, 45), (45, 55), (75, 25), (60, 40), (7, 3),
]  # fmt: skip
#: They are one split with the ratio that is emitted for them, which is written otherwise.
RENAMED_RATIOS: list[Split] = [(67, 33), (57, 43), (9, 1)]
TENSOR_SETTINGS = (("f16", 512), ("q8_0", 512), ("f16", 128))


def tensor_options(split: tuple[int, ...], cache: str = "f16", ubatch: int = 512) -> dict[str, Value]:
    return {"split-mode": "tensor", **options_of(split, cache, ubatch, 2048)}


def test_tensor_mode_asks_for_what_was_predicted(bench: MemoryBench) -> None:
    """Each RPC server's weights, KV cache and compute buffer, within 3 % or 1 MiB."""
    wrong: list[str] = []
    for split, (cache, ubatch) in zip(TENSOR_RATIOS, cycle(TENSOR_SETTINGS), strict=False):
        options = tensor_options(split, cache, ubatch)
        launch, prediction = bench.launch(options), bench.predict(options)
        wrong += [f"{split} {cache} {ubatch} {line}" for line in tensor_mode_errors(launch, prediction)]
    assert not wrong, "\n".join(wrong)


def test_three_kv_heads_are_cut_two_and_a_half_to_a_half(bench: MemoryBench) -> None:
    """The engine cuts at whole heads and rotates by layer who comes first: `2,1` is no 2 to 1."""
    options = tensor_options((2, 1))
    fast, slow = bench.launch(options).asked_mib
    assert (fast[1], slow[1]) == (37.5, 7.5)
    assert [need.kv for need in bench.predict(options).devices.values()] == [37.5, 7.5]


@pytest.mark.parametrize("split", RENAMED_RATIOS)
def test_the_ratio_that_is_emitted_is_the_same_split(bench: MemoryBench, split: Split) -> None:
    emitted = bench.splits.simplest("tensor", split)
    assert emitted != split
    assert sum(emitted) < sum(split)
    launches = [bench.launch(tensor_options(one)) for one in (split, emitted)]
    assert launches[0].asked_mib == launches[1].asked_mib
    assert all(launches[0].asked_mib)


def tensor_mode_errors(launch: Launch, prediction: Prediction, *, with_compute: bool = True) -> list[str]:
    wrong: list[str] = []
    for asked, (name, need) in zip(launch.asked_mib, prediction.devices.items(), strict=True):
        ours = tensor_parts(need)
        real = [*asked[: len(ours) - 1], sum(asked[len(ours) - 1 :])]  # some bytes beside the compute buffer
        if not with_compute:
            ours, real = ours[:-1], real[:-1]
        if len(real) != len(ours) or any(
            abs(one - other) > max(1.0, 0.03 * other) for one, other in zip(ours, real, strict=True)
        ):
            wrong.append(
                f"{name}: {[round(size, 2) for size in ours]}, not {[round(size, 2) for size in real]}"
            )
    return wrong


def tensor_parts(need: DeviceNeed) -> list[float]:
    """In the order in which the engine asks."""
    state = [need.recurrent] if need.recurrent else []
    return [need.weights, need.kv, *state, need.compute]


# --- a small model with recurrent layers


def test_recurrent_layers_are_dealt_out_as_predicted(bench: MemoryBench, small_hybrid_path: Path) -> None:
    hybrid = MemoryBench(bench.server, small_hybrid_path, bench.pair, bench.folder)
    wrong: list[str] = []
    for split in [(1, 1), (2, 7), (7, 2), (8, 1), (9, 0)]:
        options = options_of(split, context=4096)
        wrong += [f"{split} {line}" for line in layer_mode_errors(hybrid, options)]
    assert not wrong, "\n".join(wrong)


def test_recurrent_layers_are_cut_as_predicted(
    bench: MemoryBench, rpc_server_path: Path, small_hybrid_path: Path, tmp_path: Path
) -> None:
    """All is asked for before build 11434's RPC server dies of such a model's graph: each has its own pair."""
    wrong: list[str] = []
    for split, cache in [((3, 1), "f16"), ((2, 1), "q8_0"), ((1, 2), "f16")]:
        folder = tmp_path / f"{split[0]}-{split[1]}"
        options = tensor_options(split, cache)
        with talking_pair(rpc_server_path, folder) as pair:
            hybrid = MemoryBench(bench.server, small_hybrid_path, pair, folder)
            prediction = hybrid.predict(options)
            errors = tensor_mode_errors(hybrid.launch(options), prediction, with_compute=False)
        wrong += [f"{split} {cache} {line}" for line in errors]
    assert not wrong, "\n".join(wrong)
