"""Buffer sizes out of real logs."""

from __future__ import annotations

import pytest

from tests.support.logs import server_log
from tuner.core.memory_lines import buffers_mib


def test_buffers_of_two_cards_add_up() -> None:
    found = buffers_mib(server_log("A-layer-lv4"), {})
    assert found == pytest.approx(
        {
            "CPU_Mapped": 1288.28,
            "CUDA0": 19290.00 + 384.00 + 118.45 + 284.08,  # model, KV, recurrent state, compute
            "CUDA1": 6682.28 + 128.00 + 31.17 + 194.06,
            "CUDA_Host": 0.95 + 132.09,
        }
    )
    # the engine's own totals, in the breakdown that it prints when it ends
    assert int(found["CUDA0"]) == 20076
    assert int(found["CUDA1"]) == 7035


def test_tensor_mode_has_one_entry_for_all_devices() -> None:
    found = buffers_mib(server_log("A-tensor-lv4"), {})
    assert set(found) == {"CPU_Mapped", "CUDA_Host", "Meta()"}
    assert found["Meta()"] == pytest.approx(19479.89 + 384.00 + 112.22 + 150.02)


def test_rpc_buffers_go_by_their_endpoint() -> None:
    # both servers call their own device RPC0
    endpoints = {"127.0.0.1:56345": "RPC0", "127.0.0.1:43973": "RPC1"}
    found = buffers_mib(server_log("rpc-layer-f16-16-15"), endpoints)
    assert found == pytest.approx(
        {
            "CPU_Mapped": 28.69,
            "CPU": 0.19 + 43.32,
            "RPC0": 33.82 + 96.00 + 59.05,
            "RPC1": 58.28 + 84.00 + 48.91,
        }
    )


def test_an_unknown_endpoint_keeps_the_servers_own_name() -> None:
    found = buffers_mib(server_log("rpc-layer-f16-16-15"), {})
    assert found["RPC0"] == pytest.approx(33.82 + 96.00 + 59.05 + 58.28 + 84.00 + 48.91)


def test_a_draft_context_comes_on_top() -> None:
    found = buffers_mib(server_log("O-seed-layer"), {})
    assert found["CUDA1"] == pytest.approx(15980.68 + 4760.00 + 336.66 + 1913.13 + 896.00)


def test_what_a_context_reserves_again_replaces_what_it_had() -> None:
    log = """
0.04.096.661 I llama_context: constructing llama_context
0.04.100.883 I sched_reserve: reserving ...
0.04.306.288 I sched_reserve:      CUDA0 compute buffer size =   805.22 MiB
0.04.306.295 I sched_reserve:      CUDA1 compute buffer size =   625.19 MiB
0.04.483.594 I llama_context: constructing llama_context
0.04.485.064 I llama_kv_cache:      CUDA1 KV buffer size =   128.00 MiB
0.04.485.191 I sched_reserve: reserving ...
0.04.640.531 I sched_reserve:      CUDA1 compute buffer size =   660.13 MiB
0.04.641.609 I sched_reserve: reserving ...
0.04.858.069 I sched_reserve:      CUDA1 compute buffer size =   661.13 MiB
"""
    found = buffers_mib(log, {})
    assert found == {"CUDA0": pytest.approx(805.22), "CUDA1": pytest.approx(625.19 + 128.00 + 661.13)}


def test_a_load_that_ran_out_of_memory_counts_what_it_got() -> None:
    found = buffers_mib(server_log("O-kv-layer"), {})
    assert found == pytest.approx(
        {"CPU_Mapped": 1288.28, "CUDA0": 10422.01, "CUDA1": 15550.27, "CUDA_Host": 0.95}
    )


@pytest.mark.parametrize("log", ["default", "bad-model", "row-65"])
def test_a_log_without_buffers_says_nothing(log: str) -> None:
    assert buffers_mib(server_log(log), {}) == {}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "llama_kv_cache:      CUDA0 KV buffer size =  1632.00 MiB",
            {"CUDA0": 1632.0},
        ),  # build 9095: no prefix
        ("load_tensors:      Vulkan0 model buffer size =    12.50 MiB", {"Vulkan0": 12.5}),
        ("sched_reserve:  ROCm_Host compute buffer size =     8.00 MiB", {"ROCm_Host": 8.0}),
        ("llama_kv_cache: size =  512.00 MiB (  8192 cells,  16 layers,  1/1 seqs)", {}),
        ("failed to allocate CUDA0 buffer of size 12820218368", {}),
    ],
)
def test_lines_of_other_engines(line: str, expected: dict[str, float]) -> None:
    assert buffers_mib(line, {}) == expected
