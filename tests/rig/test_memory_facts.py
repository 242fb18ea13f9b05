"""What launches have taught, kept with the rig."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.memory.learned import Observation
from tuner.errors import RigError
from tuner.rig.memory_facts import MemoryFacts, default_folder

if TYPE_CHECKING:
    from collections.abc import Callable

RIG = ("GPU-a", "GPU-b")
SEEN = Observation("GPU-a", "CUDA/layer", "engine model", 600.0, 600.0)
BOUND = Observation("GPU-b", "CUDA/tensor/nccl", "engine model", None, 1500.5)

_texts = st.text(max_size=8)
_bounds = st.none() | st.floats(-1e6, 1e6)
_observations = st.lists(
    st.builds(Observation, _texts, _texts, _texts, _bounds, _bounds), max_size=5, unique=True
)


@pytest.fixture
def facts(tmp_path: Path) -> MemoryFacts:
    return MemoryFacts(RIG, tmp_path / "rigs")


# --- round trip


def test_nothing_is_known_at_first(facts: MemoryFacts) -> None:
    assert facts.load() == ()


def test_what_was_added_is_known(facts: MemoryFacts) -> None:
    facts.add([SEEN])
    facts.add([BOUND])
    assert facts.load() == (SEEN, BOUND)
    assert MemoryFacts(RIG, facts.path.parent).load() == (SEEN, BOUND)


@PROPERTY
@given(_observations, _observations)
def test_any_observations_come_back_in_their_order(
    tmp_path_factory: pytest.TempPathFactory, first: list[Observation], then: list[Observation]
) -> None:
    facts = MemoryFacts(RIG, tmp_path_factory.mktemp("rigs"))
    facts.add(first)
    facts.add(then)
    assert facts.load() == tuple(dict.fromkeys([*first, *then]))


def test_what_is_known_is_not_doubled(facts: MemoryFacts) -> None:
    facts.add([SEEN, BOUND])
    before = facts.path.stat().st_ino
    facts.add([BOUND, SEEN])
    assert facts.load() == (SEEN, BOUND)
    assert facts.path.stat().st_ino == before


def test_adding_nothing_makes_no_file(facts: MemoryFacts) -> None:
    facts.add([])
    assert not facts.path.parent.exists()


def test_newest_are_kept(facts: MemoryFacts) -> None:
    many = [Observation("GPU-a", "CUDA/layer", "s", float(number), None) for number in range(30)]
    facts.add(many)
    assert facts.load() == tuple(many[6:])


# --- whose file it is


def test_rig_has_one_file_in_whatever_order_its_devices_are(tmp_path: Path) -> None:
    assert MemoryFacts(("GPU-b", "GPU-a"), tmp_path).path == MemoryFacts(RIG, tmp_path).path
    assert MemoryFacts(("GPU-a",), tmp_path).path != MemoryFacts(RIG, tmp_path).path


def test_default_folder_is_the_users_own() -> None:
    assert MemoryFacts(RIG).path.parent == default_folder()
    assert default_folder().parts[-2:] == ("split-ratio-tuner", "rigs")


# --- files that are no use

_ROW = SEEN.to_json()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "7",
        "{}",
        json.dumps({"format": 2, "observations": [_ROW]}),
        json.dumps({"format": 1}),
        json.dumps({"format": 1, "observations": None}),
        json.dumps({"format": 1, "observations": [7]}),
        json.dumps({"format": 1, "observations": ["row"]}),
        json.dumps({"format": 1, "observations": [{"device": "GPU-a"}]}),
        json.dumps({"format": 1, "observations": [{**_ROW, "low_mib": "much"}]}),
        json.dumps({"format": 1, "observations": [{**_ROW, "low_mib": float("nan")}]}),
        json.dumps({"format": 1, "observations": [{**_ROW, "low_mib": 10**400}]}),
    ],
)
def test_damaged_or_foreign_file_says_nothing_and_is_replaced(facts: MemoryFacts, text: str) -> None:
    facts.path.parent.mkdir()
    facts.path.write_text(text, encoding="utf-8")
    assert facts.load() == ()
    facts.add([SEEN])
    assert facts.load() == (SEEN,)


def test_file_that_is_no_text_says_nothing(facts: MemoryFacts) -> None:
    facts.path.parent.mkdir()
    facts.path.write_bytes(b"\xff\xfe\x00")
    assert facts.load() == ()


# --- writing


def _full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(("fail", "error"), [(_full, RigError), (_interrupted, KeyboardInterrupt)])
def test_write_that_fails_leaves_the_old_file_and_nothing_else(
    facts: MemoryFacts,
    monkeypatch: pytest.MonkeyPatch,
    fail: Callable[..., None],
    error: type[BaseException],
) -> None:
    facts.add([SEEN])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(error):
            facts.add([BOUND])
    assert facts.load() == (SEEN,)
    assert list(facts.path.parent.iterdir()) == [facts.path]


def test_folder_that_cannot_be_written_is_named_with_its_remedy(tmp_path: Path) -> None:
    """A file in its place stops root too."""
    (tmp_path / "taken").write_text("", encoding="utf-8")
    facts = MemoryFacts(RIG, tmp_path / "taken")
    with pytest.raises(RigError, match=r"cannot be written: .+; give another folder with --facts") as raised:
        facts.add([SEEN])
    assert str(facts.path) in str(raised.value)
    assert facts.load() == ()
