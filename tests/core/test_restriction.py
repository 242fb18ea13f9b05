"""What an engine, a model and a rig leave of a search space, and what is said about it."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.core.restriction import Abilities, restrict
from tuner.core.space import Choice, SearchSpace
from tuner.core.space_document import parse_space
from tuner.errors import SpaceError

ALL = Abilities(
    can_write=lambda _name: True,
    can_take=lambda _name, _value: True,
    architecture="qwen35",
    allows_tensor_split=True,
    has_mtp_layers=True,
    has_draft_model=True,
    device_names=("CUDA0", "CUDA1"),
    user_options=frozenset(),
    allow_p2p=True,
)
SPACES = sorted((Path(__file__).parents[2] / "search_spaces").glob("*.toml"))


def a_space(text: str) -> SearchSpace:
    return parse_space("s", tomllib.loads(f"schema_version = 1\n{text}"))


def choices(space: SearchSpace, name: str) -> tuple[object, ...]:
    parameter = space.parameter(name)
    assert isinstance(parameter, Choice)
    return parameter.choices


DRAFTS = a_space("""
    [parameters.spec-type]
    kind = "choice"
    choices = ["none", "draft-mtp", "ngram-mod,draft-mtp", "draft-simple"]
    default = "draft-mtp"
    [parameters.spec-draft-n-max]
    kind = "int"
    low = 1
    high = 8
    when = { spec-type = ["draft-mtp", "ngram-mod,draft-mtp", "draft-simple"] }
    [[caps]]
    when = { spec-type = "draft-mtp" }
    launches = 2
""")
MODES = a_space("""
    [parameters.split-mode]
    kind = "choice"
    choices = ["layer", "tensor", "none"]
    [parameters.tensor-split]
    kind = "split"
    [parameters.GGML_CUDA_ALLREDUCE]
    kind = "choice"
    choices = ["nccl", "internal"]
    when = { split-mode = "tensor" }
    [[start]]
    about = "even, by tensor"
    split-mode = "tensor"
    tensor-split = [1, 1]
    [[start]]
    about = "even, by layer"
    split-mode = "layer"
    tensor-split = [1, 1]
    [[start]]
    about = "the first alone"
    split-mode = "none"
    device = ["CUDA0"]
