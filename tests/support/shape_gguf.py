"""Writes the header of a large model, its weights left as a hole: what only reads headers cannot tell.

The tokenizer is that of the small model; the rest of the vocabulary is padding. llama.cpp's own tools take the
file for what it says to be, as long as they do not load it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, TokenType
from gguf.constants import GGML_QUANT_SIZES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Table = list[tuple[str, tuple[int, ...], GGMLQuantizationType]]
_F32 = GGMLQuantizationType.F32


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's shape; the default is Qwen3.6-27B's: three gated delta nets, then one full attention."""

    architecture: str = "qwen35"
    n_layers: int = 64
    n_embd: int = 5120
    n_ff: int = 17_408
    n_head: int = 24
    n_head_kv: int = 4
    head_dim: int = 256
    n_vocab: int = 248_320
    n_mtp: int = 1
    n_ctx_train: int = 262_144
    key_heads: int = 16
    value_heads: int = 48
    state_size: int = 128
    weight: GGMLQuantizationType = GGMLQuantizationType.Q8_0
    tied: bool = False
    """Whether the input embedding is the output matrix too."""
    n_experts: int = 0
    """Experts a layer, of which each has `n_ff`; 0 for a dense model."""
    n_experts_used: int = 8

    def tensors(self) -> Table:
        """The tensor table, in the file's order."""
        table: Table = [("token_embd.weight", (self.n_embd, self.n_vocab), self.weight)]
        table.append(("output_norm.weight", (self.n_embd,), _F32))
        if not self.tied:
            table.append(("output.weight", (self.n_embd, self.n_vocab), self.weight))
        for layer in range(self.n_layers + self.n_mtp):
            hybrid = self.architecture == "qwen35"
            recurrent = hybrid and layer < self.n_layers and (layer + 1) % 4 != 0
            rows = self._recurrent() if recurrent else self._attention()
            rows += self._feed_forward()
            if layer >= self.n_layers:
                rows += [
                    ("nextn.eh_proj.weight", (2 * self.n_embd, self.n_embd), self.weight),
                    ("nextn.enorm.weight", (self.n_embd,), _F32),
                    ("nextn.hnorm.weight", (self.n_embd,), _F32),
                    ("nextn.shared_head_norm.weight", (self.n_embd,), _F32),
                ]
            table += [(f"blk.{layer}.{name}", shape, kind) for name, shape, kind in rows]
        return table

    def metadata(self) -> Iterator[tuple[str, Any]]:
        """The architecture's own keys, without its name before them."""
        yield "block_count", self.n_layers + self.n_mtp
        yield "context_length", self.n_ctx_train
        yield "embedding_length", self.n_embd
        yield "feed_forward_length", self.n_ff
        yield "attention.head_count", self.n_head
        yield "attention.head_count_kv", self.n_head_kv
        yield "attention.key_length", self.head_dim
        yield "attention.value_length", self.head_dim
        yield "attention.layer_norm_rms_epsilon", 1e-6
        yield "rope.freq_base", 1e7
        yield "rope.dimension_count", self.head_dim
        if self.n_experts:
            yield "expert_count", self.n_experts
            yield "expert_used_count", self.n_experts_used
            yield "expert_feed_forward_length", self.n_ff
        if self.architecture != "qwen35":
            return
        third = self.head_dim // 8 // 3
        yield "rope.dimension_sections", [third + 1, third + 1, self.head_dim // 8 - 2 * (third + 1), 0]
        yield "ssm.conv_kernel", 4
        yield "ssm.state_size", self.state_size
        yield "ssm.group_count", self.key_heads
        yield "ssm.time_step_rank", self.value_heads
        yield "ssm.inner_size", self.value_heads * self.state_size
        yield "full_attention_interval", 4
        if self.n_mtp:
            yield "nextn_predict_layers", self.n_mtp

    def _attention(self) -> Table:
        queries, keys = self.n_head * self.head_dim, self.n_head_kv * self.head_dim
        gated = 2 if self.architecture == "qwen35" else 1
        rows: Table = [
            ("attn_norm.weight", (self.n_embd,), _F32),
            ("attn_q.weight", (self.n_embd, gated * queries), self.weight),
            ("attn_k.weight", (self.n_embd, keys), self.weight),
            ("attn_v.weight", (self.n_embd, keys), self.weight),
            ("attn_output.weight", (queries, self.n_embd), self.weight),
        ]
        if self.architecture in {"qwen35", "qwen3", "qwen3moe"}:
            rows += [
                ("attn_q_norm.weight", (self.head_dim,), _F32),
                ("attn_k_norm.weight", (self.head_dim,), _F32),
            ]
        return rows

    def _recurrent(self) -> Table:
        keys, values = self.key_heads * self.state_size, self.value_heads * self.state_size
        return [
            ("attn_norm.weight", (self.n_embd,), _F32),
            ("attn_qkv.weight", (self.n_embd, 2 * keys + values), self.weight),
            ("attn_gate.weight", (self.n_embd, values), self.weight),
            ("ssm_conv1d.weight", (4, 2 * keys + values), _F32),
            ("ssm_dt.bias", (self.value_heads,), _F32),
            ("ssm_a", (self.value_heads,), _F32),
            ("ssm_beta.weight", (self.n_embd, self.value_heads), self.weight),
            ("ssm_alpha.weight", (self.n_embd, self.value_heads), self.weight),
            ("ssm_norm.weight", (self.state_size,), _F32),
            ("ssm_out.weight", (values, self.n_embd), self.weight),
        ]

    def _feed_forward(self) -> Table:
        norm = "post_attention_norm" if self.architecture == "qwen35" else "ffn_norm"
        if self.n_experts:
            return [
                (f"{norm}.weight", (self.n_embd,), _F32),
                ("ffn_gate_inp.weight", (self.n_embd, self.n_experts), _F32),
                ("ffn_gate_exps.weight", (self.n_embd, self.n_ff, self.n_experts), self.weight),
                ("ffn_up_exps.weight", (self.n_embd, self.n_ff, self.n_experts), self.weight),
                ("ffn_down_exps.weight", (self.n_ff, self.n_embd, self.n_experts), self.weight),
            ]
        return [
            (f"{norm}.weight", (self.n_embd,), _F32),
            ("ffn_gate.weight", (self.n_embd, self.n_ff), self.weight),
            ("ffn_up.weight", (self.n_embd, self.n_ff), self.weight),
            ("ffn_down.weight", (self.n_ff, self.n_embd), self.weight),
        ]


def write_shape(path: Path, tokenizer: Path | None, shape: Shape) -> Path:
    """Write the file: some megabytes on the disk at most, whatever its size.

    Args:
        path: Where.
        tokenizer: A GGUF whose tokens are taken; None for a file without, which llama.cpp does not take.
        shape: What it claims to be.
    """
    writer = GGUFWriter(path, shape.architecture)
    writer.add_name("Shape")
    for key, value in shape.metadata():
        name = f"{shape.architecture}.{key}"
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        else:
            writer.add_uint32(name, value)
    if tokenizer is not None:
        _write_tokens(writer, GGUFReader(tokenizer), shape.n_vocab)
    size = 0
    for name, dimensions, kind in shape.tensors():
        block, block_bytes = GGML_QUANT_SIZES[kind]
        count = 1
        for dimension in dimensions:
            count *= dimension
        n_bytes = count // block * block_bytes
        # in NumPy's order the innermost dimension is the last; a raw type's shape counts bytes there
        inner = dimensions[0] // block * block_bytes if kind is not _F32 else dimensions[0]
        outer = tuple(reversed(dimensions[1:]))
        writer.add_tensor_info(name, (*outer, inner), _dtype(kind), n_bytes, raw_dtype=kind)
        size += -(-n_bytes // writer.data_alignment) * writer.data_alignment
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with path.open("r+b") as stream:
        stream.seek(0, 2)
        begin = -(-stream.tell() // writer.data_alignment) * writer.data_alignment
        stream.truncate(begin + size)
    return path


def _dtype(kind: GGMLQuantizationType) -> Any:  # noqa: ANN401 - a NumPy type
    import numpy as np

    return np.dtype(np.float32) if kind is _F32 else np.dtype(np.uint8)


def _write_tokens(writer: GGUFWriter, source: GGUFReader, n_vocab: int) -> None:
    fields = source.fields
    tokens = list(fields["tokenizer.ggml.tokens"].contents())
    kinds = list(fields["tokenizer.ggml.token_type"].contents())
    missing = range(n_vocab - len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*tokens, *(f"[pad{number}]" for number in missing)])
    writer.add_token_types([*kinds, *(int(TokenType.UNUSED) for _ in missing)])
    writer.add_token_merges(list(fields["tokenizer.ggml.merges"].contents()))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(fields["tokenizer.chat_template"].contents())
