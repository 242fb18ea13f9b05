"""Experts in the host's memory: what is predicted of each device and the host, against the engine's own lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.memory_bench import BASE, DEVICES, MemoryBench, talking_pair
from tests.support.shape_gguf import Shape, write_shape
from tuner.core.memory.host_fit import fewest_in_ram
from tuner.core.memory.predict import Predictor
from tuner.core.rig import Device

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.rpc_pair import RpcPair
    from tuner.core.memory.need import Prediction
    from tuner.core.options import Value

pytestmark = [pytest.mark.server, pytest.mark.timeout(240)]

#: The proportions of gpt-oss-120b: four experts a token, each as wide as the embedding. Its weights are zeros.
SMALL_MOE = Shape(
    "qwen3moe", n_layers=8, n_embd=512, n_ff=512, n_head=12, n_head_kv=2, head_dim=64,
    n_vocab=49_152, n_mtp=0, n_ctx_train=32_768, n_experts=8, n_experts_used=4,
)  # fmt: skip
N_LAYERS = SMALL_MOE.n_layers

_BUFFER = re.compile(
    r" (?P<name>CPU\w*|RPC\d+)(?:\[(?P<endpoint>[^\]]+)\])? +(?P<part>model|KV|compute) buffer size = +"
    r"(?P<mib>[\d.]+) MiB"
)
_UNIT = re.compile(r"layer +\d+ assigned to device (\w+),")
PIPELINE = "pipeline parallelism enabled"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("experts")


@pytest.fixture(scope="module")
def pair(rpc_server_path: Path, folder: Path) -> Iterator[RpcPair]:
    with talking_pair(rpc_server_path, folder) as pair:
        yield pair


@pytest.fixture(scope="module")
def bench(llama_server_path: Path, smollm2_path: Path, pair: RpcPair, folder: Path) -> MemoryBench:
    path = write_shape(folder / "moe.gguf", smollm2_path, SMALL_MOE)
    return MemoryBench(llama_server_path, path, pair, folder)


def lines(bench: MemoryBench, log: str) -> dict[tuple[str, str], float]:
    """MiB of each buffer that the engine names, by device (`CPU` for the host) and part."""
    names = dict(zip(bench.pair.endpoints.split(","), DEVICES, strict=True))
    return {
        (names.get(match["endpoint"], match["name"]), match["part"]): float(match["mib"])
        for match in _BUFFER.finditer(log)
    }


def differences(found: Prediction, said: dict[tuple[str, str], float]) -> list[str]:
    """Weights and cache to the hundredth that is printed, compute buffers within 2 % or 0.1 MiB."""
    ours: dict[tuple[str, str], float] = {
        ("CPU", "model"): found.host_mib,
        ("CPU", "compute"): found.host_compute_mib,
    }
    for name, need in found.devices.items():
        ours |= {(name, "model"): need.weights, (name, "KV"): need.kv, (name, "compute"): need.compute}
    wrong = []
    for key, mib in ours.items():
        real = said.get(key, 0.0)
        if abs(mib - real) > (max(0.1, 0.02 * real) if key[1] == "compute" else 0.02):
            wrong.append(f"{' '.join(key)}: {mib:.2f}, not {real:.2f} MiB")
    return wrong


def errors(bench: MemoryBench, options: dict[str, Value]) -> list[str]:
    options = {"load-mode": "none", "ctx-size": 2048, **options}
    launch, found = bench.launch(options), bench.predict(options)
    wrong = differences(found, lines(bench, launch.log))
    if [DEVICES[owner] for owner in found.owners if owner is not None] != _UNIT.findall(launch.log):
        wrong.append("units differ")
    if (PIPELINE in launch.log) != bench.predictor.query({**options, "device": DEVICES}).pipelined:
        wrong.append("the pipeline is there, or not, against what was said")
    return [f"{options}: {line}" for line in wrong]


@pytest.mark.parametrize("split", [(5, 4), (2, 7), (7, 2)], ids=str)
def test_first_layers_experts_lie_on_the_host_as_predicted(
    bench: MemoryBench, split: tuple[int, int]
) -> None:
    wrong = [
        line
        for count in (1, 2, 4, 5, 8)
        for line in errors(bench, {"tensor-split": split, "n-cpu-moe": count})
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "options",
    [
        {"n-cpu-moe": 0},  # no pattern: the pipeline stays
        {"cpu-moe": True},
        {"override-tensor": ("CPU:5-7",)},  # of the last device, which the shorthand cannot name
        {"override-tensor": ("CPU:0-1", "CPU:5-6")},
        {"n-cpu-moe": 4, "ubatch-size": 128},
        {"n-cpu-moe": 4, "ubatch-size": 16},
        {"n-cpu-moe": 4, "op-offload": False},
        {"n-cpu-moe": 4, "no-host": True},
        {"n-cpu-ffn": 3},  # of a dense model alone: it moves nothing here and ends the pipeline
        {"n-cpu-moe": 4, "cache-type-k": "q8_0", "cache-type-v": "q8_0"},
    ],
    ids=str,
)
def test_other_ways_to_say_it_are_predicted_too(bench: MemoryBench, options: dict[str, Value]) -> None:
    assert errors(bench, {"tensor-split": (5, 4), **options}) == []


def test_mapped_file_changes_nothing_on_the_devices(bench: MemoryBench) -> None:
    """The line counts what lies between the first and the last of the host's tensors in the file as well."""
    options: dict[str, Value] = {"tensor-split": (5, 4), "n-cpu-moe": 4, "ctx-size": 2048}
    said = lines(bench, bench.launch({**options, "load-mode": "mmap"}).log)
    plain = lines(bench, bench.launch({**options, "load-mode": "none"}).log)
    mapped = said.pop(("CPU_Mapped", "model"))
    assert mapped > plain.pop(("CPU", "model"))
    assert said == plain