""")


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_nothing_is_dropped_from_a_shipped_space_where_all_can_be_had(path: Path) -> None:
    space = parse_space(path.stem, tomllib.loads(path.read_text(encoding="utf-8")))
    assert restrict(space, ALL) == (space, ())


def test_drafts_of_layers_that_the_model_lacks_go() -> None:
    space, notes = restrict(DRAFTS, replace(ALL, has_mtp_layers=False))
    assert choices(space, "spec-type") == ("none", "draft-simple")
    assert space.parameter("spec-draft-n-max") is not None
    assert space.caps == ()
    assert notes == (
        "spec-type draft-mtp: dropped, the model has no MTP layers",
        "spec-type ngram-mod,draft-mtp: dropped, the model has no MTP layers",
    )


def test_a_default_that_goes_is_replaced() -> None:
    space, _ = restrict(DRAFTS, replace(ALL, has_mtp_layers=False))
    parameter = space.parameter("spec-type")
    assert isinstance(parameter, Choice)
    assert parameter.default == "none"


def test_a_parameter_that_can_never_be_open_goes() -> None:
    space, notes = restrict(DRAFTS, replace(ALL, has_mtp_layers=False, has_draft_model=False))
    assert choices(space, "spec-type") == ("none",)
    assert space.parameter("spec-draft-n-max") is None
    assert "spec-type draft-simple: dropped, no draft model was given (--draft-model)" in notes


def test_tensor_mode_goes_where_the_model_refuses_it() -> None:
    space, notes = restrict(MODES, replace(ALL, allows_tensor_split=False, architecture="mamba"))
    assert choices(space, "split-mode") == ("layer", "none")
    assert space.parameter("GGML_CUDA_ALLREDUCE") is None
    assert [start.about for start in space.starts] == ["even, by layer", "the first alone"]
    why = "llama.cpp does not split the architecture mamba by tensor"
    assert notes == (f"split-mode tensor: dropped, {why}", f"even, by tensor: not tried, {why}")


def test_one_device_is_not_split() -> None:
    space, notes = restrict(MODES, replace(ALL, device_names=("CUDA0",)))
    assert choices(space, "split-mode") == ("none",)
    assert space.parameter("tensor-split") is None
    assert "tensor-split: not searched, there is one device" in notes
    assert [start.about for start in space.starts] == ["the first alone"]


def test_a_start_for_another_number_of_devices_is_not_tried() -> None:
    space, notes = restrict(MODES, replace(ALL, device_names=("CUDA0", "CUDA1", "CUDA2")))
    assert [start.about for start in space.starts] == ["the first alone"]
    assert notes == (
        "even, by tensor: not tried, it splits over 2 devices",
        "even, by layer: not tried, it splits over 2 devices",
    )


def test_variables_of_cuda_go_where_there_is_no_card_of_it() -> None:
    space, notes = restrict(MODES, replace(ALL, device_names=("RPC0", "RPC1")))
    assert space.parameter("GGML_CUDA_ALLREDUCE") is None
    assert notes == ("GGML_CUDA_ALLREDUCE: not searched, there is no CUDA device",)


def test_a_start_on_a_device_of_another_rig_goes_without_it() -> None:
    space, _ = restrict(MODES, replace(ALL, device_names=("RPC0", "RPC1")))
    start = next(start for start in space.starts if start.about == "the first alone")
    assert dict(start.options) == {"split-mode": "none"}


def test_an_option_of_the_users_is_not_searched() -> None:
    abilities = replace(ALL, user_options=frozenset({"spec-draft-n-max"}))
    space, notes = restrict(DRAFTS, abilities)
    assert space.parameter("spec-draft-n-max") is None
    assert notes == ("spec-draft-n-max: not searched, your own flags set it",)


def test_a_rule_about_an_option_of_the_users_goes() -> None:
    space = a_space('[[rules]]\nleft = "ubatch-size"\nop = "<="\nright = "batch-size"')
    assert restrict(space, ALL)[0].rules == space.rules
    assert restrict(space, replace(ALL, user_options=frozenset({"ubatch-size"})))[0].rules == ()


def test_a_flag_that_the_engine_lacks_goes() -> None:
    space = a_space("""
        [fixed]
        swa-full = true
        [parameters.load-mode]
        kind = "choice"
        choices = ["mmap", "none"]
    """)
    left, notes = restrict(space, replace(ALL, can_write=lambda _name: False))
    assert (dict(left.fixed), left.parameters) == ({}, ())
    assert notes == (
        "swa-full: left out, this llama-server has no such flag",
        "load-mode: not searched, this llama-server has no such flag",
    )


def test_a_value_that_the_help_does_not_list_goes() -> None:
    space = a_space('[parameters.load-mode]\nkind = "choice"\nchoices = ["mmap", "dio"]')
    left, notes = restrict(space, replace(ALL, can_take=lambda _name, value: value != "dio"))
    assert choices(left, "load-mode") == ("mmap",)
    assert notes == ("load-mode dio: dropped, this llama-server's help does not list it",)


def test_a_start_keeps_what_can_be_had() -> None:
    space = a_space("""
        [parameters.spec-type]
        kind = "choice"
        choices = ["none", "draft-mtp"]
        [[start]]
        about = "with drafts"
        ubatch-size = 512
        load-mode = "none"
        spec-type = "draft-mtp"
        [[start]]
        spec-type = "draft-mtp"
    """)
    abilities = replace(ALL, has_mtp_layers=False, can_write=lambda name: name != "load-mode")
    left, notes = restrict(space, abilities)
    (start,) = left.starts  # nothing was left of the other one
    assert dict(start.options) == {"ubatch-size": 512}
    assert "with drafts: tried without spec-type draft-mtp, the model has no MTP layers" in notes
    assert not any("load-mode" in note for note in notes)  # it is not searched: nothing is lost


# --- what cannot go on


def test_a_parameter_without_a_value_left_is_an_error() -> None:
    space = a_space('[parameters.spec-type]\nkind = "choice"\nchoices = ["draft-mtp"]')
    with pytest.raises(SpaceError, match=r"s: parameters.spec-type: no value is left .*no MTP layers"):
        restrict(space, replace(ALL, has_mtp_layers=False))


def test_a_fixed_value_that_cannot_be_had_is_an_error() -> None:
    space = a_space('[fixed]\nsplit-mode = "tensor"')
    with pytest.raises(SpaceError, match=r"s: fixed.split-mode: tensor cannot be had: there is one device"):
        restrict(space, replace(ALL, device_names=("CUDA0",)))


def test_a_draft_device_has_to_exist() -> None:
    space = a_space('[fixed]\nspec-draft-device = "CUDA7"')
    with pytest.raises(SpaceError, match="there is no such device"):
        restrict(space, ALL)


@pytest.mark.parametrize(
    "text",
    [
        '[fixed]\nGGML_CUDA_P2P = "1"',
        '[parameters.GGML_CUDA_P2P]\nkind = "choice"\nchoices = ["", "1"]',
        '[[start]]\nubatch-size = 512\nGGML_CUDA_P2P = "1"',
    ],
)
def test_peer_access_is_only_tried_when_it_was_allowed(text: str) -> None:
    with pytest.raises(SpaceError, match="--allow-p2p"):
        restrict(a_space(text), replace(ALL, allow_p2p=False))
    restrict(a_space(text), ALL)


# --- experts in RAM


MOE = a_space("""
    [fixed]
    n-cpu-moe = 27
    [parameters.ubatch-size]
    kind = "choice"
    choices = [256, 512]
    [[start]]
    about = "the last layers"
    override-tensor = ["CPU:40-47"]
    [[start]]
    about = "another card"
    override-tensor = ["CUDA7:40-47"]
""")


def test_experts_that_the_engine_cannot_keep_in_ram_are_refused() -> None:
    """Left out, the option would ask the cards for all of them."""
    lacking = replace(ALL, can_write=lambda name: name != "n-cpu-moe")
    with pytest.raises(
        SpaceError, match=r"fixed\.n-cpu-moe: 27 cannot be had: this llama-server has no such flag"
    ):
        restrict(MOE, lacking)
    space, notes = restrict(MOE, replace(lacking, user_options=frozenset({"n-cpu-moe"})))
    assert "n-cpu-moe" not in space.fixed
    assert "n-cpu-moe: left out, your own flags set it" in notes


def test_start_that_cannot_place_its_experts_is_not_tried() -> None:
    space, notes = restrict(MOE, ALL)
    assert [start.about for start in space.starts] == ["the last layers"]
    assert notes == ("another card: not tried, it names other devices",)
    space, _ = restrict(MOE, replace(ALL, can_write=lambda name: name != "override-tensor"))
    assert space.starts == ()


@pytest.mark.parametrize("value", ['"exps=CPU"', '["exps=CPU"]', '["CPU:3-1"]', "[1, 2]", "[]"])
def test_free_text_is_no_place_of_experts(value: str) -> None:
    with pytest.raises(SpaceError, match="must be a list of layers a device"):
        a_space(f"[fixed]\noverride-tensor = {value}\n{_PARAMETER}")


_PARAMETER = """
[parameters.ubatch-size]
kind = "choice"
choices = [256, 512]
"""
