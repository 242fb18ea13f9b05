"""What an engine prints that nobody here knows, as forks do, changes nothing and breaks nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.known_logs import DEATHS, FOLDER, KNOWN, Known
from tests.support.strategies import PROPERTY
from tuner.core.asked import Asked, log_difference
from tuner.core.diagnosis import degraded, diagnose, examine
from tuner.core.memory_lines import buffers_mib

ASKED = Asked(
    2048, 1, drafts=False, devices=("CUDA0", "CUDA1"), every_layer=True, cache_types=("q8_0", "q8_0")
)
LIVES = "load_tensors: offloaded 31/31 layers to GPU\nsrv  llama_server: listening on http://127.0.0.1:1"
#: Lines of a fork, in the words of its own trade: none of these is a line of any build that was read.
FORKS = (
    "fused_moe: fused 47 of 48 layers, 1 failed: fallback to mul_mat_id",
    "graph split: 96 reductions a token, type f16, peer copies off",
    "rtr: ============ repacked 181 tensors (12 not repacked: type not supported)",
    "turbo3: cache of 3.25 bits, rotation on, 1.234.5 MiB saved",
    "WARNING: experimental path, results may differ",
    "warn: mla=3 without flash attention is slow",
    "~ggml_backend_cuda_context: have 42 graphs",
    "srv  tuner: error budget 0, failed checks 0, aborted 0",
    "\x1b[33mh = 0x7f00, \u2588\u2588\u2588 100 %\x1b[0m",
)
#: Lines with numbers that are read; other numbers come in their places.
_NUMBERED = (
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating {} MiB on device {}: cudaMalloc failed: out of memory",
    "ggml_gallocr_reserve_n_impl: failed to allocate CUDA0[x] buffer of size {}",
    "ggml_vulkan: Device memory allocation of size {} failed.",
    "ggml_aligned_malloc: insufficient memory (attempted to allocate {} MB)",
    "output_reserve: failed to allocate output buffer of size {} MiB",
    "load_tensors: offloaded {}/{} layers to GPU",
    "load_tensors:        CUDA0 model buffer size = {} MiB",
    "llama_kv_cache: RPC0[127.0.0.1:1] KV buffer size = {} MiB",
    "llama_context: context size reduced from {} to {}",
    "llama_prepare_model_devices: using device CUDA0 (NVIDIA) ({}) - {} MiB free",
    "llama_kv_cache: size = {} MiB, K (f16): {} MiB, V (f16): {} MiB",
    "CUDA error: out of memory\n  current device: {}, in function x at y:{}",
)
_NUMBERS = st.sampled_from(["0", "1.5", "1.2.3", ".", "-1", "", "9" * 5000, "1e999", "0000:01:00.0"])
#: Words of lines that are known, so that what hypothesis puts together is nearly one.
_WORDS = sorted(
    {
        word
        for path in FOLDER.rglob("*.log")
        for word in re.findall(r"\S{2,24}", path.read_text(encoding="utf-8", errors="replace")[:20_000])
    }
)
_of_words = st.lists(st.sampled_from(_WORDS) | st.text(max_size=6) | _NUMBERS, max_size=14).map(" ".join)
_of_numbers = st.tuples(st.sampled_from(_NUMBERED), st.lists(_NUMBERS, min_size=3, max_size=3)).map(
    lambda drawn: drawn[0].format(*drawn[1])
)
logs = st.lists(_of_words | _of_numbers, max_size=6).map("\n".join)
_odd = st.from_regex(r"[a-z_]{1,9}: [ -9;-~]{0,40}zq", fullmatch=True)
foreign = st.lists(st.sampled_from(FORKS) | _odd, min_size=1, max_size=6)
places = st.lists(st.integers(0, 10_000), min_size=6, max_size=6)


def with_lines(log: str, extra: list[str], at: list[int]) -> str:
    """A log with further lines somewhere between its own."""
    rows = log.split("\n")
    for line, place in zip(extra, at, strict=False):
        rows.insert(place % (len(rows) + 1), line)
    return "\n".join(rows)


@PROPERTY
@given(logs, st.sampled_from([0, 1, -6, None]))
def test_no_line_whatever_it_says_breaks_the_reading_of_a_log(log: str, exit_code: int | None) -> None:
    log_difference(ASKED, log)
    degraded(log, context_was_asked=True)
    assert all(mib >= 0 for mib in buffers_mib(log, {"127.0.0.1:1": "RPC0"}).values())
    death = replace(KNOWN[0].death(), log=log, exit_code=exit_code)
    diagnose(death)
    examine(death)


@pytest.mark.parametrize("line", _NUMBERED)
@pytest.mark.parametrize("number", ["1.2.3", "9" * 5000, ".", ""])
def test_numbers_that_are_none_break_nothing(line: str, number: str) -> None:
    test = test_no_line_whatever_it_says_breaks_the_reading_of_a_log.hypothesis.inner_test  # type: ignore[attr-defined]
    test(line.format(number, number, number), 1)


@PROPERTY
@given(foreign, places)
def test_unknown_lines_say_nothing_of_a_server_that_lives(extra: list[str], at: list[int]) -> None:
    log = with_lines(LIVES, extra, at)
    assert log_difference(ASKED, log) is None
    assert degraded(log, context_was_asked=True) is None
    assert buffers_mib(log, {}) == {}


@pytest.mark.parametrize("known", DEATHS, ids=str)
def test_unknown_lines_change_nothing_of_what_is_found_in_a_log(known: Known) -> None:
    death = known.death()
    spread = with_lines(death.log, list(FORKS), [n * 37 for n in range(len(FORKS))])
    before, after = examine(death), examine(replace(death, log=spread))
    assert (after.kind, after.stage, after.device) == (before.kind, before.stage, before.device)
    assert (after.requested_mib, after.inferred) == (before.requested_mib, before.inferred)
    assert buffers_mib(spread, {}) == buffers_mib(death.log, {})
