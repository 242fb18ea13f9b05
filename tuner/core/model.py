"""What the header of a GGUF says, as far as tuning needs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Model shapes for which llama.cpp refuses `-sm tensor` (llama-arch.cpp:1196-1232 of build 11434).
TENSOR_SPLIT_REFUSED = frozenset(
    "grok mpt plamo2 minicpm3 gemma3n mamba mamba2 jamba falcon-h1 olmo2 olmoe deepseek2 deepseek32 hy_v4 "
    "dots3note glm-dsa bitnet t5 nemotron_h nemotron_h_moe granitehybrid minimax-01 minimax-m2 minimax-m3 "
    "mistral4 kimi-linear bailingmoe3 kimi-k3 glm5-next qwen3tts".split()
)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One row of the tensor table."""

    name: str
    shape: tuple[int, ...]
    """Elements a dimension, innermost first, as GGUF stores it."""
    type_name: str
    """ggml's name of the element type, such as `Q8_0`."""
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StateShape:
    """What recurrent layers keep instead of a KV cache, by the header's `ssm.*`; all 0 where there are none."""

    conv_kernel: int = 0
    inner_size: int = 0
    state_size: int = 0
    group_count: int = 0
    time_step_rank: int = 0
    shortconv_cache: int = 0
    """Tokens that a short convolution looks back, of architectures that have only that."""

    def elements(self, n_embd: int) -> tuple[int, int]:
        """32-bit elements of the convolution's and of the recurrent state, a layer and a sequence.

        Source: `n_embd_r` and `n_embd_s` of llama-hparams.cpp, build 11434.
        """
        if self.shortconv_cache:
            return n_embd * (self.shortconv_cache - 1), 0
        channels = self.inner_size + 2 * self.group_count * self.state_size
        return max(self.conv_kernel - 1, 0) * channels, self.state_size * self.inner_size


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A GGUF (all its shards) and what its header says."""

    paths: tuple[str, ...]
    """Absolute paths, one a shard; llama-server is given the first."""
    size_bytes: int
    """All shards together."""
    fingerprint: str
    """Hash over each shard's size, its header, and the first and last MiB of its weights."""
    architecture: str
    name: str
    """`general.name`, or the file's stem where the header has none."""
    n_layers: int
    """`block_count`: MTP layers included, as the engine counts them."""
    n_mtp_layers: int
    """`nextn_predict_layers`: layers that only draft; 0 where the model has none."""
    n_ctx_train: int
    """Tokens of context that the model was trained for."""
    n_embd: int
    n_head: int
    """Query heads of the layer that has most of them."""
    n_head_kv: tuple[int, ...]
    """KV heads a layer (`n_layers` values); 0 for a layer without a cache: recurrent, shared, MTP."""
    head_dim_k: int
    head_dim_v: int
    """0 where the cache holds no V (multi-head latent attention)."""
    sampling: Mapping[str, float | int | str]
    """`general.sampling.*` of the header, by the part after the last dot."""
    tensors: tuple[TensorInfo, ...]
    heads: tuple[int, ...] = ()
    """Query heads a layer; empty for `n_head` everywhere."""
    kv_heads: tuple[int, ...] = ()
    """KV heads a layer as the header has them, MTP and recurrent layers too; empty for `n_head_kv`."""
    recurrent: tuple[bool, ...] = ()
    """Whether a layer keeps a state of fixed size instead of a KV cache; empty for nowhere."""
    windowed: tuple[bool, ...] = ()
    """Whether a layer attends to a sliding window only; empty for nowhere."""
    n_swa: int = 0
    """Tokens of the sliding window; 0 where there is none."""
    state: StateShape = field(default_factory=StateShape)
    n_expert_used: int = 0
    """Experts that a token passes in a layer; 0 for a dense model."""
    vocabulary: str = ""
    """Hash over the tokens, in order: what two files with one vocabulary share; empty where the header has none."""

    @property
    def path(self) -> str:
        """The path that llama-server is given."""
        return self.paths[0]

    @property
    def weights_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size_bytes for tensor in self.tensors)

    @property
    def offloaded_bytes(self) -> int:
        """Bytes that devices have to hold: the input embedding stays on the host, unless it is the output too."""
        sizes = {tensor.name: tensor.size_bytes for tensor in self.tensors}
        embedding = sizes.get("token_embd.weight", 0) if "output.weight" in sizes else 0
        return self.weights_bytes - embedding

    @property
    def n_trunk(self) -> int:
        """Layers that every token passes: all but the MTP layers."""
        return self.n_layers - self.n_mtp_layers

    @property
    def n_vocab(self) -> int:
        """Rows of the input embedding; 0 where the file has none."""
        embedding = next((tensor for tensor in self.tensors if tensor.name == "token_embd.weight"), None)
        return embedding.shape[1] if embedding is not None and len(embedding.shape) > 1 else 0

    def heads_at(self, layer: int) -> tuple[int, int]:
        """Query and KV heads of a layer, as the header has them."""
        heads = self.heads[layer] if self.heads else self.n_head
        return heads, (self.kv_heads or self.n_head_kv)[layer]

    def is_recurrent(self, layer: int) -> bool:
        """Whether that layer keeps a state of fixed size."""
        return bool(self.recurrent) and self.recurrent[layer]

    def is_windowed(self, layer: int) -> bool:
        """Whether that layer attends to a sliding window only."""
        return bool(self.windowed) and self.windowed[layer]

    @property
    def allows_tensor_split(self) -> bool:
        """Whether the engine can run this architecture in `-sm tensor`."""
        return self.architecture not in TENSOR_SPLIT_REFUSED

    @property
    def n_units(self) -> int:
        """What `-ngl` counts and layer mode deals out: all layers and the output (llama-model.cpp:1581)."""
        return self.n_layers + 1

    def kv_bytes(self, n_ctx: int, bits_k: float, bits_v: float) -> float:
        """Bytes of the KV cache for `n_ctx` tokens at so many bits an element."""
        heads = sum(self.n_head_kv)
        return n_ctx * heads * (self.head_dim_k * bits_k + self.head_dim_v * bits_v) / 8
