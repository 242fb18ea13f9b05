"""The model of a played rig as the header of its GGUF would show it.

Shapes follow from the rig's sizes: FLOP a token give the parameters and so the bits of one, the bits the
quantisation, parameters a layer the embedding. Sizes in bytes are the rig's own to the last MiB.
"""

from __future__ import annotations

from math import prod, sqrt
from types import MappingProxyType
from typing import TYPE_CHECKING

from tuner.core.identity import digest_of
from tuner.core.model import ModelFile, StateShape, TensorInfo

if TYPE_CHECKING:
    from tuner.simulate.played_rig import PlayedModel, PlayedRig

MIB = 2**20
#: Bits an element of the types that large files have.
_QUANTS = {"F16": 16.0, "Q8_0": 8.5, "Q6_K": 6.5625, "Q5_K": 5.5, "Q4_K": 4.5, "Q3_K": 3.4375, "Q2_K": 2.625}
_STEP = 256
_STATE, _CONV, _VALUES_A_KEY = 128, 4, 3
#: Feed-forward over embedding; that of models of this kind.
_WIDTH = 3.4

Row = tuple[str, tuple[int, ...]]


def model_of(rig: PlayedRig) -> ModelFile:
    """The model's file."""
    return _Header(rig.model).file(rig.name)


def attends(model: PlayedModel, layer: int) -> bool:
    """Whether a layer has a KV cache: they are spaced evenly, the last of each group."""
    n = model.full_attn_layers
    return (layer + 1) * n // model.layers > layer * n // model.layers


