"""Verdicts on a model: what it is, where it fits, and how it may be split."""

from __future__ import annotations

import pytest

from tests.support.models import model
from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.checkup.facts import EngineFacts
from tuner.core.checkup.models import model_checks
from tuner.core.rig import Device

ENGINE = EngineFacts("", "", "", frozenset(), frozenset({"draft-mtp"}), has_load_mode=True, takes_rpc=True)


def devices(*free_mib: int) -> list[Device]:
    """Devices that keep nothing free."""
    return [Device(f"CUDA{i}", "", free, free, stated=True) for i, free in enumerate(free_mib)]


def of(checks: list[Check], topic: Topic) -> list[Check]:
    return [check for check in checks if check.topic is topic]


def test_shape_is_one_line() -> None:
    check = model_checks(model(n_mtp=1, heads=(0, 0, 0, 4) * 16), [], ENGINE)[0]
    assert (check.subject, check.level) == ("M", Level.OK)
    assert check.text == (
        "qwen35, 64 layers (1 of them MTP), 4 KV heads in each of 16 layers, 19.53 GiB, trained for 262,144 tokens"
    )


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        ((2, 2), "2 KV heads in each layer"),
        ((2, 8), "2 to 8 KV heads in each layer"),
        ((0, 0), "no KV cache"),
    ],
)
def test_kv_heads_are_told_as_they_are(heads: tuple[int, ...], said: str) -> None:
    assert said in model_checks(model(heads=heads), [], None)[0].text


@pytest.mark.parametrize(("architecture", "word"), [("qwen35", "allowed"), ("mamba", "refused")])
def test_tensor_mode_is_allowed_or_refused(architecture: str, word: str) -> None:
    (check,) = (c for c in model_checks(model(architecture=architecture), [], None) if "-sm tensor" in c.text)
    assert word in check.text
    assert check.level is Level.OK


def test_mtp_layers_need_an_engine_that_drafts_with_them() -> None:
    with_mtp = model(n_mtp=1)
    old = EngineFacts("", "", "", frozenset(), frozenset({"none"}), has_load_mode=False, takes_rpc=False)
    (good,) = (c for c in model_checks(with_mtp, [], ENGINE) if "MTP layers:" in c.text)
    (unasked,) = (c for c in model_checks(with_mtp, [], None) if "MTP layers:" in c.text)
    (bad,) = (c for c in model_checks(with_mtp, [], old) if "no draft-mtp" in c.text)
    assert (good.level, unasked.level, bad.level) == (Level.OK, Level.OK, Level.WARNING)


# 64 layers x 4 heads x (512 + 512) x 2 bytes x 16,384 tokens: 8,192 MiB as f16, 4,352 as q8_0
@pytest.mark.parametrize(
    ("free_mib", "level", "said"),
    [
        (
            28_192,
            Level.OK,
            "weights 20,000 MiB and KV of 16,384 tokens 8,192 MiB (f16) or 4,352 (q8_0), of 28,192 MiB",
        ),
        (28_191, Level.WARNING, "with KV as q8_0 only"),
        (24_352, Level.WARNING, "with KV as q8_0 only"),
        (24_351, Level.WARNING, "not with this context"),
        (20_000, Level.WARNING, "not with this context"),
        (19_999, Level.PROBLEM, "the weights alone do not fit"),
    ],
)
def test_what_fits_is_weights_and_cache_against_free_memory(free_mib: int, level: Level, said: str) -> None:
    (check,) = of(model_checks(model(), devices(free_mib), ENGINE), Topic.FIT)
    assert check.level is level
    assert said in check.text
    assert bool(check.remedy) is (level is not Level.OK)


def test_each_device_is_judged_alone() -> None:
    checks = of(model_checks(model(), devices(30_000, 25_000, 16_000), ENGINE), Topic.FIT)
    assert [(check.subject, check.text) for check in checks[1:]] == [
        ("CUDA0", "fits alone with KV as f16, 1,808 MiB to spare for buffers"),
        ("CUDA1", "fits alone with KV as q8_0, 648 MiB to spare for buffers"),
        ("CUDA2", "not alone: 8,352 MiB too little with KV as q8_0"),
    ]


def test_memory_that_is_to_stay_free_does_not_count() -> None:
    tight = Device("CUDA0", "", 28_200, 28_200)  # 2 % of it stay free
    (check,) = of(model_checks(model(), [tight], ENGINE), Topic.FIT)
    assert "with KV as q8_0 only" in check.text


def test_without_devices_nothing_is_said_of_fit() -> None:
    assert of(model_checks(model(), [], None), Topic.FIT) == []
