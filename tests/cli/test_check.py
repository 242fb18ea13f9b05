"""`tuner check`: cases of owners of unequal pairs, and what it says of them."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from gguf import GGMLQuantizationType

from tests.support.fake_engine import FakeEngine
from tests.support.shape_gguf import Shape, write_shape
from tests.support.tuner_command import Ended, TunerCommand

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.fake_engine import DeviceRow

FAST_FIRST: list[DeviceRow] = [
    ("CUDA0", "NVIDIA GeForce RTX 5080", 16303, 15900),
    ("CUDA1", "NVIDIA GeForce RTX 3090", 24576, 24100),
]
BUS_ORDER: list[DeviceRow] = [
    ("CUDA0", "NVIDIA GeForce RTX 3090", 24576, 24100),
    ("CUDA1", "NVIDIA GeForce RTX 5080", 16303, 15900),
]
TWO_SMALL: list[DeviceRow] = [
    ("CUDA0", "NVIDIA GeForce RTX 5080", 16303, 15900),
    ("CUDA1", "NVIDIA GeForce RTX 5070 Ti", 16303, 15100),
]
#: 48 layers with 933 MiB of experts each, 46 GB in all.
MOE = Shape(
    "qwen3moe",
    n_layers=48,
    n_embd=2048,
    n_ff=768,
    n_head=32,
    n_head_kv=4,
    head_dim=128,
    n_vocab=151_936,
    n_mtp=0,
    n_ctx_train=262_144,
    n_experts=195,
    weight=GGMLQuantizationType.Q8_0,
)

Check = Callable[..., Ended]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """`tuner check` of a command for a model of some shape, on some cards; MODEL stands for the file."""

    def run(command: str, *words: str, devices: list[DeviceRow], shape: Shape | None = None) -> Ended:
        fake = FakeEngine(tmp_path, devices=devices)
        path = tmp_path / "shape.gguf"
        if not path.exists():
            write_shape(path, None, shape or Shape())
        text = command.replace("MODEL", shlex.quote(str(path)))
        tuner = TunerCommand(tmp_path, fake)
        return tuner.run(
            "check", text, "--server", str(fake.path), "--facts", str(tmp_path / "facts"), *words
        )

    return run


def document(ended: Ended) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def findings(ended: Ended, level: str) -> str:
    return " | ".join(
        f"{one['subject']}: {one['text']} -> {one['remedy']}"
        for one in document(ended)["findings"]
        if one["level"] == level
    )


ARTICLE = (
    "CUDA_VISIBLE_DEVICES=0,1 llama-server -m MODEL --tensor-split 0.6,0.4 -ngl 64 -c 4096 --host 0.0.0.0"
)


def test_an_articles_command_with_the_fastest_card_first(check: Check) -> None:
    ended = check(ARTICLE, "--json", devices=FAST_FIRST)
    assert ended.code == 1
    small = document(ended)["devices"][0]
    assert small["total_mib"] > 15_900 - small["reserve_mib"]
    assert small["holds"] == "layers 2 to 40 (39)"
    assert "CUDA0 (NVIDIA GeForce RTX 5080)" in findings(ended, "problem")
    assert "too much" in findings(ended, "problem")
    warnings = findings(ended, "warning")
    assert "leaves 2 of 66 units on the CPU" in warnings
    assert "open to your network without a key" in warnings
    assert "in the other order of the devices (CUDA1, CUDA0) the same command fits" in warnings
    assert "CUDA_DEVICE_ORDER" in warnings


def test_the_same_command_in_bus_order_fits(check: Check) -> None:
    ended = check(ARTICLE, "--json", devices=BUS_ORDER)
    assert ended.code == 1  # the layers on the CPU and the open host remain
    assert findings(ended, "problem") == ""
    assert all(device["over_mib"] < 0 for device in document(ended)["devices"])


def test_the_line_that_works_is_found_to_work(check: Check) -> None:
    better = document(check(ARTICLE, "--json", devices=FAST_FIRST))["works"]["command"]
    ended = check(better, "--json", devices=FAST_FIRST)
    assert findings(ended, "problem") == ""
    assert "on the CPU" not in findings(ended, "warning")
    assert all(device["fits_probability"] > 0.9 for device in document(ended)["devices"])


def test_experts_in_ram_and_a_split_by_layers_ask_the_last_card_for_everything(check: Check) -> None:
    command = "llama-server -m MODEL -ngl 99 -ts 159,151 --n-cpu-moe 27 -c 16384 -np 1 -fa on -fit off"
    ended = check(command, "--json", devices=TWO_SMALL, shape=MOE)
    first, last = document(ended)["devices"]
    assert first["total_mib"] < 3_500
    assert last["weights_mib"] == pytest.approx(20_347, rel=0.05)
    assert last["fails_at"] == "weights"
    assert (first["holds"], last["holds"]) == (
        "layers 0 to 25 (26), without experts",
        "layers 26 to 47 (22), 1 of them without experts, output",
    )
    assert "CUDA1 (NVIDIA GeForce RTX 5070 Ti): 2" in findings(ended, "problem")
    assert "experts: those of 27 layers lie in RAM: CUDA0 keeps 0 of its 26, CUDA1 keeps 21 of its 22" in (
        findings(ended, "warning")
    )
    host = document(ended)["host"]
    assert host["holds"] == "experts of 27 layers"
    assert host["total_mib"] == pytest.approx(27 * 933 + 315, rel=0.01)


def test_cards_are_filled_by_the_line_that_works_for_experts_in_ram(check: Check) -> None:
    command = "llama-server -m MODEL -ngl 99 -ts 159,151 --n-cpu-moe 27 -c 16384 -np 1 -fa on -fit off"
    works = document(check(command, "--json", devices=TWO_SMALL, shape=MOE))["works"]
    assert works["change"] == "the experts of 21 layers in RAM"
    assert "--n-cpu-moe" not in works["command"]
    assert "-ngl 99 -c 16384" in works["command"]
    ended = check(works["command"], "--json", devices=TWO_SMALL, shape=MOE)
    assert findings(ended, "problem") == ""
    assert document(ended)["works"] is None
    for device in document(ended)["devices"]:
        assert device["fits_probability"] > 0.95
        assert device["total_mib"] > 0.89 * device["free_mib"]  # the rest is doubt, and the reserve


def test_model_that_needs_ram_is_given_it_where_nothing_else_helps(check: Check) -> None:
    command = "llama-server -m MODEL -ngl 99 -ts 1,1 -c 4096 -np 1 -fa on -fit off"
    works = document(check(command, "--json", devices=TWO_SMALL, shape=MOE))["works"]
    assert "layers in RAM" in works["change"]
    assert "--override-tensor" in works["command"]


def test_kv_types_without_a_kernel_are_named(check: Check) -> None:
    command = "llama-server -m MODEL -ngl 99 -np 1 -c 8192 -fa on -ctk q5_1 -ctv q5_1"
    said = check(command, devices=BUS_ORDER).stdout
    assert "q5_1" in said
    assert "-DGGML_CUDA_FA_ALL_QUANTS=ON" in said


def test_a_sound_command_has_nothing_against_it(check: Check) -> None:
    command = (
        "CUDA_DEVICE_ORDER=PCI_BUS_ID llama-server -m MODEL -ngl 99 -sm layer -ts 40,26 -c 16384 -np 1 -fa on "
        "-ctk q8_0 -ctv q8_0 -fit off"
    )
    ended = check(command, devices=BUS_ORDER)
    assert ended.code == 0, ended.stdout
    assert "layers 0 to 39 (40)" in ended.stdout
    assert "No problems, no warnings" in ended.stdout
    assert "A line that works" not in ended.stdout


def test_settings_replace_what_the_command_has(check: Check) -> None:
    command = "llama-server -m MODEL -ngl 99 -ts 40,26 -c 16384 -np 1 -fa on -fit off"
    ended = check(command, "--set", "tensor-split=20,46", "--json", devices=BUS_ORDER)
    assert document(ended)["devices"][0]["holds"] == "layers 0 to 19 (20)"
    assert "40,26" not in document(ended)["command"]


def test_cards_of_another_machine_can_be_stated(check: Check) -> None:
    command = "llama-server -m MODEL -ngl 99 -ts 1,1 -c 8192 -np 1 -fa on -fit off --device CUDA0,CUDA1"
    ended = check(command, "--device-memory", "CUDA0=31000,CUDA1=24000", "--json", devices=[])
    assert [device["free_mib"] for device in document(ended)["devices"]] == [31_000, 24_000]


def test_without_a_device_it_says_how_to_state_one(check: Check) -> None:
    ended = check("llama-server -m MODEL -np 1 -c 8192", devices=[])
    assert "--device-memory CUDA0=" in ended.stdout


def test_a_model_that_is_not_there_is_a_finding(check: Check) -> None:
    ended = check("llama-server -m /nowhere.gguf -ngl 99 -ub 4096 -b 512 -np 1", devices=BUS_ORDER)
    assert ended.code == 1
    assert "there is no such file" in ended.stdout
    assert "write -b 4096 too" in ended.stdout


@pytest.mark.parametrize(
    "words",
    [
        *("-ts ,", "-ts 0,0", "-ts 1,nan", "-ts 1,2,3", "-ts 1", "-c -5 -ngl foo -np 0", "-ub 0 -b 0"),
        *("-dev none", "--device CUDA5", "-sm row -ts 1,1", "-ngl 0", "-sm tensor -c 0 -np 9999999999"),
        *("-ctk foo", "-sm none -mg 7", "-ot a=CPU,(=CPU", "-c 99999999999999999999", "--mmproj /nope"),
        "-md /nope.gguf --spec-type draft-simple",
    ],
)
def test_whatever_is_wrong_is_a_finding(check: Check, words: str) -> None:
    ended = check(f"llama-server -m MODEL -ngl 99 {words}", devices=FAST_FIRST)
    assert ended.code == 1
    assert ended.stderr == ""


@pytest.mark.parametrize("command", ["", "   ", "llama-server 'unfinished", "FOO=bar"])
def test_what_is_no_command_is_an_error(tmp_path: Path, command: str) -> None:
    fake = FakeEngine(tmp_path, devices=BUS_ORDER)
    ended = TunerCommand(tmp_path, fake).run("check", command, "--server", str(fake.path))
    assert ended.code == 2
    assert ended.stderr.startswith("error: ") or "Usage" in ended.stderr


def test_the_best_of_a_study_is_checked_with_a_change(tmp_path: Path) -> None:
    tuner = TunerCommand(tmp_path)
    assert tuner.run(*tuner.words("--launches", "4")).code == 0
    results = ("--results", str(tuner.results), "--facts", str(tmp_path / "facts"))
    plain = tuner.run("check", "mine", *results, "--json")
    changed = tuner.run("check", "mine", *results, "--set", "ubatch-size=64", "--json")
    assert "64" not in document(plain)["command"].partition("--ubatch-size")[2].split()[:1]
    assert "--ubatch-size 64" in document(changed)["command"]


def test_nothing_is_launched(check: Check, tmp_path: Path) -> None:
    check("llama-server -m MODEL -ngl 99 -np 1 -c 8192", devices=BUS_ORDER)
    events = FakeEngine(tmp_path).events("start")
    assert [event for event in events if "-m" in event.get("argv", [])] == []
    assert os.listdir(tmp_path / "facts") == [] if (tmp_path / "facts").exists() else True  # noqa: PTH208
