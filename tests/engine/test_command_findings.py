"""What is said of whole commands, by the help texts of two real builds."""

from __future__ import annotations

import contextlib
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.checked_commands import (
    CARDS,
    MODEL,
    NEW,
    OLD,
    PROBLEM,
    SOUND,
    UNKNOWN,
    WARNING,
    findings,
    one,
    said,
)
from tests.support.strategies import PROPERTY
from tuner.core.checkup.check import Level
from tuner.engine.help_text import HelpText
from tuner.errors import UsageError

# --- whole commands


@pytest.mark.parametrize("help_text", [NEW, OLD], ids=["11434", "9246"])
def test_sound_command_has_no_findings(help_text: HelpText) -> None:
    flags = (
        "-dev CUDA0,CUDA1 -sm layer -ts 3,2 -ngl all -fit off -fa on -ctk q8_0 -ctv q8_0 -b 2048 -ub 512 "
        "--host 127.0.0.1 --port 8081 --jinja --temp 0.6 --spec-type ngram-mod,draft-mtp --spec-draft-n-max 3"
    )
    assert findings(f"{SOUND} {flags}", help_text) == []


def test_command_from_an_article() -> None:
    checks = findings(
        "CUDA_VISIBLE_DEVICES=0,1 llama-server -m Qwen3.6-27B-Q8_0.gguf --tensor-split 0.6,0.4 -ngl 64 -c 4096 "
        "--host 0.0.0.0"
    )
    assert said(checks) == [
        (WARNING, "CUDA_VISIBLE_DEVICES=0,1"),
        (WARNING, "-ngl 64"),
        (WARNING, "-np"),
        (WARNING, "--host 0.0.0.0"),
    ]
    order, layers, slots, host = checks
    assert "fastest card first" in order.text
    assert "--tensor-split 0.6,0.4 may go to the cards in the wrong order" in order.text
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in order.remedy
    assert layers.text.startswith("leaves 2 of 66 units on the CPU: the first 2 layers")
    assert "4 slots that share one KV cache" in slots.text
    assert host.text == "open to your network without a key"


def test_row_mode_with_experts_in_memory_and_fit() -> None:
    command = "llama-server -m gpt-oss-120b.gguf -sm row -ts 0.5,0.5 --n-cpu-moe 26 -c 38000 --fit on"
    checks = findings(command)
    assert said(checks) == [(PROBLEM, "-sm row"), (WARNING, "--fit on"), (WARNING, "-np")]
    assert checks[0].text.startswith("refused: CUDA0 and CUDA1")
    assert "-sm row, -ts 0.5,0.5 and --n-cpu-moe 26 say where the layers go" in checks[1].text
    assert checks[1].remedy.startswith("write --fit off")
    # an old build still runs it
    assert said(findings(command, OLD))[0] == (WARNING, "-sm row")


def test_cache_types_without_a_kernel() -> None:
    words = "-ctk q5_1 -ctv q5_1"
    assert one(words).level is WARNING
    assert "converts both to f16" in one(words).text
    assert one(words, OLD).level is PROBLEM
    assert "attention runs on the CPU" in one(words, OLD).text
    assert one(words).remedy == (
        "write -ctk q8_0 -ctv q8_0, or build llama.cpp with -DGGML_CUDA_FA_ALL_QUANTS=ON"
    )
    assert one(words, all_quants=None).level is UNKNOWN
    assert findings(f"{SOUND} {words}", all_quants=True) == []
    assert findings(f"{SOUND} {words}", devices=("Vulkan0", "Vulkan1")) == []


def test_help_without_flags_is_said_and_nothing_else() -> None:
    (check,) = findings("llama-server --anything goes", HelpText("Segmentation fault"))
    assert check.level is UNKNOWN


# --- properties

SPELLINGS = sorted({spelling for entry in NEW.entries for spelling in entry.spellings})
VALUES = "on off 0 1 -1 16 32k 0.5 1,2 none tensor row q5_1 draft-mtp LLAMA_ARG_BATCH=x > | CUDA0".split()
words_typed = st.lists(
    st.sampled_from(SPELLINGS) | st.sampled_from(VALUES) | st.text(max_size=8), max_size=14
)


@PROPERTY
@given(
    typed=words_typed,
    help_text=st.sampled_from([NEW, OLD]),
    devices=st.sampled_from([(), ("CUDA0",), CARDS]),
    with_model=st.booleans(),
)
def test_any_words_get_findings_with_a_remedy(
    typed: list[str], help_text: HelpText, devices: tuple[str, ...], *, with_model: bool
) -> None:
    with contextlib.suppress(UsageError):
        checks = findings(
            shlex.join(typed), help_text, devices=devices, of_model=MODEL if with_model else None
        )
        assert all(check.text and check.remedy and check.level is not Level.OK for check in checks)
