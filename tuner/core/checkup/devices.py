"""Checks of the devices: which is which, in whose order, and what others hold on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.checkup.check import Check, Level, Topic
from tuner.core.reserve import default_reserve_mib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tuner.core.checkup.facts import CardFacts, DriverFacts
    from tuner.core.rig import Device

#: What the driver itself may seem to hold.
_NOTHING_MIB = 16
#: More than a desktop takes: what others hold beyond it costs a split.
_MUCH_MIB = 2048
_MUCH_SHARE = 0.1


def device_checks(
    devices: Sequence[Device], driver: DriverFacts, *, hidden_by: str | None = None
) -> list[Check]:
    """Each device as the engine and as the driver see it.

    Args:
        devices: In the engine's order, or the user's; without an engine the driver's cards.
        driver: What the driver says of all cards.
        hidden_by: What keeps cards from the engine on purpose, such as an environment variable's value.
    """
    cards = {card.device: card for card in driver.cards if card.device is not None}
    checks = [_device_check(device, cards.get(device.name)) for device in devices]
    checks += _order_checks(devices, cards)
    checks += _unseen_checks(devices, driver, hidden_by) if devices else [_none_check(driver, hidden_by)]
    return checks + [_users_check(device) for device in devices]


def driver_check(driver: DriverFacts) -> Check:
    """The driver's version."""
    if driver.version is None and not driver.cards:
        return Check(Topic.DRIVER, "", Level.OK, "no NVIDIA driver here, so no telemetry (NVML)")
    cuda = "" if driver.cuda is None else f", runs CUDA up to {driver.cuda[0]}.{driver.cuda[1]}"
    return Check(Topic.DRIVER, "", Level.OK, f"NVIDIA {driver.version or 'of unknown version'}{cuda}")


def _device_check(device: Device, card: CardFacts | None) -> Check:
    said = f"{device.description}, {device.free_mib:,} of {device.total_mib:,} MiB free"
    if card is None:
        if device.name.startswith("CUDA"):
            return Check(
                Topic.DEVICES,
                device.name,
                Level.UNKNOWN,
                f"{said}; which of the driver's cards it is cannot be told, so it has no telemetry",
                "set CUDA_DEVICE_ORDER=PCI_BUS_ID: then the engine numbers cards as nvidia-smi does",
            )
        return Check(Topic.DEVICES, device.name, Level.OK, said)
    if card.capability is not None:
        said += f", compute {card.capability[0]}.{card.capability[1]}"
    return Check(
        Topic.DEVICES,
        device.name,
        Level.OK,
        f"{said}, bus {_bus(card)} (nvidia-smi: {card.index}), {card.uuid or 'no UUID'}",
    )


def _bus(card: CardFacts) -> str:
    """Its place, without a domain where that is the first, as most tools show it."""
    return "?" if card.bus_id is None else card.bus_id.removeprefix("00000000:")


def _none_check(driver: DriverFacts, hidden_by: str | None) -> Check:
    if not driver.cards:
        return Check(
            Topic.DEVICES,
            "",
            Level.WARNING,
            "no GPU: the driver shows no card and no engine lists a device",
            "install the card's driver, or name RPC servers: tuner doctor -- --rpc host:port,host:port",
        )
    names = ", ".join(card.name or card.label for card in driver.cards)
    why = "" if hidden_by is None else f" ({hidden_by})"
    return Check(
        Topic.DEVICES,
        "",
        Level.PROBLEM,
        f"the driver shows {names}, and the engine lists no device{why}",
        "see what it was built with, above, and llama-server --list-devices"
        if hidden_by is None
        else "unset it, or list the cards to use",
    )


def _order_checks(devices: Sequence[Device], cards: Mapping[str, CardFacts]) -> list[Check]:
    """Whether counting devices by the bus, as nvidia-smi does, gives the order of `-dev` and `-ts`."""
    engines_own = [device for device in devices if device.name.startswith("CUDA")]
    known = [card for device in engines_own if (card := cards.get(device.name)) is not None]
    if len(known) < 2 or any(card.bus_id is None for card in known):
        return []
    by_bus = sorted(known, key=lambda card: card.bus_id or "")
    engines = ", ".join(card.label for card in known)
    if by_bus == known:
        text = f"{engines}: also their order on the bus; -dev and -ts follow it"
        return [Check(Topic.DEVICES, "order", Level.OK, text)]
    return [
        Check(
            Topic.DEVICES,
            "order",
            Level.WARNING,
            f"-dev and -ts follow the engine's order, {engines}; by the bus, as nvidia-smi counts, it is "
            f"{', '.join(card.label for card in by_bus)}",
            "give -ts in the engine's order, or set CUDA_DEVICE_ORDER=PCI_BUS_ID for both",
        )
    ]


def _unseen_checks(devices: Sequence[Device], driver: DriverFacts, hidden_by: str | None) -> list[Check]:
    """Cards of the driver that the engine does not list; told only if each of its devices is a known card."""
    cuda = [device for device in devices if device.name.startswith("CUDA")]
    if not cuda or any(device.uuid is None for device in cuda):
        return []
    unseen = [card for card in driver.cards if card.device is None]
    if hidden_by is not None:
        level, why, remedy = Level.OK, f"left out by {hidden_by}", ""
    else:
        level, why, remedy = Level.WARNING, "the engine does not list it", "see the build's architectures"
    return [Check(Topic.DEVICES, f"{card.label} ({card.name})", level, why, remedy) for card in unseen]


def _users_check(device: Device) -> Check:
    held = device.used_by_others_mib
    users = ", ".join(
        f"{user.name} (pid {user.pid}{'' if user.used_mib is None else f', {user.used_mib:,} MiB'})"
        for user in device.users
    )
    if device.uuid is None:
        text = "who else uses it cannot be known: no driver tells"
        return Check(Topic.OTHERS, device.name, Level.UNKNOWN, text)
    if held <= _NOTHING_MIB and not users:
        return Check(Topic.OTHERS, device.name, Level.OK, "nobody else uses it")
    said = f"others hold {held:,} MiB" + (f": {users}" if users else "")
    if held > max(_MUCH_MIB, device.total_mib * _MUCH_SHARE):
        return Check(
            Topic.OTHERS,
            device.name,
            Level.WARNING,
            said,
            "end what is not needed: it takes memory and time from every launch",
        )
    kept = f"{default_reserve_mib(device):,} MiB are kept free"
    return Check(Topic.OTHERS, device.name, Level.OK, f"{said}; {kept}")
