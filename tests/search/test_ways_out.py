"""What to do where nothing fits."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.bench.task import task_of
from tests.support.models import shaped
from tests.support.played_rigs import simulated
from tests.support.shape_gguf import Shape
from tuner.core.assignment.splits import Splits
from tuner.core.memory.predict import Predictor
from tuner.search.ways_out import ways_out

if TYPE_CHECKING:
    from tuner.core.model import ModelFile

TASK = task_of(simulated("rtx5080-3090"))
EXPERTS = shaped(Shape(architecture="qwen3moe", n_layers=48, n_mtp=0, n_experts=128, n_ff=1024, n_embd=2048))


def said(*room_mib: float, context: int = 131_072, model: ModelFile | None = None) -> tuple[str, ...]:
    splits = TASK.bound.splits if model is None else Splits(model)
    bound = replace(TASK.bound, splits=splits, imposed={"ctx-size": context})
    room = dict(zip(bound.devices, room_mib, strict=True))
    return ways_out(bound, Predictor(splits, TASK.devices), room)


def test_where_something_may_fit_nothing_is_said() -> None:
    assert said(15_974, 24_300) == ()


def test_it_says_what_is_asked_of_which_card_and_how_much_context_would_fit() -> None:
    first, context, smaller, sibling = said(12_500, 18_000)
    assert first.startswith(
        "Nothing in this space is expected to fit at 131,072 tokens: the smallest configuration, "
    )
    assert re.search(r"asks for [\d,]+ MiB of CUDA\d, and [\d,]+ may be used\.", first)
    assert context.startswith("Less context: ")
    tokens = int(context.split()[2].replace(",", ""))
    assert 0 < tokens < 131_072
    assert said(12_500, 18_000, context=tokens) == ()
    assert smaller.startswith("A smaller quantisation: a file of about ")
    assert sibling.startswith("Or a mixture-of-experts model")


def test_where_the_weights_alone_are_too_much_no_context_is_promised() -> None:
    sentences = said(6000, 9000)
    assert not any(sentence.startswith("Less context") for sentence in sentences)
    (smaller,) = (sentence for sentence in sentences if sentence.startswith("A smaller quantisation"))
    fits_gib, has_gib = (float(number) for number in re.findall(r"([\d.]+) GiB", smaller))
    assert 4 < fits_gib < (6000 + 9000) / 1024 < has_gib


def test_of_a_mixture_of_experts_some_can_lie_in_host_memory() -> None:
    sentences = said(6000, 9000, context=8192, model=EXPERTS)
    (experts,) = (sentence for sentence in sentences if sentence.startswith("Experts in host memory"))
    assert re.search(r"those of \d+ of 48 layers, [\d,]+ MiB, with -ts \d+,\d+", experts)
    assert not any("mixture-of-experts model of that size" in sentence for sentence in sentences)
