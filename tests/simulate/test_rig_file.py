from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.played_rigs import RIGS, document, rig_names
from tuner.simulate.played_rig import Curse
from tuner.simulate.rig_file import parse_rig, read_rig

if TYPE_CHECKING:
    from pathlib import Path


def test_every_value_of_the_measured_pair_is_read() -> None:
    rig = read_rig(RIGS / "h200-pair.toml")
    assert rig.name == "h200-pair"
    assert rig.build == 11_434
    assert [(d.name, d.mem_mib, d.free_mib, d.bw, d.flops) for d in rig.devices] == [
        ("CUDA0", 143_155, 142_629, 2.02e12, 2.0e14),
        ("CUDA1", 143_155, 140_577, 0.885e12, 0.95e14),
    ]
    assert (rig.link.reduce_us, rig.link.hop_us, rig.link.internal, rig.link.p2p) == (42, 120, 1.04, 0.98)
    assert rig.host.bw == 1.5e11
    model = rig.model
    assert (model.layers, model.mtp_layers, model.full_attn_layers) == (64, 1, 16)
    assert (model.kv_heads, model.head_dim, model.ctx_train) == (4, 256, 262_144)
    assert (model.layers_mib, model.output_mib, model.mtp_mib, model.rs_mib) == (24_684, 1288, 420, 150)
    assert (model.attn_part, model.compute_scale, model.load_s) == (0.27, 0.4, 5.0)
    assert (model.overhead_ms, model.verify, model.flops_tok) == (0.6, 0.05, 5.4e10)
    assert (model.draft_ms, model.draft_sync_ms) == (1.6, 1.3)
    assert model.accepted("code")[0] == 0.93
    assert model.accepted("a class of its own") == model.accept["default"]
    assert (rig.noise.base, rig.noise.per_draft, rig.noise.launch) == (0.008, 0.004, 0.01)


@pytest.mark.parametrize("name", rig_names())
def test_every_rig_of_the_bench_can_be_read(name: str) -> None:
    text = (RIGS / f"{name}.toml").read_text(encoding="utf-8")
    assert read_rig(RIGS / f"{name}.toml").devices
    assert text.startswith("# ")


def test_the_rigs_of_the_bench_have_every_quirk() -> None:
    rigs = [read_rig(RIGS / f"{name}.toml") for name in rig_names()]
    assert len(rigs) >= 11
    assert any(rig.quirks.curses for rig in rigs)
    assert any("tensor" in rig.quirks.garbage for rig in rigs)
    assert any(rig.quirks.unsupported for rig in rigs)
    assert any(rig.quirks.splits_cost_us for rig in rigs)
    assert any(rig.quirks.page_cache.first_load_slow > 1 for rig in rigs)
    assert any(device.display_mib for rig in rigs for device in rig.devices)
    assert any(len(rig.devices) == 3 for rig in rigs)
    assert {rig.workload.ctx for rig in rigs} >= {8192, 229_376}


def test_what_a_file_may_leave_out_has_no_effect() -> None:
    plain = document()
    del plain["build"], plain["host"], plain["workload"]
    rig = parse_rig("r", plain)
    assert rig.workload.ctx == 16_384
    assert (rig.noise.base, rig.noise.per_draft, rig.noise.launch) == (0, 0, 0)
    assert (rig.quirks.curses, rig.quirks.garbage, rig.quirks.unsupported) == ((), frozenset(), ())
    assert rig.devices[0].display_mib == rig.devices[0].lag_us == 0


def test_context_may_stand_with_the_model() -> None:
    plain = document(model={"ctx": 32_768})
    del plain["workload"]
    assert parse_rig("r", plain).workload.ctx == 32_768


def test_a_curse_names_options_and_a_split_is_one_value() -> None:
    when = {"split-mode": "tensor", "cache-type-k": ["f16", "q8_0"], "tensor-split": [2, 3]}
    rig = parse_rig("r", document(quirks={"cursed": {"slow": 3, "when": when}}))
    names = (
        ("split-mode", ("tensor",)),
        ("cache-type-k", ("f16", "q8_0")),
        ("tensor-split", ((2, 3),)),
    )
    assert rig.quirks.curses == (Curse(3.0, names),)


def test_slow_below_one_is_what_is_left_of_the_speed() -> None:
    curses = [{"slow": 0.25, "when": {"ubatch-size": 512}}, {"slow": 2, "when": {"ubatch-size": 128}}]
    rig = parse_rig("r", document(quirks={"cursed": curses}))
    assert [curse.slow for curse in rig.quirks.curses] == [4.0, 2.0]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"colour": {"red": 1}}, "r: colour: unknown key; known here: build, device"),
        ({"model": {"layer": 8}}, "r: model.layer: unknown key; known here: accept,"),
        ({"link": {"reduce_us": -1}}, "r: link.reduce_us: must be at least 0, got -1"),
        ({"model": {"layers": 8.5}}, "r: model.layers: must be a whole number, got 8.5"),
        ({"model": {"full_attn_layers": 9}}, "r: model.full_attn_layers: must be from 0 to 8, got 9"),
        ({"model": {"accept": {"code": [0.9]}}}, "r: model.accept.default: is missing"),
        ({"model": {"accept": {"default": [1.2]}}}, "r: model.accept.default: must be at most 1, got 1.2"),
        ({"model": {"accept": {"default": "x"}}}, "r: model.accept.default: must be a list of prob"),
        ({"quirks": {"cursed": {"slow": 2}}}, "r: quirks.cursed.when: must be a table, got None"),
        (
            {"quirks": {"cursed": {"slow": 2, "when": {"ubatch": 1}}}},
            "r: quirks.cursed.when.ubatch: unknown option 'ubatch'",
        ),
        ({"quirks": {"garbage": {"diagonal": True}}}, "r: quirks.garbage.diagonal: unknown key"),
        ({"noise": {"base": float("nan")}}, "r: noise.base: must be a number, got nan"),
        ({"workload": {"classes": []}}, "r: workload.classes: must be a list of prompt classes"),
    ],
)
def test_what_is_wrong_is_named_with_its_key(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        parse_rig("r", document(**tables))
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("key", ["bw", "flops", "free_mib", "mem_mib", "name"])
def test_a_card_without_a_figure_is_named(key: str) -> None:
    plain = document()
    del plain["device"][1][key]
    with pytest.raises(ValueError, match=rf"r: device\[1\].{key}: is missing"):
        parse_rig("r", plain)


def test_a_card_that_has_more_free_than_it_has_is_refused() -> None:
    plain = document()
    plain["device"][0]["free_mib"] = 16_001
    with pytest.raises(ValueError, match=r"device\[0\].free_mib: must be from 0 to 16000, got 16001"):
        parse_rig("r", plain)


def test_two_cards_of_one_name_are_refused() -> None:
    plain = document()
    plain["device"][1]["name"] = "CUDA0"
    with pytest.raises(ValueError, match="device: two have the same name"):
        parse_rig("r", plain)


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[[device]\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"bad\.toml: is no TOML"):
        read_rig(path)


def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "half.toml"
    path.write_text("build = 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"half\.toml: device: is missing: write one \[\[device\]\]"):
        read_rig(path)
