"""Each part that a result depends on, when it changes, is named with what it puts in doubt, and nothing else is."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tuner.core.freshness.change import Freshness, worst
from tuner.core.freshness.compare import compared
from tuner.core.freshness.devices import renamed

FRESH, DOUBTFUL, STALE = Freshness


def card(name: str, **changes: object) -> dict[str, Any]:
    number = int(name[-1])
    return {
        "name": name,
        "description": ("RTX 5080", "RTX 3090", "RTX 3060")[number],
        "total_mib": (16_303, 24_576, 12_288)[number],
        "uuid": f"GPU-{number}",
        "bus_id": f"00000000:0{number + 1}:00.0",
        "memory_stated": False,
        "power_limit_w": 360.0,
        "pcie_generation": 4,
        "pcie_width": 16,
        **changes,
    }


def rpc(name: str, port: int) -> dict[str, Any]:
    return card("CUDA0") | {
        "name": name,
        "description": f"127.0.0.1:{port}",
        "uuid": None,
        "bus_id": None,
        "power_limit_w": None,
        "pcie_generation": None,
        "pcie_width": None,
    }


FACTS: dict[str, Any] = {
    "study": {"name": "s", "options": {"flags": ["--rpc", "127.0.0.1:50052", "--no-warmup"]}},
    "engine": {
        "digest": "a" * 64,
        "version": "version: 10435 (abc)",
        "files": {"llama-server": "1", "libggml-cuda.so": "2", "libllama.so": "3"},
        "capabilities": {
            "split-mode": "layer,none,tensor",
            "spec-type": "draft-mtp,none",
            "load-mode": "mmap,none",
            "cache-ram": "",
        },
    },
    "driver": "580.1",
    "devices": [card("CUDA0"), card("CUDA1")],
    "model": {"name": "Q", "fingerprint": "f1", "shape": "s1", "weights_type": "Q8_0"},
    "workload": {
        "prompts": "default",
        "prompt_set": {"digest": "p", "sampled": None},
        "digest": "d",
        "requests": 5,
        "max_tokens": 256,
        "ctx_size": 16_384,
        "seed": 1,
        "thinking": "auto",
        "sampling": {"temperature": 0.6},
        "goal": {"objective": "generation", "weights": {}, "max_ttft": None},
        "streams": 1,
        "session": None,
    },
}
BEST = FACTS | {
    "winner": {
        "parameters": {
            "device": ["CUDA0", "CUDA1"],
            "split-mode": "tensor",
            "spec-type": "draft-mtp",
            "load-mode": "none",
            "GGML_CUDA_ALLREDUCE": "nccl",
        }
    }
}


def now(change: Callable[[dict[str, Any]], object] = lambda _: None) -> dict[str, Any]:
    facts = copy.deepcopy(FACTS)
    change(facts)
    return facts


def changed(change: Callable[[dict[str, Any]], object]) -> list[tuple[str, Freshness, str]]:
    """What is not as it was; each says what that puts in doubt."""
    rows = [one for one in compared(BEST, now(change)) if one.state is not FRESH]
    assert all(one.doubt for one in rows)
    return [(one.part, one.state, one.what) for one in rows]


def engine(**changes: object) -> Callable[[dict[str, Any]], object]:
    return lambda facts: facts["engine"].update({"digest": "b" * 64, "version": "version: 11434", **changes})


def device(place: int, **changes: object) -> Callable[[dict[str, Any]], object]:
    return lambda facts: facts["devices"][place].update(changes)


def test_nothing_changed_is_fresh_and_every_part_is_named() -> None:
    rows = compared(BEST, now())
    assert worst(rows) is FRESH
    assert [one.part for one in rows] == [
        *("engine", "driver", "devices", "power", "link", "model"),
        *("prompts", "samplers", "objective", "context"),
    ]
    assert not any(one.doubt for one in rows)


def test_worst_of_nothing_is_fresh() -> None:
    assert worst([]) is FRESH


@pytest.mark.parametrize(
    ("change", "part", "state", "said"),
    [
        (engine(), "engine", DOUBTFUL, "10435 (abc) [aaaaaaaaaaaa] -> 11434 [bbbbbbbbbbbb]"),
        (lambda f: f.update(driver="590.2"), "driver", DOUBTFUL, "580.1 -> 590.2"),
        (lambda f: f.update(driver=None), "driver", DOUBTFUL, "580.1 -> none"),
        (device(1, power_limit_w=250.0), "power", DOUBTFUL, "CUDA1: 360 -> 250 W"),
        (
            device(1, bus_id="00000000:41:00.0"),
            "link",
            DOUBTFUL,
            "CUDA1: moved from 00000000:02:00.0 to 00000000:41:00.0",
        ),
        (device(0, pcie_width=4), "link", DOUBTFUL, "CUDA0: PCIe 4.0 x16 -> PCIe 4.0 x4"),
        (device(0, total_mib=15_000), "devices", DOUBTFUL, "CUDA0: 16,303 -> 15,000 MiB"),
        (lambda f: f["devices"].append(card("CUDA2")), "devices", DOUBTFUL, "CUDA2 (RTX 3060) is new"),
        (lambda f: f["devices"].pop(), "devices", STALE, "CUDA1 (RTX 3090) is gone"),
        (
            lambda f: f["model"].update(fingerprint="f2", weights_type="Q4_K"),
            "model",
            DOUBTFUL,
            "Q (Q8_0) -> Q (Q4_K): another file of the same shape",
        ),
        (
            lambda f: f["model"].update(fingerprint="f2", shape="s2", name="R"),
            "model",
            STALE,
            "Q (Q8_0) -> R (Q8_0): of another shape",
        ),
        (
            lambda f: f["workload"].update(digest="e", prompt_set={"digest": "q", "sampled": None}),
            "prompts",
            DOUBTFUL,
            "5 requests of default, 256 tokens each: its content has changed",
        ),
        (
            lambda f: f["workload"].update(digest="e", sampling={"temperature": 1.0}),
            "samplers",
            DOUBTFUL,
            "temperature 0.6 -> temperature 1.0",
        ),
        (
            lambda f: f["workload"].update(digest="e", streams=4),
            "objective",
            STALE,
            "generation -> generation, 4 at once",
        ),
        (lambda f: f["workload"].update(ctx_size=8192), "context", STALE, "16,384 tokens -> 8,192 tokens"),
        (lambda f: f["workload"].update(digest="e"), "workload", DOUBTFUL, "is asked otherwise"),
        (
            lambda f: f["study"].update(options={"flags": ["--mmproj", "x"]}),
            "flags",
            DOUBTFUL,
            "--no-warmup -> --mmproj x",
        ),
    ],
)
def test_a_changed_part_is_named_alone(
    change: Callable[[dict[str, Any]], object], part: str, state: Freshness, said: str
) -> None:
    assert changed(change) == [(part, state, said)]


def test_ports_of_rpc_servers_are_no_change() -> None:
    best = BEST | {"devices": [rpc("RPC0", 50052), rpc("RPC1", 50053)]}
    facts = now() | {"devices": [rpc("RPC0", 40001), rpc("RPC1", 40002)]}
    facts["study"] = {"options": {"flags": ["--rpc", "127.0.0.1:40001,127.0.0.1:40002", "--no-warmup"]}}
    assert worst(compared(best | {"winner": {"parameters": {}}}, facts)) is FRESH


def test_files_that_are_other_are_named_where_not_all_are() -> None:
    some = {"llama-server": "1", "libggml-cuda.so": "9", "libllama.so": "3"}
    ((_, _, said),) = changed(engine(files=some))
    assert said.endswith(", other in libggml-cuda.so")
    every = dict.fromkeys(some, "9")
    assert "other in" not in changed(engine(files=every))[0][2]


def test_what_the_winner_needs_and_the_engine_lost_makes_it_stale() -> None:
    left = FACTS["engine"]["capabilities"] | {"spec-type": "none"}
    del left["load-mode"], left["cache-ram"]
    rows = compared(BEST, now(engine(capabilities=left)))
    options = {one.what: one.state for one in rows if one.part == "options"}
    assert options == {
        "load-mode is gone": STALE,
        "spec-type takes no draft-mtp any more": STALE,
        "gone, but not used: cache-ram": FRESH,
    }


def test_what_is_new_puts_the_best_in_doubt() -> None:
    more = FACTS["engine"]["capabilities"] | {"spec-type": "draft-dspark,draft-mtp,none", "n-cpu-ffn": ""}
    rows = compared(BEST, now(engine(capabilities=more)))
    assert [(one.state, one.what) for one in rows if one.part == "options"] == [
        (DOUBTFUL, "new: n-cpu-ffn, spec-type draft-dspark")
    ]


def test_a_card_under_another_name_makes_the_command_stale() -> None:
    """The command names cards by the engine's names, which are counted anew when one moves."""

    def swap(facts: dict[str, Any]) -> None:
        first, second = facts["devices"]
        facts["devices"] = [second | {"name": "CUDA0"}, first | {"name": "CUDA1"}]

    rows = changed(swap)
    assert [(part, state) for part, state, _ in rows] == [("devices", STALE)] * 2
    facts = now(swap)
    assert renamed(BEST["devices"], facts["devices"]) == {"CUDA0": "CUDA1", "CUDA1": "CUDA0"}


def test_a_card_that_the_winner_does_not_use_may_go() -> None:
    best = BEST | {"winner": {"parameters": {"device": ["CUDA0"]}}}
    rows = [one for one in compared(best, now(lambda f: f["devices"].pop())) if one.state is not FRESH]
    assert [(one.part, one.state) for one in rows] == [("devices", DOUBTFUL)]


def test_what_an_older_file_does_not_say_is_not_compared() -> None:
    old = copy.deepcopy(BEST)
    for row in old["devices"]:
        for name in ("power_limit_w", "pcie_generation", "pcie_width"):
            del row[name]
    del old["engine"]["files"], old["engine"]["capabilities"], old["study"]["options"]
    del old["model"]["shape"], old["model"]["weights_type"]
    assert worst(compared(old, now())) is FRESH
    assert [one.part for one in compared(old, now(engine())) if one.state is not FRESH] == ["engine"]
