"""Reads a model file: all shards of a GGUF, and what its header says about layers, heads and KV cache.

Which layers have a KV cache follows src/llama-model.cpp and src/models/*.cpp of llama.cpp build 11434.
"""

from __future__ import annotations

import math
import re
import reprlib
from dataclasses import dataclass
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.model import ModelFile, StateShape
from tuner.engine.gguf_header import read_header
from tuner.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tuner.engine.gguf_header import Header, Value

_SHARD_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
_MAX_SHARDS = 9_999
_MAX_LAYERS = 4_096
_MAX_U32 = (1 << 32) - 1
_SAMPLING = "general.sampling."

#: Every how many layers one attends to everything, for architectures with a sliding window; True where it is
#: the first of them, not the last.
_WINDOW_PERIODS = {
    "afmoe": (4, False), "cohere2": (4, False), "cohere2moe": (4, True), "exaone4": (4, False),
    "exaone-moe": (4, False), "gemma2": (2, False), "gemma3": (6, False), "gemma3n": (5, False),
    "gpt-oss": (2, False), "laguna": (4, True), "llama4": (4, False), "mellum": (4, False),
    "olmo2": (4, False), "phi3": (1, False), "plamo3": (8, False), "smallthinker": (4, True),
}  # fmt: skip

#: Every how many layers one is full attention, for architectures whose files may leave it out.
_DEFAULT_INTERVALS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "qwen4exp": 4, "minimax-01": 8}


def read_model(path: Path) -> ModelFile:
    """Read the headers of a GGUF and of all its shards; the weights stay where they are.

    Args:
        path: The file, or the first shard of a split model.

    Raises:
        ModelError: A file is missing, unreadable, no GGUF, cut or damaged, a shard is missing, or the header
            lacks what a model needs; the message names the file and says what to do.
    """
    first = path.absolute()
    header = read_header(first)
    facts = _Facts(first, header)
    paths = _shard_paths(facts)
    headers = (header, *_read_other_shards(paths))
    architecture = facts.text("general.architecture")
    n_layers = facts.integer(f"{architecture}.block_count", least=1, most=_MAX_LAYERS)
    n_mtp_layers = facts.integer(f"{architecture}.nextn_predict_layers", default=0, most=n_layers)
    n_embd = facts.integer(f"{architecture}.embedding_length", least=1)
    n_ctx_train = facts.integer(f"{architecture}.context_length", least=1)
    attention = f"{architecture}.attention"
    heads = facts.each_layer(f"{attention}.head_count", n_layers)
    # The engine asks the first layer, and so a model whose first layer has no attention must say its lengths.
    head_dim = n_embd // heads[0] if heads[0] else 0
    head_dim_k = facts.integer(f"{attention}.key_length", default=head_dim)
    head_dim_v = facts.integer(f"{attention}.value_length", default=head_dim)
    if facts.integer(f"{attention}.key_length_mla", default=0):
        head_dim_v = 0  # multi-head latent attention: V is a part of K and takes no memory of its own
    _check_tensors(facts, headers)
    n_swa = facts.integer(f"{attention}.sliding_window", default=0)
    return ModelFile(
        paths=tuple(str(shard) for shard in paths),
        size_bytes=sum(shard.size_bytes for shard in headers),
        fingerprint=blake2b(b"".join(shard.digest for shard in headers), digest_size=16).hexdigest(),
        architecture=architecture,
        name=_name(facts),
        n_layers=n_layers,
        n_mtp_layers=n_mtp_layers,
        n_ctx_train=n_ctx_train,
        n_embd=n_embd,
        n_head=max(heads),
        n_head_kv=_kv_heads(facts, architecture, n_mtp_layers, heads),
        head_dim_k=head_dim_k,
        head_dim_v=head_dim_v,
        sampling=_sampling(facts),
        tensors=tuple(tensor for shard in headers for tensor in shard.tensors),
        heads=heads,
        kv_heads=facts.each_layer(f"{attention}.head_count_kv", n_layers, heads),
        recurrent=tuple(
            bool(flag) and layer < n_layers - n_mtp_layers
            for layer, flag in enumerate(_recurrent_layers(facts, architecture, n_layers))
        ),
        windowed=_windowed_layers(facts, architecture, n_layers) if n_swa else (),
        n_swa=n_swa,
        state=_state_shape(facts, architecture),
        n_expert_used=facts.integer(f"{architecture}.expert_used_count", default=0),
        vocabulary=header.vocabulary,
    )


