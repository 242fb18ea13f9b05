"""Space files: the shipped ones can be read, wrong ones are refused by dotted key."""

from __future__ import annotations

import contextlib
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.space import (
    Cap,
    Choice,
    Devices,
    FloatRange,
    IntRange,
    Rule,
    SearchSpace,
    Split,
    broken_rule,
)
from tuner.core.space_document import SCHEMA_VERSION, Cores, parse_space
from tuner.errors import SpaceError

SHIPPED = sorted((Path(__file__).parents[2] / "search_spaces").glob("*.toml"))


def parse(text: str) -> SearchSpace:
    return parse_space("s.toml", tomllib.loads(f"schema_version = {SCHEMA_VERSION}\n{text}"))


def refusal(text: str) -> str:
    with pytest.raises(SpaceError) as caught:
        parse(text)
    return str(caught.value)


# --- shipped spaces


def test_there_are_shipped_spaces() -> None:
    assert {"demo", "dual-gpu", "long-context", "p2p", "quick", "session"} <= {path.stem for path in SHIPPED}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_spaces_can_be_read(path: Path) -> None:
    space = parse_space(path.stem, tomllib.loads(path.read_text(encoding="utf-8")))
    assert space.name == path.stem
    assert space.about
    assert space.parameters


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_no_shipped_start_is_against_a_rule(path: Path) -> None:
    space = parse_space(path.stem, tomllib.loads(path.read_text(encoding="utf-8")))
    assert [start.about for start in space.starts if broken_rule(space, start.options)] == []


# --- what a document becomes


def test_every_part_of_a_document() -> None:
    space = parse("""
        about = " two cards "
        [fixed]
        parallel = 1
        GGML_CUDA_P2P = ""
        [parameters.spec-draft-p-min]
        kind = "float"
        low = 0
        high = 0.9
        step = 0.1
        when = { spec-type = "draft-mtp" }
        [parameters.spec-draft-n-max]
        kind = "int"
        low = 1
        high = 7
        step = 2
        default = 3
        when = { spec-type = ["draft-mtp", "draft-simple"] }
        [parameters.spec-type]
        kind = "choice"
        choices = ["none", "draft-mtp"]
        [parameters.tensor-split]
        kind = "split"
        layer_steps = 16
        [parameters.device]
        kind = "devices"
        orders = true
        [[rules]]
        left = "ubatch-size"
        op = "<="
        right = "batch-size"
        [[start]]
        about = "even"
        tensor-split = [1, 1]
        spec-draft-p-min = 0
        [[caps]]
        when = { split-mode = "tensor" }
        launches = 3
    """)
    assert (space.name, space.about) == ("s.toml", "two cards")
    assert dict(space.fixed) == {"parallel": 1, "GGML_CUDA_P2P": ""}
    with_drafts = (("spec-type", ("draft-mtp", "draft-simple")),)
    assert set(space.parameters) == {
        Choice("spec-type", ("none", "draft-mtp"), "none"),
        FloatRange("spec-draft-p-min", 0.0, 0.9, 0.1, 0.0, (("spec-type", ("draft-mtp",)),)),
        IntRange("spec-draft-n-max", 1, 7, 2, 3, with_drafts),
        Split("tensor-split", 16, 20),
        Devices("device", subsets=False, orders=True),
    }
    assert space.rules == (Rule("ubatch-size", "<=", "batch-size", right_is_option=True),)
    assert space.caps == (Cap((("split-mode", ("tensor",)),), 3),)
    (start,) = space.starts
    assert (start.about, dict(start.options)) == ("even", {"tensor-split": (1, 1), "spec-draft-p-min": 0.0})


def test_an_empty_document_is_a_space_of_one_point() -> None:
    space = parse("")
    assert (space.about, space.parameters, space.rules, space.starts, space.caps) == ("", (), (), (), ())


def test_parents_come_before_the_parameters_that_name_them() -> None:
    space = parse("""
        [parameters.tensor-split]
        kind = "split"
        [parameters.ubatch-size]
        kind = "choice"
        choices = [128]
        when = { kv-unified = true }
        [parameters.device]
        kind = "devices"
        [parameters.kv-unified]
        kind = "choice"
        choices = [false, true]
        when = { split-mode = "layer" }
        [parameters.split-mode]
        kind = "choice"
        choices = ["layer"]
    """)
    names = [parameter.name for parameter in space.parameters]
    assert names.index("split-mode") < names.index("device") < names.index("tensor-split")
    assert names.index("split-mode") < names.index("kv-unified") < names.index("ubatch-size")


