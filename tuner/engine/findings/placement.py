"""Where a command puts the layers: devices, split mode, proportions, offload and fit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tuner.core.memory.overrides import is_pattern
from tuner.core.options import OVERRIDES
from tuner.engine.findings.asked import NO, listed, problem, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuner.core.checkup.check import Check
    from tuner.engine.findings.asked import Asked

#: The engine's own limit; a list as long as this is refused.
_MOST_SHARES = 16
_COUNTS = ("n-cpu-moe", "n-cpu-ffn")
_NO_SPLIT_BUFFERS = ("CUDA", "RPC", "Vulkan")


def placement_findings(asked: Asked) -> list[Check]:
    """What the engine refuses or does not heed, in the order of a command line."""
    return [
        *_device(asked),
        *_tensor_split(asked),
        *_main_gpu(asked),
        *_mode(asked),
        *_gpu_layers(asked),
        *_patterns(asked),
        *_counts(asked),
        *_fit(asked),
        *_pipeline(asked),
    ]


def _device(asked: Asked) -> Iterator[Check]:
    if not asked.has("device") or not asked.device_names or asked.n_devices == 0:
        return
    there = {name.lower() for name in asked.device_names}
    # RPC devices are there only while the command's own --rpc is
    missing = [name for name in asked.devices if name.lower() not in there and not name.startswith("RPC")]
    if missing:
        text = f"the engine lists no {listed(missing)}, and the server does not start"
        yield problem(asked.written("device"), text, f"write names out of {', '.join(asked.device_names)}")


def _tensor_split(asked: Asked) -> Iterator[Check]:
    value = asked.value("tensor-split")
    if value is None:
        return
    shown, parts = asked.written("tensor-split"), re.split(r"[,/]", value)
    if not all(_is_share(part) for part in parts):
        yield problem(shown, "is no list of proportions from 0 on", "write numbers such as -ts 3,2")
    elif len(parts) >= _MOST_SHARES:
        yield problem(shown, f"{len(parts)} proportions; the engine takes at most 15", "write one a device")
    elif asked.split_mode == "none":
        yield warning(shown, "no effect: -sm none uses one device", "leave it out, or write -sm layer")
    elif asked.n_devices == 1:
        yield warning(shown, "no effect: there is one device", "leave it out")
    elif asked.n_devices is not None and 0 < asked.n_devices != len(parts):
        yield _count(shown, len(parts), asked.n_devices)


def _count(shown: str, n_shares: int, n_devices: int) -> Check:
    said = f"{n_shares} {'proportion' if n_shares == 1 else 'proportions'} for {n_devices} devices"
    if n_shares > n_devices:
        return warning(shown, f"{said}: those at the end are dropped", f"write {n_devices} proportions")
    left = n_devices - n_shares
    text = f"{said}: the last {left} get nothing" if left > 1 else f"{said}: the last one gets nothing"
    return warning(shown, text, f"write {n_devices} proportions, or leave devices out with --device")


def _is_share(part: str) -> bool:
    """Whether a number begins it: the engine drops the rest, a percent sign too."""
    return re.match(r"\s*\+?(?:\d|\.\d)", part) is not None


def _main_gpu(asked: Asked) -> Iterator[Check]:
    index = asked.number("main-gpu")
    if index is None:
        return
    shown = asked.written("main-gpu")
    if asked.split_mode not in {"none", "row"}:
        text = f"no effect with -sm {asked.split_mode}: the model is split over all devices"
        yield warning(shown, text, "write -sm none to use that device alone, or leave it out")
    elif asked.n_devices is not None and index >= asked.n_devices > 0:
        text = f"there are {asked.n_devices} devices, counted from 0, and the server does not start"
        yield problem(shown, text, f"write -mg with a number below {asked.n_devices}")


def _mode(asked: Asked) -> Iterator[Check]:
    if asked.split_mode == "row":
        yield from _row(asked)
    elif asked.split_mode == "tensor":
        yield from _tensor(asked)


def _row(asked: Asked) -> Iterator[Check]:
    shown, remedy = asked.written("split-mode"), "write -sm layer, or -sm tensor with -fa on"
    refusing = [name for name in asked.devices if name.startswith(_NO_SPLIT_BUFFERS)]
    is_newer = asked.help_text.option("load-mode") is not None  # that came after row mode went
    if refusing and is_newer:
        text = f"refused: {listed(refusing)} no longer can split by rows (since build 9890)"
        yield problem(shown, text, remedy)
    elif refusing or not asked.devices:
        text = "CUDA, Vulkan and RPC devices refuse it since build 9890"
        yield warning(shown, text, remedy)


def _tensor(asked: Asked) -> Iterator[Check]:
    shown = asked.written("split-mode")
    if asked.value("flash-attn") in NO:
        yield problem(shown, "refused with -fa off", "write -fa on")
    if asked.model is not None and not asked.model.allows_tensor_split:
        text = f"llama.cpp refuses it for {asked.model.architecture} models"
        yield problem(shown, text, "write -sm layer")
    if asked.n_devices == 1:
        yield warning(shown, "made for several devices, and there is one", "leave it out")
    if asked.is_on("backend-sampling"):
        text = "no effect with -sm tensor: tokens are sampled on the CPU"
        yield warning(asked.written("backend-sampling"), text, "leave it out")


def _gpu_layers(asked: Asked) -> Iterator[Check]:
    count = asked.number("gpu-layers")
    if asked.model is None or count is None or not 0 <= count < asked.model.n_units:
        return
    shown, units = asked.written("gpu-layers"), asked.model.n_units
    left = units - count
    if count == 0:
        text = f"leaves all {units} units on the CPU"
    else:
        which = "the first layer" if left == 1 else f"the first {left} layers"
        text = f"leaves {left} of {units} units on the CPU: {which} (the output is a unit too)"
    yield warning(shown, text, "write -ngl all, if it fits")


def _patterns(asked: Asked) -> Iterator[Check]:
    """Parts of `-ot` that the engine refuses: it cuts at every comma, and each part at its first `=`."""
    for part in (asked.value("override-tensor") or "").split(","):
        pattern, sign, buffer = part.partition("=")
        shown = asked.written("override-tensor")
        if part and not sign:
            text = f"{part!r} names no memory after a =, and the server does not start"
            yield problem(shown, text, "write PATTERN=CPU or PATTERN=DEVICE, without a comma in the pattern")
        elif sign and not is_pattern(pattern):
            text = f"{pattern!r} is no regular expression, and the server does not start"
            yield problem(shown, text, "close its brackets, or write \\. for a dot")
        elif sign and _is_unknown_buffer(asked, buffer):
            text = f"the engine has no memory called {buffer!r}, and the server does not start"
            yield problem(shown, text, f"write {' or '.join(('CPU', *asked.device_names))}")


def _is_unknown_buffer(asked: Asked, buffer: str) -> bool:
    """Whether neither the host nor a device of the engine is called so; RPC memory is called by its address."""
    known = asked.device_names and not any(name.startswith("RPC") for name in asked.device_names)
    return bool(known) and buffer not in {"CPU", *asked.device_names} and "[" not in buffer


def _is_some(asked: Asked, name: str) -> bool:
    return (asked.number(name) or 0) > 0


def _counts(asked: Asked) -> Iterator[Check]:
    for name in _COUNTS:
        count = asked.number(name)
        if count is not None and count < 0:
            text = "less than nothing, and the server does not start"
            yield problem(asked.written(name), text, "write a number of layers, or leave it out")


def _fit(asked: Asked) -> Iterator[Check]:
    """Fit leaves alone what the user set, but may have cut the context before it finds out."""
    if not asked.has("fit") or asked.value("fit") in NO:
        return
    stops = [
        asked.written(name)
        for name in ("gpu-layers", "tensor-split", *OVERRIDES)
        if asked.has(name) and not (name == "gpu-layers" and asked.value(name) in {"auto", "-1"})
    ]
    if asked.split_mode in {"row", "tensor"}:
        stops.insert(0, asked.written("split-mode"))
    if stops:
        text = (
            f"places nothing, as {listed(stops)} {'says' if len(stops) == 1 else 'say'} where the layers go"
        )
        if not asked.has("ctx-size"):
            text += "; the context may be cut all the same"
        yield warning(asked.written("fit"), text, "write --fit off, and -c with the tokens that you need")


def _pipeline(asked: Asked) -> Iterator[Check]:
    names = [name for name in OVERRIDES if asked.has(name) and (name not in _COUNTS or _is_some(asked, name))]
    if not names or asked.split_mode != "layer" or asked.n_devices is None or asked.n_devices < 2:
        return
    text = "switches pipeline parallelism off: the devices take turns while a prompt is read"
    yield warning(asked.written(names[0]), text, "leave it out if the model fits without")
