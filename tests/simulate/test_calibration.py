"""The measured pair, played: rates of llama-server build 11434 on two unequal H200, against the formulas.

Rates are the better of two requests of one launch, 512 prompt and 128 generated tokens, 8,192 tokens of context,
f16 cache. The same configuration spread by 5 % over five launches, so nearer than that is chance; rows with a
wider limit say why. With drafts, acceptance was measured too and is put in, since 128 tokens are few draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.gpu_tables import options_of, trials
from tests.support.played_rigs import simulated
from tuner.simulate.drafts import Cycle
from tuner.simulate.prompt import prompt_s
from tuner.simulate.setup import setup_of
from tuner.simulate.speed import cycle_s

if TYPE_CHECKING:
    from tuner.core.options import Value

RIG = simulated("h200-pair")
SPREAD = 0.05
TOKENS = 127
"""Generated in the time that is measured: the first of 128 comes out of the prompt."""


def on_the_pair(mode: str, share: int | None, **more: Value) -> dict[str, Value]:
    split: dict[str, Value] = {} if share is None else {"tensor-split": (share, 100 - share)}
    names = {name.replace("_", "-") if name.islower() else name: value for name, value in more.items()}
    return {"device": ("CUDA0", "CUDA1"), "split-mode": mode, **split, **names}


@pytest.mark.parametrize(
    ("options", "tok_s"),
    [
        (on_the_pair("layer", 50), 43.0),
        (on_the_pair("layer", 60), 45.6),
        (on_the_pair("layer", 65), 48.0),
        (on_the_pair("layer", 70), 50.4),
        (on_the_pair("layer", 75), 51.9),
        (on_the_pair("layer", 80), 55.5),
        (on_the_pair("layer", None), 43.3),
        (on_the_pair("tensor", None), 43.4),
        (on_the_pair("tensor", 50), 43.4),
        (on_the_pair("tensor", 55), 45.0),
        (on_the_pair("tensor", 60), 48.4),
        (on_the_pair("tensor", 65), 52.3),
        (on_the_pair("tensor", 70), 55.1),
        (on_the_pair("tensor", 75), 61.1),
        (on_the_pair("tensor", 80), 60.4),
        (on_the_pair("tensor", 75, cache_type_k="q8_0", cache_type_v="q8_0"), 59.7),
        (on_the_pair("tensor", 75, cache_type_k="q4_0", cache_type_v="q4_0"), 58.8),
        (on_the_pair("tensor", 75, spec_type="ngram-mod"), 60.0),
        (on_the_pair("tensor", 75, GGML_CUDA_P2P="1"), 58.6),
        ({"split-mode": "none", "device": ("CUDA0",)}, 69.1),
        ({"split-mode": "none", "device": ("CUDA1",)}, 31.7),
    ],
)
def test_a_measured_rate_is_met_within_the_spread(options: dict[str, Value], tok_s: float) -> None:
    assert RIG.true_rate(options) == pytest.approx(tok_s, rel=SPREAD)


@pytest.mark.parametrize(
    ("how", "tok_s"),
    [
        ("internal", 54.1),  # `internal = 1.04` is the form's; this launch would say 1.1, at 55.7 with NCCL
        ("none", 47.7),
    ],
)
def test_reductions_without_nccl_are_met_within_a_tenth(how: str, tok_s: float) -> None:
    assert RIG.true_rate(on_the_pair("tensor", 75, GGML_CUDA_ALLREDUCE=how)) == pytest.approx(tok_s, rel=0.1)


@pytest.mark.parametrize(
    ("mode", "depth", "accepted", "tok_s", "limit"),
    [
        ("tensor", 1, 58, 84.0, 0.07),  # its other request made 79.8
        ("tensor", 2, 77, 103.0, SPREAD),
        ("tensor", 3, 86, 100.9, 0.07),  # lower than both its neighbours
        ("tensor", 4, 93, 112.4, SPREAD),
        ("tensor", 6, 99, 113.5, SPREAD),
        ("layer", 3, 86, 100.4, SPREAD),
    ],
)
def test_drafting_is_met_at_the_acceptance_that_was_measured(
    mode: str, depth: int, accepted: int, tok_s: float, limit: float
) -> None:
    setup = setup_of(RIG.rig, on_the_pair(mode, 75, spec_type="draft-mtp", spec_draft_n_max=depth))
    cycles = TOKENS - accepted
    cycle = Cycle(accepted / cycles, float(depth), float(depth))
    played = TOKENS / cycles / cycle_s(RIG.rig, setup, RIG.step_cost(setup), cycle)
    assert played == pytest.approx(tok_s, rel=limit)


@pytest.mark.parametrize(
    ("mode", "ubatch", "tokens", "tok_s", "limit"),
    [
        ("tensor", 128, 3000, 1569, SPREAD),
        ("tensor", 512, 3000, 2667, SPREAD),
        ("tensor", 1024, 3000, 2889, SPREAD),
        ("tensor", 2048, 3000, 2911, SPREAD),
        ("layer", 512, 3000, 2726, SPREAD),
        ("layer", 2048, 3000, 2358, SPREAD),
        ("layer", 512, 514, 1744, SPREAD),
        ("tensor", 512, 514, 1715, 0.1),  # short prompts spread by 10 % there: 1,386 to 1,715
    ],
)
def test_a_measured_prompt_rate_is_met(
    mode: str, ubatch: int, tokens: int, tok_s: float, limit: float
) -> None:
    setup = setup_of(RIG.rig, on_the_pair(mode, 75, ubatch_size=ubatch))
    assert tokens / prompt_s(RIG.rig, RIG.parts, setup, tokens) == pytest.approx(tok_s, rel=limit)


@pytest.mark.parametrize(
    ("options", "used_mib", "limit_mib"),
    [
        # the handicap's own 2,050 MiB on the second card are taken off
        (on_the_pair("layer", 75), (20_677, 7635), 150),
        (on_the_pair("layer", 75, ubatch_size=2048), (21_529, 8217), 150),
        (on_the_pair("tensor", 75), (21_525, 8207), 150),
        (on_the_pair("tensor", 75, ubatch_size=2048), (21_975, 8657), 150),
        (on_the_pair("tensor", 75, GGML_CUDA_ALLREDUCE="internal"), (20_759, 7391), 150),
        # a second context takes up to 390 MiB that nothing names
        (on_the_pair("tensor", 75, spec_type="draft-mtp", spec_draft_n_max=4), (22_663, 8843), 400),
        (on_the_pair("layer", 75, spec_type="draft-mtp", spec_draft_n_max=3), (20_965, 8431), 400),
    ],
)
def test_measured_memory_is_met(
    options: dict[str, Value], used_mib: tuple[int, int], limit_mib: float
) -> None:
    assert RIG.need(setup_of(RIG.rig, options)).totals_mib == pytest.approx(used_mib, abs=limit_mib)


# --- whole runs of the tuner on that pair


def launches(run: str) -> list[Any]:
    found = []
    for row in trials(f"run-{run}.csv"):
        options = options_of(row)
        if row["generation_tok_s"] and options:
            label = f"{run}: trial {row['trial']}, {row['configuration']}"
            accepted = float(row["acceptance"]) if row["acceptance"] else 0.0
            found.append(pytest.param(options, accepted, float(row["generation_tok_s"]), id=label))
    return found


@pytest.mark.parametrize(("options", "acceptance", "tok_s"), [*launches("8k"), *launches("64k")])
def test_each_launch_of_a_whole_run_is_met_at_its_acceptance(
    options: dict[str, Value], acceptance: float, tok_s: float
) -> None:
    """Also the fast card alone, and the cards in the other order: drafts are made where the output lies."""
    setup = setup_of(RIG.rig, options)
    depth = float(setup.n_max)
    cycle = Cycle(acceptance * depth, depth, depth)
    played = (1 + acceptance * depth) / cycle_s(RIG.rig, setup, RIG.step_cost(setup), cycle)
    assert played == pytest.approx(tok_s, rel=0.06)