@pytest.mark.parametrize(("split", "count"), [((1, 1), 3), ((2, 1), 3), ((3, 1), 8), ((1, 1), 8)], ids=str)
def test_tensor_mode_takes_experts_on_the_host(
    bench: MemoryBench, split: tuple[int, int], count: int
) -> None:
    """Each RPC server is asked for its slice of what is left; the host computes the experts."""
    options: dict[str, Value] = {
        "split-mode": "tensor", "tensor-split": split, "n-cpu-moe": count,
        "ctx-size": 2048, "load-mode": "none",
    }  # fmt: skip
    launch, found = bench.launch(options), bench.predict(options)
    said = lines(bench, launch.log)
    assert said["CPU", "model"] == pytest.approx(found.host_mib, abs=0.02)
    assert said["CPU", "compute"] == pytest.approx(found.host_compute_mib, rel=0.02)
    for asked, need in zip(launch.asked_mib, found.devices.values(), strict=True):
        assert asked[0] == pytest.approx(need.weights, abs=0.02)
        assert asked[1] == pytest.approx(need.kv, abs=0.02)
        assert sum(asked[2:]) == pytest.approx(need.compute, rel=0.03)


def test_largest_fit_asks_for_what_was_found(bench: MemoryBench) -> None:
    """Two devices with room for 55 and 90 MiB, 22 of each doubt, and a model of 111 with layers of 6."""
    room_mib = dict(zip(DEVICES, (55.0, 90.0), strict=True))
    options: dict[str, Value] = {**BASE, "load-mode": "none", "ctx-size": 2048}
    devices = tuple(
        Device(name, "stated", int(room), int(room), stated=True) for name, room in room_mib.items()
    )
    found = fewest_in_ram(options, Predictor(bench.splits, devices), bench.splits, room_mib)
    assert found is not None
    assert 0 < len(found.host_layers) < N_LAYERS
    launched = {name: value for name, value in {**options, **found.changes}.items() if value is not None}
    said = lines(bench, bench.launch(launched).log)
    assert differences(found.prediction, said) == []
    for name, room in room_mib.items():
        assert 0 < sum(said.get((name, part), 0.0) for part in ("model", "KV", "compute")) <= room