@dataclass(frozen=True, slots=True)
class _Facts:
    """The metadata of one file, asked for with errors that name the file and the key."""

    path: Path
    header: Header

    def text(self, key: str) -> str:
        value = self._get(key)
        if not isinstance(value, str) or not value:
            raise self._wrong(key, value, "a text")
        return value

    def integer(self, key: str, *, default: int | None = None, least: int = 0, most: int = _MAX_U32) -> int:
        return self._integer(key, self._get(key, default), least, most)

    def each_layer(self, key: str, n_layers: int, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """One number a layer; the file may give a single number for all."""
        value = self._get(key, default)
        if not isinstance(value, tuple):
            return (self._integer(key, value, 0, _MAX_U32),) * n_layers
        if len(value) != n_layers:
            raise self._wrong(key, value, f"one number for each of the {n_layers} layers")
        return tuple(self._integer(key, element, 0, _MAX_U32) for element in value)

    def _get(self, key: str, default: Value | None = None) -> Value:
        value = self.header.values.get(key, default)
        if value is None:
            raise ModelError(
                f"{self.path}: the header has no `{key}`{self._kind()}; give a whole language model"
            )
        return value

    def _integer(self, key: str, value: Value, least: int, most: int) -> int:
        if not isinstance(value, int) or not least <= value <= most:
            raise self._wrong(key, value, f"a whole number from {least} to {most}")
        return int(value)

    def _wrong(self, key: str, value: Value, expected: str) -> ModelError:
        shown = reprlib.repr(value)
        return ModelError(
            f"{self.path}: `{key}` is {shown}, not {expected}; the file is damaged: download it again"
        )

    def _kind(self) -> str:
        """What the file is instead of a model, where it says so."""
        kind = self.header.values.get("general.type", "model")
        if kind != "model":
            return f" (it calls itself {reprlib.repr(kind)})"
        return "" if self.header.tensors else " (it holds no tensors, only a vocabulary)"


def _shard_paths(facts: _Facts) -> tuple[Path, ...]:
    """All shards in order; the model is one file where the header says nothing of shards."""
    path = facts.path
    count = facts.integer("split.count", default=1, most=_MAX_SHARDS)
    if count <= 1:
        return (path,)
    number = facts.integer("split.no", default=0) + 1
    match = _SHARD_NAME.fullmatch(path.name)
    first_name = f"{match['stem'] if match else '...'}-00001-of-{count:05}.gguf"
    if number > 1:
        raise ModelError(f"{path}: this is shard {number} of {count}; give the first one, {first_name}")
    if match is None or path.name != first_name:
        raise ModelError(
            f"{path}: this is shard 1 of {count}, but its name does not say so; "
            f"rename it to {first_name}, since the engine finds the others by name"
        )
    paths = tuple(path.with_name(f"{match['stem']}-{i:05}-of-{count:05}.gguf") for i in range(1, count + 1))
    missing = [shard for shard in paths if not shard.is_file()]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise ModelError(
            f"{missing[0]}: this shard is missing{more}; download all {count} shards into one folder"
        )
    return paths


def _read_other_shards(paths: tuple[Path, ...]) -> tuple[Header, ...]:
    headers = tuple(read_header(path) for path in paths[1:])
    for index, (path, header) in enumerate(zip(paths[1:], headers, strict=True), start=1):
        number = _Facts(path, header).integer("split.no")
        if number != index:
            raise ModelError(
                f"{path}: the header says shard {number + 1}, the name {index + 1}; download it again"
            )
    return headers


def _check_tensors(facts: _Facts, headers: tuple[Header, ...]) -> None:
    names = [tensor.name for header in headers for tensor in header.tensors]
    expected = facts.integer("split.tensors.count", default=len(names))
    if not names:
        raise ModelError(f"{facts.path}: the file holds no tensors; give a whole language model")
    if len(names) != expected or len(set(names)) != len(names):
        raise ModelError(
            f"{facts.path}: {expected} tensors are expected, its {len(headers)} shards hold {len(names)}, "
            f"{len(set(names))} of them different; they are not of one model: download all of them again"
        )


def _kv_heads(facts: _Facts, architecture: str, n_mtp_layers: int, heads: tuple[int, ...]) -> tuple[int, ...]:
    """KV heads a layer in the model's own context; 0 where a layer keeps nothing there."""
    n_layers = len(heads)
    kv_heads = facts.each_layer(f"{architecture}.attention.head_count_kv", n_layers, heads)
    # MTP layers are cached in the draft's context alone, except in a file that has no other layers.
    n_trunk = n_layers - n_mtp_layers or n_layers
    # The last layers of Gemma 3n and 4 read the cache of earlier ones.
    n_shared = facts.integer(f"{architecture}.attention.shared_kv_layers", default=0, most=n_layers)
    n_cached = min(n_trunk, n_layers - n_shared)
    recurrent = _recurrent_layers(facts, architecture, n_layers)
    return tuple(
        0 if layer >= n_cached or recurrent[layer] else n_heads for layer, n_heads in enumerate(kv_heads)
    )


def _recurrent_layers(facts: _Facts, architecture: str, n_layers: int) -> tuple[int, ...]:
    """Nonzero for a layer that keeps a state of fixed size instead of a KV cache.

    Other hybrid architectures give such layers 0 in their array of KV heads.
    """
    default = _DEFAULT_INTERVALS.get(architecture, 1)
    interval = facts.integer(f"{architecture}.full_attention_interval", default=default, least=1)
    by_interval = tuple(int((layer + 1) % interval != 0) for layer in range(n_layers))
    return facts.each_layer(f"{architecture}.attention.recurrent_layers", n_layers, by_interval)


def _windowed_layers(facts: _Facts, architecture: str, n_layers: int) -> tuple[bool, ...]:
    """Which layers attend to a sliding window: the header has one flag a layer, a period, or nothing."""
    key = f"{architecture}.attention.sliding_window_pattern"
    period, first = _WINDOW_PERIODS.get(architecture, (0, False))
    said = facts.header.values.get(key)
    if isinstance(said, tuple):
        return tuple(bool(flag) for flag in facts.each_layer(key, n_layers))
    if said is not None:
        period = facts.integer(key)
    elif period == 0:
        return (False,) * n_layers  # an architecture that is not known to use its window
    full = 0 if first else period - 1
    return tuple(period == 1 or layer % period != full for layer in range(n_layers))


def _state_shape(facts: _Facts, architecture: str) -> StateShape:
    return StateShape(
        conv_kernel=facts.integer(f"{architecture}.ssm.conv_kernel", default=0),
        inner_size=facts.integer(f"{architecture}.ssm.inner_size", default=0),
        state_size=facts.integer(f"{architecture}.ssm.state_size", default=0),
        group_count=facts.integer(f"{architecture}.ssm.group_count", default=0),
        time_step_rank=facts.integer(f"{architecture}.ssm.time_step_rank", default=0),
        shortconv_cache=facts.integer(f"{architecture}.shortconv.l_cache", default=0),
    )


def _name(facts: _Facts) -> str:
    name = facts.header.values.get("general.name")
    if isinstance(name, str) and name.strip():
        return name.strip()
    match = _SHARD_NAME.fullmatch(facts.path.name)
    return match["stem"] if match else facts.path.stem


def _sampling(facts: _Facts) -> Mapping[str, float | int | str]:
    settings: dict[str, float | int | str] = {}
    for key, value in facts.header.values.items():
        if not key.startswith(_SAMPLING) or isinstance(value, tuple):
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise ModelError(
                f"{facts.path}: `{key}` is {value}, no number; the file is damaged: download it again"
            )
        settings[key.removeprefix(_SAMPLING)] = value
    return MappingProxyType(settings)
