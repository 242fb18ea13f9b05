"""`tuner tune` on a model that does not fit: what it starts with, and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.shape_gguf import Shape, write_shape

if TYPE_CHECKING:
    from tests.support.tuner_command import TunerCommand

MOE = Shape(
    "qwen3moe", n_layers=12, n_embd=1024, n_ff=1024, n_head=16, n_head_kv=4, head_dim=64, n_vocab=32_000, n_mtp=0,
    n_experts=64, n_experts_used=4,
)  # fmt: skip
#: Of the 2.4 GiB of experts about half fits beside all else.
TOO_SMALL = "CUDA0=1400,CUDA1=1300"


@pytest.fixture
def moe(command: TunerCommand) -> TunerCommand:
    write_shape(command.model, None, MOE)
    return command


def test_what_does_not_fit_is_searched_with_experts_in_ram(moe: TunerCommand) -> None:
    ended = moe.run(*moe.words("--device-memory", TOO_SMALL, "--launches", "5"))
    assert ended.code == 0, ended.stdout + ended.stderr
    assert "The model does not fit on the devices with 2,048 tokens of context" in ended.stdout
    assert "prompts go through one card after the other, without pipeline parallelism." in ended.stdout
    assert "the fewest layers in RAM: " in ended.stdout
    assert "the experts of all layers in RAM" in ended.stdout
    launched = [event["argv"] for event in moe.launches()][1:]
    assert launched
    for argv in launched:
        assert {"--cpu-moe", "--n-cpu-moe", "--override-tensor"} & set(argv), argv
        assert "--mlock" not in argv


def test_what_fits_is_searched_without_unless_it_is_asked_for(moe: TunerCommand) -> None:
    plain = moe.run(*moe.words("--dry-run"))
    assert "host memory is searched" not in plain.stdout
    asked = moe.run(*moe.words("--dry-run", "--offload"))
    assert "--offload: which layers keep their experts in host memory is searched as well." in asked.stdout


def test_users_own_flags_and_offload_contradict_each_other(moe: TunerCommand) -> None:
    ended = moe.run(*moe.words("--offload"), "--", "-ncmoe", "3")
    assert ended.code == 2
    assert "--offload: n-cpu-moe is set already" in ended.stderr
    assert not moe.study.exists()