class _Header:
    """Works out shapes one after the other."""

    def __init__(self, model: PlayedModel) -> None:
        self.model = model
        self.hybrid = model.full_attn_layers < model.layers
        params = model.flops_tok / 2
        read = model.attn_part + (1 - model.attn_part) * model.used_part
        bits = (model.layers_mib * read + model.output_mib) * MIB * 8 / params
        self.quant = min(_QUANTS, key=lambda name: abs(_QUANTS[name] - bits))
        a_layer = model.layers_mib / model.layers * MIB * 8 / _QUANTS[self.quant]
        feeds = a_layer * (1 - model.attn_part)
        self.n_embd = model.n_embd or _whole(sqrt(feeds / (3 * _WIDTH)), _STEP)
        self.n_ff = model.n_ff or _whole(feeds / (3 * self.n_embd * max(model.experts, 1)), _STEP)
        of_heads = a_layer * model.attn_part / (self.n_embd * model.head_dim) - 2 * model.kv_heads
        self.n_head = _whole(of_heads / (3 if self.hybrid else 2), model.kv_heads)
        self.n_vocab = _whole(model.output_mib * MIB * 8 / _QUANTS[self.quant] / self.n_embd, _STEP)
        self.key_heads = self._key_heads() if self.hybrid else 0
        self.value_heads = self.key_heads * _VALUES_A_KEY

    def _key_heads(self) -> int:
        """As many as make the state as large as the rig says."""
        layers = self.model.layers - self.model.full_attn_layers
        elements = self.model.rs_mib * MIB / 4 / layers
        inner = elements / (_STATE + (_CONV - 1) * (1 + 2 / _VALUES_A_KEY))
        return max(round(inner / _STATE / _VALUES_A_KEY), 1) if elements else 16

    def file(self, name: str) -> ModelFile:
        model = self.model
        tensors = tuple(self.tensors())
        n_layers = model.layers + model.mtp_layers
        recurrent = tuple(layer < model.layers and not attends(model, layer) for layer in range(n_layers))
        cached = tuple(
            0 if layer >= model.layers or recurrent[layer] else model.kv_heads for layer in range(n_layers)
        )
        state = StateShape()
        if self.hybrid:
            state = StateShape(
                conv_kernel=_CONV,
                inner_size=self.value_heads * _STATE,
                state_size=_STATE,
                group_count=self.key_heads,
                time_step_rank=self.value_heads,
            )
        size = sum(tensor.size_bytes for tensor in tensors)
        return ModelFile(
            paths=(f"/played/{name}.gguf",),
            size_bytes=size,
            fingerprint=digest_of([name, size, len(tensors)])[:16],
            architecture=self.architecture,
            name=f"played model of {name}",
            n_layers=n_layers,
            n_mtp_layers=model.mtp_layers,
            n_ctx_train=model.ctx_train,
            n_embd=self.n_embd,
            n_head=self.n_head,
            n_head_kv=cached,
            head_dim_k=model.head_dim,
            head_dim_v=model.head_dim,
            sampling=MappingProxyType({}),
            tensors=tensors,
            kv_heads=(model.kv_heads,) * n_layers,
            recurrent=recurrent if self.hybrid else (),
            state=state,
            n_expert_used=model.experts_used,
        )

    def tensors(self) -> list[TensorInfo]:
        model = self.model
        output = round(model.output_mib * MIB)
        matrix = (self.n_embd, self.n_vocab)
        found = [
            TensorInfo("token_embd.weight", matrix, self.quant, output),
            TensorInfo("output_norm.weight", (self.n_embd,), "F32", 4 * self.n_embd),
            TensorInfo("output.weight", matrix, self.quant, output),
        ]
        a_layer = model.layers_mib / model.layers * MIB
        for layer in range(model.layers):
            mixer = self._attention() if attends(model, layer) else self._recurrent()
            found += self._sized(layer, mixer, a_layer * model.attn_part)
            found += self._sized(layer, self._feed_forward(), a_layer * (1 - model.attn_part))
        for layer in range(model.layers, model.layers + model.mtp_layers):
            rows = self._attention() + self._feed_forward()
            rows.append(("nextn.eh_proj.weight", (2 * self.n_embd, self.n_embd)))
            found += self._sized(layer, rows, model.mtp_mib / model.mtp_layers * MIB)
        return found

    def _sized(self, layer: int, rows: list[Row], size_bytes: float) -> list[TensorInfo]:
        """The rows as tensors that are so large together; what rounding leaves is the first's."""
        whole = sum(prod(shape) for _, shape in rows)
        sizes = [int(size_bytes * prod(shape) / whole) for _, shape in rows]
        sizes[0] += round(size_bytes) - sum(sizes)
        return [
            TensorInfo(f"blk.{layer}.{name}", shape, self.quant, size)
            for (name, shape), size in zip(rows, sizes, strict=True)
        ]

    def _attention(self) -> list[Row]:
        queries, keys = self.n_head * self.model.head_dim, self.model.kv_heads * self.model.head_dim
        return [
            ("attn_q.weight", (self.n_embd, queries * (2 if self.hybrid else 1))),
            ("attn_k.weight", (self.n_embd, keys)),
            ("attn_v.weight", (self.n_embd, keys)),
            ("attn_output.weight", (queries, self.n_embd)),
        ]

    def _recurrent(self) -> list[Row]:
        keys, values = self.key_heads * _STATE, self.value_heads * _STATE
        return [
            ("attn_qkv.weight", (self.n_embd, 2 * keys + values)),
            ("attn_gate.weight", (self.n_embd, values)),
            ("ssm_out.weight", (values, self.n_embd)),
            ("ssm_conv1d.weight", (_CONV, 2 * keys + values)),
            ("ssm_beta.weight", (self.n_embd, self.value_heads)),
            ("ssm_alpha.weight", (self.n_embd, self.value_heads)),
        ]

    @property
    def architecture(self) -> str:
        if self.model.experts:
            return "qwen35moe" if self.hybrid else "qwen3moe"
        return "qwen35" if self.hybrid else "llama"

    def _feed_forward(self) -> list[Row]:
        if n := self.model.experts:
            return [
                ("ffn_gate_exps.weight", (self.n_embd, self.n_ff, n)),
                ("ffn_up_exps.weight", (self.n_embd, self.n_ff, n)),
                ("ffn_down_exps.weight", (self.n_ff, self.n_embd, n)),
            ]
        return [
            ("ffn_gate.weight", (self.n_embd, self.n_ff)),
            ("ffn_up.weight", (self.n_embd, self.n_ff)),
            ("ffn_down.weight", (self.n_ff, self.n_embd)),
        ]


def _whole(value: float, step: int) -> int:
    """The nearest multiple of a step, at least one of it."""
    return max(round(value / step), 1) * step
