"""One point of the search space: what a server is to be started with."""

from __future__ import annotations

import json
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from tuner.core.experts import CPU, ExpertRun, override_text
from tuner.core.options import ALLREDUCE, BASE_OPTIONS, OPTIONS, Value, ValueType, is_environment, is_foreign

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ORDER = {name: index for index, name in enumerate(OPTIONS)}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Options and their values, in the order of a command line, environment variables last.

    Two candidates with equal options are equal, however they were made.
    """

    items: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, options: Mapping[str, Value]) -> Candidate:
        """Order the options; nothing is added."""
        return cls(
            tuple(sorted(options.items(), key=lambda item: (_ORDER.get(item[0], len(_ORDER)), item[0])))
        )

    @property
    def options(self) -> dict[str, Value]:
        """A copy that may be changed."""
        return dict(self.items)

    def get(self, name: str) -> Value | None:
        """The value of an option; None where it is not set."""
        return next((value for key, value in self.items if key == name), None)

    def with_options(self, changes: Mapping[str, Value]) -> Candidate:
        """This candidate with some options set or replaced."""
        return Candidate.of({**self.options, **changes})

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices it runs on, in order; empty where it does not say."""
        value = self.get("device")
        return cast("tuple[str, ...]", value) if isinstance(value, tuple) else ()

    @property
    def split(self) -> tuple[int, ...]:
        """Its tensor split; empty where it has none."""
        value = self.get("tensor-split")
        return cast("tuple[int, ...]", value) if isinstance(value, tuple) else ()

    @property
    def drafts(self) -> bool:
        """Whether anything is drafted, by a model or out of the text."""
        return self.get("spec-type") not in {None, "none"}

    @property
    def draft_depth(self) -> int:
        """Tokens drafted at most at a time; 0 without drafts of a model."""
        kinds = str(self.get("spec-type") or "none").split(",")
        depth = self.get("spec-draft-n-max")
        drafts = any(kind.startswith("draft-") for kind in kinds)
        return depth if drafts and isinstance(depth, int) else 0

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of the server; one with an empty value is not set at all."""
        return {name: str(value) for name, value in self.items if is_environment(name) and value != ""}

    def to_json(self) -> dict[str, object]:
        """Plain JSON values; tuples become lists."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self.items}

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> Candidate:
        """The inverse of `to_json`."""
        return cls.of(
            {
                name: tuple(value) if isinstance(value, list) else cast("Value", value)
                for name, value in document.items()
            }
        )

    def key(self) -> str:
        """A text that is equal for equal candidates only."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))

    def summary(self) -> str:
        """The options that tell candidates apart, in one line; what an engine does by default is left out."""
        parts = [str(self.get("split-mode") or "")]
        if self.split:
            order = "" if _is_plain(self.devices) else f" on {','.join(self.devices)}"
            parts.append(",".join(map(str, self.split)) + order)
        elif len(self.devices) == 1:
            parts.append(self.devices[0])
        parts += [self._unless("gpu-layers", "ngl {}", BASE_OPTIONS["gpu-layers"]), self._in_ram()]
        parts.append(f"ub {self.get('ubatch-size')}" + self._unless("batch-size", " of {}", 2048))
        k, v = self.get("cache-type-k"), self.get("cache-type-v")
        parts.append(
            (f"kv {k}" if k == v else f"kv {k}/{v}") + (" unified" if self.get("kv-unified") else "")
        )
        parts.append("fa off" if self.get("flash-attn") == "off" else "")
        spec = self.get("spec-type")
        if spec not in {None, "none"}:
            depth = self._unless("spec-draft-n-max", " n-max {}")
            k, v = self.get("spec-draft-type-k"), self.get("spec-draft-type-v")
            cache = "" if k == v and k in {None, "f16"} else f" kv {k}" if k == v else f" kv {k}/{v}"
            parts.append(f"{spec}{depth}{self._unless('spec-draft-p-min', ' p-min {:g}', 0)}{cache}")
        parts += [self._unless("threads", "threads {}"), self._unless("threads-batch", "threads-batch {}")]
        parts.append("no-host" if self.get("no-host") is True else "")
        parts.append(self._unless(ALLREDUCE, "allreduce {}", "nccl"))
        parts += [f"{name}={value}" for name, value in self.environment.items() if name != ALLREDUCE]
        parts += [f"{name} {format_value(name, value)}" for name, value in self.items if is_foreign(name)]
        return " · ".join(part for part in parts if part)

    def _in_ram(self) -> str:
        """Whose experts lie in RAM; empty where all stay with their layers."""
        if self.get("cpu-moe") is True:
            return "all experts in RAM"
        entries = self.get("override-tensor")
        runs = [ExpertRun.read(str(entry)) for entry in entries] if isinstance(entries, tuple) else []
        parts = [f"{run.first}-{run.last}" for run in runs if run is not None and run.place == CPU]
        first = self.get("n-cpu-moe")
        if isinstance(first, int) and first > 0:
            parts.insert(0, f"0-{first - 1}")
        return f"experts of {', '.join(parts)} in RAM" if parts else ""

    def _unless(self, name: str, text: str, usual: Value | None = None) -> str:
        """A text with the value of an option, or nothing where it is the usual one or is not set."""
        value = self.get(name)
        return "" if value is None or value == usual else text.format(value)


def _is_plain(devices: Sequence[str]) -> bool:
    """Whether these are the first devices of a back end in the engine's own order."""
    return all(name.lstrip(string.ascii_letters) == str(place) for place, name in enumerate(devices))


def format_value(name: str, value: Value) -> str:
    """A value as it stands on a command line: lists with commas, switches as `on` or `off`."""
    if name in OPTIONS and OPTIONS[name].value_type is ValueType.EXPERTS and isinstance(value, tuple):
        return override_text(map(str, value))
    if isinstance(value, tuple):
        return ",".join(str(part) for part in value)
    if isinstance(value, bool):
        return "on" if value else "off"
    if name in OPTIONS and OPTIONS[name].value_type is ValueType.NUMBER:
        return f"{float(value):g}"
    return str(value)
