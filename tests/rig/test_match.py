"""Engine devices and driver cards: what is certain is matched, what is not is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.rig import Device, DeviceUser
from tuner.rig.match import match_devices
from tuner.rig.nvml import NvidiaGpu, NvmlReading

# Total as NVML says, total as CUDA says.
MODELS = {
    "5080": ("NVIDIA GeForce RTX 5080", 16303, 15840),
    "3090": ("NVIDIA GeForce RTX 3090", 24576, 24126),
    "1080": ("NVIDIA GeForce GTX 1080", 8192, 8107),
}
CONTEXT_MIB = 300  # what the engine's own CUDA context takes when it asks for free memory


def card(index: int, model: str, *, used_mib: int = 50) -> NvidiaGpu:
    """The card in the slot of that index; its UUID is `GPU-` and the index."""
    name, total_mib, _ = MODELS[model]
    return NvidiaGpu(
        index=index,
        uuid=f"GPU-{index}",
        name=name,
        bus_id=f"00000000:{index + 1:02X}:00.0",
        total_mib=total_mib,
        used_mib=used_mib,
        free_mib=total_mib - 450 - used_mib,
    )


def cards(*models: str) -> NvmlReading:
    return NvmlReading(gpus=tuple(card(index, model) for index, model in enumerate(models)), driver="580.1")


def device(ordinal: int, model: str, *, used_mib: int = 50) -> Device:
    name, _, total_mib = MODELS[model]
    return Device(f"CUDA{ordinal}", name, total_mib, total_mib - CONTEXT_MIB - used_mib)


def devices(*models: str) -> tuple[Device, ...]:
    return tuple(device(ordinal, model) for ordinal, model in enumerate(models))


def silenced(gpu: NvidiaGpu, *, has_name: bool, has_bus: bool, has_memory: bool) -> NvidiaGpu:
    return replace(
        gpu,
        name=gpu.name if has_name else None,
        bus_id=gpu.bus_id if has_bus else None,
        total_mib=gpu.total_mib if has_memory else None,
        used_mib=gpu.used_mib if has_memory else None,
        free_mib=gpu.free_mib if has_memory else None,
    )


def uuids(engine_devices: tuple[Device, ...], reading: NvmlReading, **environ: str) -> list[str | None]:
    return [found.uuid for found in match_devices(engine_devices, reading, environ)]


def test_everything_the_driver_knows_is_added() -> None:
    user = DeviceUser(4711, "Xorg", 700)
    gpu = replace(card(0, "3090", used_mib=700), users=(user,))
    (found,) = match_devices(devices("3090"), NvmlReading((gpu,)), {})
    assert found == replace(
        device(0, "3090"), uuid="GPU-0", bus_id="00000000:01:00.0", users=(user,), used_by_others_mib=700
    )


def test_unlike_cards_are_matched_by_name_in_whatever_order() -> None:
    assert uuids(devices("5080", "3090"), cards("3090", "5080")) == ["GPU-1", "GPU-0"]
    assert uuids(devices("5080", "3090"), cards("5080", "3090")) == ["GPU-0", "GPU-1"]


def test_like_cards_keep_the_order_of_their_buses() -> None:
    assert uuids(devices("3090", "3090"), cards("3090", "3090")) == ["GPU-0", "GPU-1"]


def test_bus_counts_and_not_the_order_of_the_reading() -> None:
    reading = NvmlReading(gpus=cards("3090", "3090").gpus[::-1])
    assert uuids(devices("3090", "3090"), reading) == ["GPU-0", "GPU-1"]


def test_mixed_rig_with_two_alike() -> None:
    assert uuids(devices("5080", "3090", "3090"), cards("3090", "5080", "3090")) == [
        "GPU-1",
        "GPU-0",
        "GPU-2",
    ]


def test_some_devices_of_the_list_are_told_by_their_number() -> None:
    assert uuids((device(1, "3090"),), cards("3090", "3090")) == ["GPU-1"]
    assert uuids(devices("3090", "3090")[::-1], cards("3090", "3090")) == ["GPU-1", "GPU-0"]


def test_bus_order_is_used_where_it_is_asked_for() -> None:
    found = uuids(
        devices("3090", "5080", "3090"), cards("3090", "5080", "3090"), CUDA_DEVICE_ORDER="PCI_BUS_ID"
    )
    assert found == ["GPU-0", "GPU-1", "GPU-2"]


def test_bus_order_with_selected_positions() -> None:
    found = uuids(
        devices("3090", "5080"),
        cards("3090", "5080", "3090"),
        CUDA_DEVICE_ORDER="PCI_BUS_ID",
        CUDA_VISIBLE_DEVICES="2,1",
    )
    assert found == ["GPU-2", "GPU-1"]


def test_bus_order_that_contradicts_the_names_matches_nothing() -> None:
    found = uuids(devices("5080", "3090"), cards("3090", "5080"), CUDA_DEVICE_ORDER="PCI_BUS_ID")
    assert found == [None, None]


def test_bus_order_serves_a_card_that_does_not_tell_its_name() -> None:
    reading = NvmlReading(gpus=(replace(card(0, "3090"), name=None), card(1, "3090")))
    assert uuids(devices("3090", "3090"), reading, CUDA_DEVICE_ORDER="PCI_BUS_ID") == ["GPU-0", "GPU-1"]
    assert uuids(devices("3090"), reading, CUDA_DEVICE_ORDER="PCI_BUS_ID") == ["GPU-0"]


def test_selected_uuids_are_used_in_their_order() -> None:
    found = uuids(devices("3090", "3090"), cards("3090", "5080", "3090"), CUDA_VISIBLE_DEVICES="GPU-2,GPU-0")
    assert found == ["GPU-2", "GPU-0"]


def test_a_unique_beginning_of_a_uuid_is_enough() -> None:
    gpus = (
        replace(card(0, "3090"), uuid="GPU-8932f937-d72c"),
        replace(card(1, "3090"), uuid="GPU-8932aaaa-0000"),
    )
    reading = NvmlReading(gpus)
    assert uuids(devices("3090"), reading, CUDA_VISIBLE_DEVICES="GPU-8932a") == ["GPU-8932aaaa-0000"]
    assert uuids(devices("3090"), reading, CUDA_VISIBLE_DEVICES="GPU-8932") == [None]


def test_a_slice_of_a_card_is_no_card() -> None:
    assert uuids(devices("3090"), cards("3090"), CUDA_VISIBLE_DEVICES="MIG-1234") == [None]


@pytest.mark.parametrize(
    ("visible", "seen", "expected"),
    [
        ("0,1", ("3090", "3090"), ["GPU-0", "GPU-1"]),
        ("1,0", ("3090", "3090"), ["GPU-1", "GPU-0"]),
        (" 1 , 0 ", ("3090", "3090"), ["GPU-1", "GPU-0"]),
        ("1", ("3090",), ["GPU-1"]),
        ("1,-1,0", ("3090",), ["GPU-1"]),
        ("1,1", ("3090",), ["GPU-1"]),
    ],
)
def test_selected_positions_of_like_cards(
    visible: str, seen: tuple[str, ...], expected: list[str | None]
) -> None:
    assert uuids(devices(*seen), cards("3090", "3090"), CUDA_VISIBLE_DEVICES=visible) == expected


def test_selected_positions_of_a_mixed_rig() -> None:
    # CUDA's order may be 5080, 3090, 3090 (but need not): either way the second 3090 is the last of all.
    reading = cards("3090", "5080", "3090")
    all_turned = uuids(devices("3090", "3090", "5080"), reading, CUDA_VISIBLE_DEVICES="2,1,0")
    assert all_turned == ["GPU-2", "GPU-0", "GPU-1"]
    assert uuids(devices("3090"), reading, CUDA_VISIBLE_DEVICES="2") == ["GPU-2"]
    assert uuids(devices("5080", "3090"), reading, CUDA_VISIBLE_DEVICES="0,1") == ["GPU-1", "GPU-0"]


def test_a_position_that_does_not_tell_like_cards_apart_is_left_open() -> None:
    # Position 1 is the first 3090 if the 5080 comes first, and the second if it comes last.
    assert uuids(devices("3090"), cards("3090", "5080", "3090"), CUDA_VISIBLE_DEVICES="1") == [None]


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
def test_a_device_that_is_not_selected_is_left_alone(visible: str) -> None:
    assert uuids(devices("3090"), cards("3090"), CUDA_VISIBLE_DEVICES=visible) == [None]


def test_free_memory_tells_like_cards_apart() -> None:
    reading = NvmlReading(gpus=(card(0, "3090", used_mib=9000), card(1, "3090")))
    crossed = (device(0, "3090"), device(1, "3090", used_mib=9000))
    assert uuids(crossed, reading) == ["GPU-1", "GPU-0"]


def test_free_memory_decides_what_a_position_leaves_open() -> None:
    reading = NvmlReading(gpus=(card(0, "3090", used_mib=9000), card(1, "5080"), card(2, "3090")))
    assert uuids(devices("3090"), reading, CUDA_VISIBLE_DEVICES="1") == ["GPU-2"]


def test_a_small_difference_of_free_memory_does_not_overrule_the_bus() -> None:
    reading = NvmlReading(gpus=(card(0, "3090", used_mib=700), card(1, "3090")))
    crossed = (device(0, "3090"), device(1, "3090", used_mib=700))
    assert uuids(crossed, reading) == ["GPU-0", "GPU-1"]


def test_one_name_with_two_sizes_is_told_by_memory() -> None:
    large = replace(card(0, "3090"), name="NVIDIA GeForce RTX 3060", total_mib=12288)
    small = replace(card(1, "3090"), name="NVIDIA GeForce RTX 3060", total_mib=8192)
    seen = (
        Device("CUDA0", "NVIDIA GeForce RTX 3060", 8000, 7700),
        Device("CUDA1", "NVIDIA GeForce RTX 3060", 11900, 11600),
    )
    assert uuids(seen, NvmlReading((large, small))) == ["GPU-1", "GPU-0"]


@pytest.mark.parametrize(("total_mib", "expected"), [(23400, "GPU-0"), (23300, None), (25900, None)])
def test_total_memory_may_differ_by_a_twentieth(total_mib: int, expected: str | None) -> None:
    seen = replace(device(0, "3090"), total_mib=total_mib)
    assert uuids((seen,), cards("3090")) == [expected]


def test_a_card_that_does_not_tell_its_memory_is_matched_by_name() -> None:
    gpu = replace(card(0, "3090"), total_mib=None, used_mib=None, free_mib=None)
    (found,) = match_devices(devices("3090"), NvmlReading((gpu,)), {})
    assert (found.uuid, found.used_by_others_mib) == ("GPU-0", 0)


def test_the_makers_name_in_front_is_no_difference() -> None:
    gpu = replace(card(0, "3090"), name="GeForce RTX 3090")
    assert uuids(devices("3090"), NvmlReading((gpu,))) == ["GPU-0"]


def test_more_devices_than_like_cards_are_left_alone() -> None:
    assert uuids(devices("3090", "3090"), cards("3090")) == [None, None]


def test_unknown_card_is_left_alone_and_the_others_are_matched() -> None:
    assert uuids(devices("5080", "1080", "3090"), cards("3090", "5080")) == ["GPU-1", None, "GPU-0"]


def test_devices_that_are_not_cuda_are_untouched() -> None:
    others = (
        Device("ROCm0", "AMD Radeon RX 7900 XTX", 24560, 24500),
        Device("Vulkan0", MODELS["3090"][0], MODELS["3090"][2], 23000),
        Device("RPC0", "192.168.1.2:50052", 24126, 23800),
    )
    mixed = (others[0], device(0, "3090"), *others[1:])
    found = match_devices(mixed, cards("3090"), {})
    assert found[1].uuid == "GPU-0"
    assert (found[0], *found[2:]) == others


def test_without_a_driver_nothing_changes() -> None:
    assert match_devices(devices("5080", "3090"), NvmlReading(), {}) == devices("5080", "3090")


environs = st.fixed_dictionaries(
    {},
    optional={
        "CUDA_DEVICE_ORDER": st.sampled_from(["PCI_BUS_ID", "FASTEST_FIRST", ""]),
        "CUDA_VISIBLE_DEVICES": st.lists(
            st.sampled_from(["0", "1", "2", "3", "9", "GPU-0", "GPU-2", "GPU-", "MIG-0", "-1", "", "x"]),
            max_size=5,
        ).map(",".join),
    },
)
any_card_sizes = st.tuples(st.sampled_from(sorted(MODELS)), st.integers(0, 8000))


@given(
    seen=st.lists(st.tuples(st.sampled_from(["CUDA", "RPC"]), st.integers(0, 5), any_card_sizes), max_size=6),
    there=st.lists(st.tuples(any_card_sizes, st.booleans(), st.booleans(), st.booleans()), max_size=6),
    environ=environs,
)
def test_no_card_is_given_twice_and_the_list_is_kept(
    seen: list[tuple[str, int, tuple[str, int]]],
    there: list[tuple[tuple[str, int], bool, bool, bool]],
    environ: dict[str, str],
) -> None:
    engine_devices = tuple(
        replace(device(ordinal, model, used_mib=used), name=f"{kind}{ordinal}")
        for kind, ordinal, (model, used) in seen
    )
    gpus = tuple(
        silenced(card(index, model, used_mib=used), has_name=name, has_bus=bus, has_memory=memory)
        for index, ((model, used), name, bus, memory) in enumerate(there)
    )
    found = match_devices(engine_devices, NvmlReading(gpus), environ)
    without_driver = (replace(one, uuid=None, bus_id=None, users=(), used_by_others_mib=0) for one in found)
    assert tuple(without_driver) == engine_devices
    given_out = [one.uuid for one in found if one.uuid is not None]
    assert len(given_out) == len(set(given_out))
    assert all(one.uuid is None for one in found if not one.name.startswith("CUDA"))


@st.composite
def enumerations(draw: st.DrawFn) -> tuple[list[str], list[int]]:
    """Models by bus, and an order that CUDA may have: any, but cards that are alike stay by bus."""
    models = draw(st.lists(st.sampled_from(sorted(MODELS)), min_size=1, max_size=5))
    order_of_models = draw(st.permutations(models))
    left = {model: [i for i, other in enumerate(models) if other == model] for model in models}
    return models, [left[model].pop(0) for model in order_of_models]


@given(enumeration=enumerations(), data=st.data())
def test_what_is_matched_is_right_and_a_full_list_is_matched_whole(
    enumeration: tuple[list[str], list[int]], data: st.DataObject
) -> None:
    models, order = enumeration
    visible = data.draw(st.none() | st.permutations(range(len(order))))
    if visible is not None:
        visible = visible[: data.draw(st.integers(1, len(visible)))]
    seen = [order[position] for position in (range(len(order)) if visible is None else visible)]
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": ",".join(map(str, visible))}
    found = uuids(devices(*(models[index] for index in seen)), cards(*models), **environ)
    truth = [f"GPU-{index}" for index in seen]
    assert all(one in (None, true) for one, true in zip(found, truth, strict=True))
    if len(seen) == len(models):
        assert found == truth
