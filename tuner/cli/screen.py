"""The first screen: what will be used, what it costs, and what will never be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.cli.build.workload_facts import asked_label, goal_label

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tuner.cli.build.assembly import Assembly
    from tuner.core.rig import Device

#: Bits an element of the KV types that the first screen reckons with.
_F16_BITS, _Q8_0_BITS = 16.0, 8.5
#: A launch of a model that loads from the page cache, for the guess before anything was launched.
_LOAD_BYTES_S = 2e9
_GUESSED_TOK_S = 40.0
_NEVER = (
    "It never changes clocks or power limits, never touches a process that it did not start,",
    "and its servers listen on 127.0.0.1 only.",
)


def first_screen(assembly: Assembly) -> list[str]:
    """The lines to show before anything starts."""
    lines = [
        *_devices(assembly),
        *_engine(assembly),
        *_model(assembly),
        *_work(assembly),
        f"Results: {assembly.study_folder}",
    ]
    if assembly.notes:
        lines += ["Decided before the search:", *(f"  - {note}" for note in assembly.notes)]
    return [*lines, *_NEVER]


def several_screen(cells: Sequence[tuple[str, str, Assembly]], folder: Path) -> list[str]:
    """The same for several engines or files.

    Args:
        cells: What engine and file are called, and what the study of both needs.
        folder: Of all studies.
    """
    engines = {engine: assembly for engine, _, assembly in reversed(cells)}
    files = {file: assembly for _, file, assembly in reversed(cells)}
    lines: list[str] = []
    for name in dict.fromkeys(engine for engine, _, _ in cells):
        lines += [f"With {name}:", *_devices(engines[name]), *_engine(engines[name])]
    for name in dict.fromkeys(file for _, file, _ in cells):
        lines += [f"Of {name}:", *_model(files[name])]
    lines += [
        *_work(cells[0][2]),
        f"Results: {folder}, one table of {len(engines)} x {len(files)} engines and files, a study each",
    ]
    said: dict[str, list[str]] = {}
    for engine, file, assembly in cells:
        for note in assembly.notes:
            said.setdefault(note, []).append(f"{engine}-{file}")
    if said:
        lines.append("Decided before the search:")
        lines += [
            f"  - {note}" if len(names) == len(cells) else f"  - {', '.join(names)}: {note}"
            for note, names in said.items()
        ]
    return [*lines, *_NEVER]


def _devices(assembly: Assembly) -> list[str]:
    lines = ["Devices, in the engine's order:"]
    for device in assembly.rig.devices:
        lines += _device(device, assembly.plan.rules.reserve_mib[device.name])
    return lines


def _engine(assembly: Assembly) -> list[str]:
    return [
        f"Engine: {assembly.engine.path}",
        f"  {assembly.engine.version} [{assembly.engine.digest[:12]}]",
    ]


def _model(assembly: Assembly) -> list[str]:
    model = assembly.model
    return [
        f"Model: {model.name}, {model.architecture}, {model.n_layers} layers, {model.size_bytes / 2**30:.2f} GiB"
        + (f", {model.n_mtp_layers} MTP" if model.n_mtp_layers else ""),
        f"  {_fit(assembly)}",
    ]


def _work(assembly: Assembly) -> list[str]:
    space, workload = assembly.plan.rules.bound.space, assembly.plan.rules.workload
    return [
        f"Search space: {space.name}, {assembly.context:,} tokens of context. {space.about}",
        f"Workload: {asked_label(workload)}, samplers from: {workload.sampling.source}{goal_label(workload)}",
        f"Budget: {_budget(assembly)}",
    ]


def _device(device: Device, reserve_mib: int) -> list[str]:
    where = f" at {device.bus_id}" if device.bus_id else ""
    stated = " (stated)" if device.stated else ""
    lines = [
        (
            f"  {device.name}: {device.description}{where}, {device.free_mib:,} of {device.total_mib:,} MiB "
            f"free{stated}, {reserve_mib:,} MiB to stay free"
        )
    ]
    if device.used_by_others_mib or device.users:
        users = ", ".join(
            f"{user.name} (pid {user.pid}"
            + (f", {user.used_mib:,} MiB)" if user.used_mib is not None else ")")
            for user in device.users
        )
        lines.append(
            f"    in use by others: {device.used_by_others_mib:,} MiB" + (f": {users}" if users else "")
        )
    return lines


def _fit(assembly: Assembly) -> str:
    """Whether weights and cache are smaller than what is free; the buffers are only known from a launch."""
    model, plan = assembly.model, assembly.plan
    free_mib = sum(d.free_mib - plan.rules.reserve_mib[d.name] for d in assembly.rig.devices)
    weights_mib = model.offloaded_bytes / 2**20
    cache_mib = [model.kv_bytes(assembly.context, bits, bits) / 2**20 for bits in (_F16_BITS, _Q8_0_BITS)]
    need = (
        f"weights {weights_mib:,.0f} MiB, KV cache {cache_mib[0]:,.0f} MiB as f16 or {cache_mib[1]:,.0f} as "
        f"q8_0, of {free_mib:,.0f} MiB to use"
    )
    if weights_mib + cache_mib[0] <= free_mib:
        return f"fits: {need}, and compute buffers"
    if weights_mib + cache_mib[1] <= free_mib:
        return f"fits with a q8_0 cache only: {need}, and compute buffers"
    return f"does not fit as a whole: {need}. Every launch may run out of memory: try less --context"


def _budget(assembly: Assembly) -> str:
    budget = assembly.plan.budget
    workload = assembly.plan.rules.workload
    a_launch_s = (
        2
        + assembly.model.size_bytes / _LOAD_BYTES_S
        + len(workload.prompt_set.prompts) * workload.max_tokens / _GUESSED_TOK_S
    )
    parts = []
    if budget.seconds is not None:
        many = max(int(budget.seconds / a_launch_s), 1)
        parts.append(
            f"{duration(budget.seconds)}, about {many:,} launches at a guess of {a_launch_s:.0f} s a launch"
        )
    if budget.launches is not None:
        parts.append(
            f"{budget.launches:,} launches, about {duration(budget.launches * a_launch_s)} at a guess of "
            f"{a_launch_s:.0f} s a launch"
        )
    return "; at most ".join(parts)


def duration(seconds: float) -> str:
    """A duration as people say it: `4:05` minutes, or `7 h 30 min`."""
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
