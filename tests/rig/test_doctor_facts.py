"""What the driver says of how cards are built in, from recordings of whole machines."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.support.played_nvml import CARD, PAIR, PEER, SYSTEM, play, play_recording, record
from tuner.core.checkup.facts import CardFacts, CardPair, DriverFacts, PeerAccess, Topology
from tuner.rig.doctor_facts import read_driver
from tuner.rig.nvml import read_gpus

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "nvml"
#: Functions of `read_gpus`, which has tests of its own.
IDENTITY = frozenset(CARD[:6])


def recording(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8"))
    return document


def facts_of(document: dict[str, Any]) -> DriverFacts:
    nvml = play_recording(document)
    return read_driver(read_gpus(nvml=nvml), nvml=nvml)


def test_every_function_played_exists_in_the_real_module() -> None:
    for name in (*SYSTEM, *CARD, *PAIR, PEER):
        assert callable(getattr(pynvml, name))


def test_unequal_pair_is_read() -> None:
    facts = facts_of(recording("5080-and-3090"))
    assert (facts.version, facts.cuda) == ("580.95.05", (13, 0))
    assert facts.cards[0] == CardFacts(
        index=0,
        uuid="GPU-3090aaaa-1111-2222-3333-444455556666",
        name="NVIDIA GeForce RTX 3090",
        bus_id="00000000:01:00.0",
        total_mib=24576,
        capability=(8, 6),
        pcie_max_generation=4,
        pcie_card_generation=4,
        pcie_max_width=8,
        pcie_now=(1, 8),
        pcie_replays=0,
        bar1_mib=256,
        power_limit_w=280,
        power_default_w=350,
        power_max_w=366,
        persistence=False,
    )
    assert (facts.cards[1].capability, facts.cards[1].bar1_mib) == ((12, 0), 16384)
    assert facts.pairs == (CardPair(0, 1, Topology.BRIDGE, PeerAccess.CHIPSET, nvlink=False),)


def test_riser_is_seen_in_width_and_repeated_transfers() -> None:
    good, bad = facts_of(recording("two-3090-one-on-a-riser")).cards
    assert (good.pcie_max_generation, good.pcie_max_width, good.pcie_replays) == (4, 16, 1)
    assert (bad.pcie_max_generation, bad.pcie_max_width, bad.pcie_replays) == (3, 1, 48211)
    assert (bad.pcie_card_generation, bad.pcie_now) == (4, (1, 1))


def test_recorded_server_cards_have_nvlink_and_peer_access() -> None:
    facts = facts_of(recording("two-h200"))
    assert facts.pairs == (CardPair(0, 1, Topology.BRIDGE, PeerAccess.POSSIBLE, nvlink=True),)
    assert [(card.capability, card.bar1_mib, card.persistence) for card in facts.cards] == [
        ((9, 0), 262144, True)
    ] * 2


def test_no_driver_is_no_fact() -> None:
    assert facts_of(recording("no-driver")) == DriverFacts()


@pytest.mark.parametrize("error", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION])
@pytest.mark.parametrize("name", sorted(set(CARD) - IDENTITY))
def test_refused_question_costs_its_fact_alone(name: str, error: int) -> None:
    document = recording("5080-and-3090")
    whole = facts_of(document)
    document["cards"][0][name] = {"error": error}
    partial = facts_of(document)
    first, before = partial.cards[0], whole.cards[0]
    changed = [
        field for field in CardFacts.__dataclass_fields__ if getattr(first, field) != getattr(before, field)
    ]
    assert len(changed) == 1
    assert getattr(first, changed[0]) is None
    assert (partial.cards[1], partial.pairs) == (whole.cards[1], whole.pairs)


def test_driver_that_tells_nothing_of_pairs_leaves_them_unknown() -> None:
    document = recording("5080-and-3090")
    del document["pairs"]
    document["nvmlSystemGetCudaDriverVersion_v2"] = {"error": pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
    facts = facts_of(document)
    assert facts.pairs == (CardPair(0, 1),)
    assert facts.cuda is None


@pytest.mark.parametrize(
    ("said", "topology"),
    [(0, "same board"), (10, "PIX"), (20, "PXB"), (30, "PHB"), (40, "NODE"), (50, "SYS"), (60, None)],
)
def test_each_topology_has_its_word(said: int, topology: str | None) -> None:
    document = recording("5080-and-3090")
    document["pairs"][0][PAIR[0]] = said
    assert facts_of(document).pairs[0].topology == topology


def test_card_that_is_lost_between_two_questions_is_no_crash() -> None:
    nvml = play("5080-and-3090")
    reading = read_gpus(nvml=nvml)

    def lost(_index: int) -> object:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    vars(nvml)["nvmlDeviceGetHandleByIndex"] = lost
    facts = read_driver(reading, nvml=nvml)
    assert [card.capability for card in facts.cards] == [None, None]
    assert facts.pairs == (CardPair(0, 1),)


def test_what_was_recorded_is_played_back() -> None:
    document = recording("two-3090-one-on-a-riser")
    assert record(play_recording(document)) == {
        key: value for key, value in document.items() if key != "about"
    }


def test_this_machine_answers_quickly_with_or_without_a_card() -> None:
    started_s = time.monotonic()
    facts = read_driver(read_gpus())
    assert time.monotonic() - started_s < 20
    assert len(facts.pairs) == len(facts.cards) * (len(facts.cards) - 1) // 2
