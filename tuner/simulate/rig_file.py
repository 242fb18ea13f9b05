"""Reads a played rig from TOML: everything wrong is named by the file and the dotted key."""

from __future__ import annotations

import tomllib
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tuner.core.options import OPTIONS, ValueType
from tuner.simulate.figure_reader import FigureReader
from tuner.simulate.played_rig import (
    DEFAULT_ACCEPT,
    Curse,
    Link,
    Noise,
    PageCache,
    PlayedDevice,
    PlayedHost,
    PlayedModel,
    PlayedRig,
    PlayedWorkload,
    Quirks,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tuner.core.options import Value
    from tuner.core.space import Condition

_TOP = {"build", "device", "link", "host", "model", "noise", "quirks", "workload"}
_DEVICE = {"name", "desc", "mem_mib", "free_mib", "bw", "flops", "display", "lag_us"}
_MODEL = {
    "layers", "mtp_layers", "full_attn_layers", "kv_heads", "head_dim", "layers_mib", "output_mib", "attn_part",
    "ctx_train", "rs_mib", "mtp_mib", "compute_scale", "load_s", "overhead_ms", "verify", "draft_ms", "draft_sync_ms",
    "flops_tok", "accept", "n_embd", "n_ff", "ctx", "experts", "experts_used",
}  # fmt: skip
_HOST = {"bw", "ram_mib", "cores", "busy", "bus", "sync_us"}
_NOISE = ("base", "per_draft", "launch")
_QUIRKS = {"cursed", "garbage", "unsupported", "splits_cost", "page_cache"}
_WORKLOAD = {"ctx", "prompt_tokens", "max_tokens", "classes", "requests"}


def read_rig(path: Path) -> PlayedRig:
    """Read a file; the rig is called as the file is.

    Raises:
        ValueError: It is no TOML, or something in it is unknown, missing or out of range.
        OSError: It cannot be read.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is no TOML: {error}; mend it there") from error
    return parse_rig(path.stem, document, source=str(path))


def parse_rig(name: str, document: Mapping[str, Any], source: str | None = None) -> PlayedRig:
    """Check a decoded document and build the rig.

    Args:
        name: Of the rig.
        document: As TOML decodes it.
        source: What errors call it; its name if None.

    Raises:
        ValueError: The first thing wrong, as `<source>: <dotted key>: <what, and what to write>`.
    """
    return _RigReader(source or name).rig(name, document)


class _RigReader(FigureReader):
    """Reads the parts of a rig."""

    def rig(self, name: str, document: Mapping[str, Any]) -> PlayedRig:
        self.known("", document, _TOP)
        rows = self.rows("device", document)
        if not rows:
            self.fail("device", "is missing: write one [[device]] for each card")
        devices = tuple(self.device(f"device[{index}]", row) for index, row in rows)
        names = [device.name for device in devices]
        if len(set(names)) < len(names):
            self.fail("device", f"two have the same name ({', '.join(names)}): give each its own")
        link = self.part("link", document, {"reduce_us", "hop_us", "internal", "p2p"})
        host = self.part("host", document, _HOST)
        model = self.part("model", document, _MODEL)
        noise = self.part("noise", document, set(_NOISE))
        return PlayedRig(
            name=name,
            build=self.whole("build", document, 11_434, low=1),
            devices=devices,
            link=Link(
                reduce_us=self.number("link.reduce_us", link, low=0),
                hop_us=self.number("link.hop_us", link, low=0),
                internal=self.number("link.internal", link, 1.0, low=0),
                p2p=self.number("link.p2p", link, 1.0, low=0),
            ),
            host=self.host(host),
            model=self.model(model),
            noise=Noise(*(self.number(f"noise.{k}", noise, 0.0, low=0, high=1) for k in _NOISE)),
            quirks=self.quirks(self.part("quirks", document, _QUIRKS)),
            workload=self.workload(document, model),
        )

    def device(self, key: str, row: Mapping[str, Any]) -> PlayedDevice:
        self.known(key, row, _DEVICE)
        mem_mib = self.whole(f"{key}.mem_mib", row, low=1)
        return PlayedDevice(
            name=self.text(f"{key}.name", row),
            desc=self.text(f"{key}.desc", row, "played card"),
            mem_mib=mem_mib,
            free_mib=self.whole(f"{key}.free_mib", row, low=0, high=mem_mib),
            bw=self.number(f"{key}.bw", row, above=0),
            flops=self.number(f"{key}.flops", row, above=0),
            display_mib=self.whole(f"{key}.display", row, 0, low=0),
            lag_us=self.number(f"{key}.lag_us", row, 0.0, low=0),
        )

    def host(self, row: Mapping[str, Any]) -> PlayedHost:
        return PlayedHost(
            bw=self.number("host.bw", row, 5e10, above=0),
            ram_mib=self.number("host.ram_mib", row, 0.0, low=0) or inf,
            cores=self.whole("host.cores", row, 8, low=1),
            busy=self.number("host.busy", row, 0.9, above=0, high=1),
            bus=self.number("host.bus", row, 2e10, above=0),
            sync_us=self.number("host.sync_us", row, 60.0, low=0),
        )

    def model(self, row: Mapping[str, Any]) -> PlayedModel:
        layers = self.whole("model.layers", row, low=1)
        mtp_layers = self.whole("model.mtp_layers", row, 0, low=0)
        experts = self.whole("model.experts", row, 0, low=0)
        return PlayedModel(
            layers=layers,
            full_attn_layers=self.whole("model.full_attn_layers", row, layers, low=0, high=layers),
            kv_heads=self.whole("model.kv_heads", row, low=1),
            head_dim=self.whole("model.head_dim", row, low=1),
            layers_mib=self.number("model.layers_mib", row, above=0),
            output_mib=self.number("model.output_mib", row, above=0),
            flops_tok=self.number("model.flops_tok", row, above=0),
            attn_part=self.number("model.attn_part", row, 0.27, above=0, below=1),
            mtp_layers=mtp_layers,
            mtp_mib=self.number("model.mtp_mib", row, None if mtp_layers else 0.0, low=0),
            rs_mib=self.number("model.rs_mib", row, 0.0, low=0),
            ctx_train=self.whole("model.ctx_train", row, 262_144, low=1),
            compute_scale=self.number("model.compute_scale", row, 0.4, low=0),
            load_s=self.number("model.load_s", row, 5.0, low=0),
            overhead_ms=self.number("model.overhead_ms", row, 0.0, low=0),
            verify=self.number("model.verify", row, 0.0, low=0),
            draft_ms=self.number("model.draft_ms", row, 0.0, low=0),
            draft_sync_ms=self.number("model.draft_sync_ms", row, 0.0, low=0),
            accept=self.accept(row.get("accept")),
            n_embd=self.whole("model.n_embd", row, 0, low=0) or None,
            n_ff=self.whole("model.n_ff", row, 0, low=0) or None,
            experts=experts,
            experts_used=self.whole("model.experts_used", row, None if experts else 0, low=0, high=experts),
        )

    def accept(self, table: object) -> Mapping[str, tuple[float, ...]]:
        if table is None:
            return DEFAULT_ACCEPT
        found = {}
        for name, values in self.table("model.accept", table).items():
            key = f"model.accept.{name}"
            if not isinstance(values, list) or not values:
                self.fail(key, f"must be a list of probabilities, one a position, got {values!r}")
            found[name] = tuple(self.number(key, {"accept": v}, low=0, high=1, name="accept") for v in values)
        if "default" not in found:
            self.fail("model.accept.default", "is missing: it is used for classes that have no list")
        return MappingProxyType(found)

    def quirks(self, row: Mapping[str, Any]) -> Quirks:
        return Quirks(
            curses=tuple(self.curse(key, one) for key, one in self.some("quirks.cursed", row)),
            garbage=self.garbage(row.get("garbage", {})),
            unsupported=tuple(
                self.condition(key, self.table(key, one)) for key, one in self.some("quirks.unsupported", row)
            ),
            splits_cost_us=self.number("quirks.splits_cost", row, 0.0, low=0),
            page_cache=self.page_cache(self.table("quirks.page_cache", row.get("page_cache", {}))),
        )

    def curse(self, key: str, value: object) -> Curse:
        row = self.table(key, value)
        self.known(key, row, {"slow", "when"})
        slow = self.number(f"{key}.slow", row, above=0)
        when = self.condition(f"{key}.when", row.get("when"))
        if not when:
            self.fail(f"{key}.when", "is empty: name the options of the combination")
        return Curse(slow if slow >= 1 else 1 / slow, when)  # 0.5 says what is left, 2 how much slower

    def garbage(self, value: object) -> frozenset[str]:
        row = self.table("quirks.garbage", value)
        self.known("quirks.garbage", row, {"layer", "tensor", "row", "none"})
        for mode, how in row.items():
            if not isinstance(how, (bool, int, float, str)):
                self.fail(f"quirks.garbage.{mode}", f"must be true, a number or a text, got {how!r}")
        return frozenset(mode for mode, how in row.items() if how)

    def page_cache(self, row: Mapping[str, Any]) -> PageCache:
        self.known("quirks.page_cache", row, {"first_load_slow", "first_rate"})
        return PageCache(
            self.number("quirks.page_cache.first_load_slow", row, 1.0, low=1),
            self.number("quirks.page_cache.first_rate", row, 1.0, above=0, high=1),
        )

    def workload(self, document: Mapping[str, Any], model: Mapping[str, Any]) -> PlayedWorkload:
        row = self.part("workload", document, _WORKLOAD)
        plain = PlayedWorkload()
        ctx = self.whole("model.ctx", model, plain.ctx, low=256)
        classes = row.get("classes", list(plain.classes))
        if not isinstance(classes, list) or not classes or not all(isinstance(c, str) for c in classes):
            self.fail("workload.classes", f"must be a list of prompt classes, got {classes!r}")
        return PlayedWorkload(
            ctx=self.whole("workload.ctx", row, ctx, low=256),
            prompt_tokens=self.whole("workload.prompt_tokens", row, plain.prompt_tokens, low=1),
            max_tokens=self.whole("workload.max_tokens", row, plain.max_tokens, low=2),
            classes=tuple(classes),
            requests=self.whole("workload.requests", row, plain.requests, low=1),
        )

    def condition(self, key: str, value: Any) -> Condition:  # noqa: ANN401 - whatever TOML holds
        """Options and the values that they may have; a split or a list of devices is one value."""
        pairs: list[tuple[str, tuple[Value, ...]]] = []
        for name, allowed in self.table(key, value).items():
            dotted = f"{key}.{name}"
            self.option(dotted, name)
            kind = OPTIONS[name].value_type if name in OPTIONS else ValueType.TEXT
            one_list = kind in {ValueType.SPLIT, ValueType.DEVICES} and not (
                isinstance(allowed, list) and allowed and isinstance(allowed[0], list)
            )
            values = allowed if isinstance(allowed, list) and not one_list else [allowed]
            if not values:
                self.fail(dotted, "allows nothing: give a value or a list of values")
            pairs.append((name, tuple(self.value(dotted, name, one) for one in values)))
        return tuple(pairs)