@pytest.mark.parametrize("number", ["0", "0.0"])
def test_a_number_is_the_same_with_and_without_a_point(number: str) -> None:
    space = parse(f"[fixed]\nspec-draft-p-min = {number}")
    assert repr(space.fixed["spec-draft-p-min"]) == "0.0"


def test_a_rule_can_name_a_value() -> None:
    space = parse('[[rules]]\nleft = "ubatch-size"\nop = ">"\nright = 512')
    assert space.rules == (Rule("ubatch-size", ">", 512, right_is_option=False),)


# --- wrong documents

CHOICE = 'kind = "choice"\nchoices = [1, 2]\n'
WRONG = {
    # whole document
    "surprise = 1": "surprise: unknown key; known here: about, caps,",
    "about = 3": "about: must be a text, got 3",
    "fixed = 3": "fixed: must be a table, got 3",
    "parameters = []": "parameters: must be a table, got []",
    "rules = 3": "rules: must be an array of tables ([[rules]]), got 3",
    "rules = [3]": "rules[0]: must be a table, got 3",
    "[start]\nparallel = 1": "start: must be an array of tables ([[start]])",
    # options and values
    "[fixed]\nubatch_size = 1": "fixed.ubatch_size: unknown option 'ubatch_size'; options are spelled",
    "[fixed]\nubatch-size = '1'": "fixed.ubatch-size: must be a whole number, got '1'",
    "[fixed]\nubatch-size = 1.5": "fixed.ubatch-size: must be a whole number, got 1.5",
    "[fixed]\nubatch-size = true": "fixed.ubatch-size: must be a whole number, got True",
    "[fixed]\nflash-attn = true": "fixed.flash-attn: must be a text, got True",
    "[fixed]\nkv-unified = 'on'": "fixed.kv-unified: must be",
    "[fixed]\nspec-draft-p-min = 'x'": "fixed.spec-draft-p-min: must be a number, got 'x'",
    "[fixed]\nspec-draft-p-min = inf": "fixed.spec-draft-p-min: must be a number, got inf",
    "[fixed]\nspec-draft-p-min = nan": "fixed.spec-draft-p-min: must be a number, got nan",
    "[fixed]\ndevice = 'CUDA0'": "fixed.device: must be a list of device names, got 'CUDA0'",
    "[fixed]\ndevice = []": "fixed.device: must be a list of device names, got ()",
    "[fixed]\ntensor-split = [0, 0]": "fixed.tensor-split: must be a list of whole numbers, got (0, 0)",
    "[fixed]\ntensor-split = [-1, 2]": "fixed.tensor-split: must be a list of whole numbers",
    "[fixed]\ntensor-split = [0.5, 1]": "fixed.tensor-split: must be a list of whole numbers",
    "[fixed]\nGGML_CUDA_P2P = 1": "fixed.GGML_CUDA_P2P: must be a text, got 1",
    # parameters
    "[parameters.ubatch]\n" + CHOICE: "parameters.ubatch: unknown option 'ubatch'",
    "[parameters]\nubatch-size = 3": "parameters.ubatch-size: must be a table, got 3",
    "[fixed]\npoll = 1\n[parameters.poll]\n" + CHOICE: "parameters.poll: is fixed as well (fixed.poll)",
    "[parameters.poll]\nlow = 1": "parameters.poll.kind: must be one of choice, int, float, split, devices",
    "[parameters.poll]\nkind = ['int']": "parameters.poll.kind: must be one of choice, int,",
    "[parameters.poll]\nlow = 1\n" + CHOICE: "parameters.poll.low: unknown key; known here: choices, default",
    "[parameters.device]\n" + CHOICE: "parameters.device.kind: device is of kind devices, got 'choice'",
    "[parameters.poll]\nkind = 'split'": "parameters.poll.kind: poll is of kind choice, int or float, got",
    "[parameters.poll]\nkind = 'choice'": "parameters.poll.choices: must be a list of at least one value",
    "[parameters.poll]\nkind = 'choice'\nchoices = []": "parameters.poll.choices: must be a list of at least",
    "[parameters.poll]\nkind = 'choice'\nchoices = [1, 'x']": "parameters.poll.choices[1]: must be a whole",
    "[parameters.poll]\nkind = 'choice'\nchoices = [1, 1]": "parameters.poll.choices: holds the same value",
    "[parameters.poll]\ndefault = 3\n" + CHOICE: "parameters.poll.default: 3 is none of the choices",
    "[parameters.poll]\nwhen = 3\n" + CHOICE: "parameters.poll.when: must be a table, got 3",
    "[parameters.poll]\nwhen = { prio = [] }\n" + CHOICE: "parameters.poll.when.prio: allows nothing",
    "[parameters.poll]\nwhen = { prio = 'x' }\n"
    + CHOICE: "parameters.poll.when.prio: must be a whole number",
    "[parameters.poll]\nwhen = { x = 1 }\n" + CHOICE: "parameters.poll.when.x: unknown option 'x'",
    "[parameters.poll]\nkind = 'int'\nlow = 1": "parameters.poll.high: is missing",
    "[parameters.poll]\nkind = 'int'\nhigh = 1": "parameters.poll.low: is missing",
    "[parameters.poll]\nkind = 'int'\nlow = 2\nhigh = 1": "parameters.poll.high: must be at least low (2)",
    "[parameters.poll]\nkind = 'int'\nlow = 0.5\nhigh = 1": "parameters.poll.low: must be a whole number",
    "[parameters.poll]\nkind = 'int'\nlow = 1\nhigh = 9\nstep = 0": "parameters.poll.step: must be above 0",
    "[parameters.poll]\nkind = 'int'\nlow = 1\nhigh = 8\nstep = 2": (
        "parameters.poll.high: must be 1 plus whole steps of 2, got 8"
    ),
    "[parameters.poll]\nkind = 'int'\nlow = 1\nhigh = 9\nstep = 2\ndefault = 2": (
        "parameters.poll.default: must be 1 plus whole steps of 2, got 2"
    ),
    "[parameters.poll]\nkind = 'int'\nlow = 1\nhigh = 9\ndefault = 10": (
        "parameters.poll.default: must lie from 1 to 9, got 10"
    ),
    "[parameters.poll]\nkind = 'float'\nlow = 1\nhigh = 9": (
        "parameters.poll.kind: poll is a whole number: use kind int"
    ),
    "[parameters.spec-draft-p-min]\nkind = 'int'\nlow = 0\nhigh = 1": (
        "parameters.spec-draft-p-min.kind: spec-draft-p-min is a number: use kind float"
    ),
    "[parameters.spec-draft-p-min]\nkind = 'float'\nlow = 0\nhigh = 0.9\nstep = 0.25": (
        "parameters.spec-draft-p-min.high: must be 0.0 plus whole steps of 0.25, got 0.9"
    ),
    "[parameters.load-mode]\nkind = 'int'\nlow = 0\nhigh = 1": (
        "parameters.load-mode.kind: load-mode is a text: use kind choice"
    ),
    "[parameters.GGML_CUDA_P2P]\nkind = 'int'\nlow = 0\nhigh = 1": (
        "parameters.GGML_CUDA_P2P.kind: GGML_CUDA_P2P is a text: use kind choice"
    ),
    "[parameters.tensor-split]\nkind = 'split'\nlayer_steps = 1": (
        'parameters.tensor-split.layer_steps: must be "layers" or a whole number above 1, got 1'
    ),
    "[parameters.tensor-split]\nkind = 'split'\ntensor_steps = true": (
        "parameters.tensor-split.tensor_steps: must be a whole number above 1, got True"
    ),
    "[parameters.device]\nkind = 'devices'\norders = 1": (
        "parameters.device.orders: must be true or false, got 1"
    ),
    # conditions in a circle
    "[parameters.poll]\nwhen = { prio = 1 }\n"
    + CHOICE
    + "[parameters.prio]\nwhen = { poll = 1 }\n"
    + CHOICE: ("parameters.poll.when: goes in a circle"),
    "[parameters.poll]\nwhen = { poll = 1 }\n" + CHOICE: "parameters.poll.when: goes in a circle",
    "[parameters.device]\nkind = 'devices'\n[parameters.split-mode]\nkind = 'choice'\nchoices = ['layer']\n"
    "when = { device = [['CUDA0']] }": "parameters.device.when: goes in a circle",
    # rules, starts, caps
    "[[rules]]\nleft = 'poll'\nop = '<'": "rules[0].right: is missing",
    "[[rules]]\nleft = 'poll'\nright = 1\nop = '~'": "rules[0].op: must be one of <= < == != >= >, got '~'",
    "[[rules]]\nleft = 1\nright = 1\nop = '<'": "rules[0].left: must be an option's name, got 1",
    "[[rules]]\nleft = 'x'\nright = 1\nop = '<'": "rules[0].left: unknown option 'x'",
    "[[rules]]\nleft = 'poll'\nright = 'pol'\nop = '<'": "rules[0].right: must be a whole number, got 'pol'",
    "[[rules]]\nleft = 'poll'\nright = 1\nop = '<'\nif = 1": "rules[0].if: unknown key; known here: left, op",
    "[[start]]\npoll = 1\n[[start]]\npol = 1": "start[1].pol: unknown option 'pol'",
    "[[start]]\nabout = 'x'": "start[0]: sets no option",
    "[[start]]\nabout = 1": "start[0].about: must be a text, got 1",
    "[[caps]]\nlaunches = 1": "caps[0].when: is missing: which candidates does it count?",
    "[[caps]]\nwhen = { poll = 1 }": "caps[0].launches: must be a whole number from 0 on, got None",
    "[[caps]]\nwhen = { poll = 1 }\nlaunches = -1": "caps[0].launches: must be a whole number from 0",
    "[[caps]]\nwhen = { poll = 1 }\nlaunches = 1\nx = 1": "caps[0].x: unknown key; known here: launches",
}


@pytest.mark.parametrize(("text", "says"), WRONG.items(), ids=WRONG.values())
def test_wrong_documents_are_refused_by_dotted_key(text: str, says: str) -> None:
    message = refusal(text)
    assert message.startswith(f"s.toml: {says}"), message


@pytest.mark.parametrize(("version", "got"), [("", "None"), ("schema_version = 2", "2")])
def test_another_version_is_refused(version: str, got: str) -> None:
    with pytest.raises(SpaceError, match=rf"^s: schema_version: must be 1, got {got}$"):
        parse_space("s", tomllib.loads(version))


_plain: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(-2, 2)
    | st.sampled_from(["layer", "int", "<"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "low", "high", "step", "when", "choices", "poll", "left", "op", "right"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@PROPERTY
@given(
    st.fixed_dictionaries(
        {"schema_version": st.just(1)},
        optional={
            "fixed": _plain,
            "parameters": st.dictionaries(st.sampled_from(["poll", "device", "spec-draft-p-min"]), _plain),
            "rules": st.lists(_plain, max_size=2),
            "start": st.lists(_plain, max_size=2),
            "caps": st.lists(_plain, max_size=2),
        },
    )
)
def test_no_document_does_worse_than_a_space_error(document: dict[str, Any]) -> None:
    with contextlib.suppress(SpaceError):
        parse_space("any", document)


def test_threads_are_parts_of_the_hosts_cores() -> None:
    document = {"schema_version": 1, "parameters": {"threads": {"kind": "cores"}}}
    space = parse_space("s", document, Cores(physical=6, logical=12))
    assert space.parameters == (Choice("threads", (3, 4, 6, 12), 6),)


def test_what_lies_in_ram_comes_after_the_split_that_it_belongs_to() -> None:
    kinds = {"override-tensor": "in-ram", "tensor-split": "split", "device": "devices"}
    parameters = {name: {"kind": kind} for name, kind in kinds.items()}
    space = parse_space("s", {"schema_version": 1, "parameters": parameters})
    assert [parameter.name for parameter in space.parameters] == ["device", "tensor-split", "override-tensor"]


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("ubatch-size", "cores", "is no number of threads"),
        ("ubatch-size", "in-ram", "is of kind choice, int or float"),
        ("override-tensor", "int", "is of kind in-ram"),
    ],
)
def test_kinds_of_host_parameters_are_for_these_alone(name: str, kind: str, said: str) -> None:
    with pytest.raises(SpaceError, match=said):
        parse_space("s", {"schema_version": 1, "parameters": {name: {"kind": kind}}})
