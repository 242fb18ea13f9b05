"""What a token takes between the matrices of a layer, in bytes: activations are 32-bit numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tuner.core.model import ModelFile

_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Activations:
    """Sizes of one token's activations."""

    embedding: int
    queries: int
    feed_forward: int
    """Of the widest matrix, all experts that a token passes together."""
    outputs: int
    """What those experts give before it is added up; 0 for a dense model."""

    @classmethod
    def of(cls, model: ModelFile) -> Self:
        """Those of a model."""
        return cls(
            embedding=_FLOAT_BYTES * model.n_embd,
            queries=_FLOAT_BYTES * model.n_head * model.head_dim_k,
            feed_forward=_FLOAT_BYTES * feed_forward_length(model),
            outputs=_FLOAT_BYTES * model.n_embd * model.n_expert_used,
        )

    @property
    def inner(self) -> int:
        """The feed-forward's own: up, gate and their product; outputs find room in the first two if they fit."""
        return 3 * self.feed_forward + (self.outputs if self.outputs > 2 * self.feed_forward else 0)


def feed_forward_length(model: ModelFile) -> int:
    """The widest activation between two matrices of a layer, in elements."""
    widest = 0
    for tensor in model.tensors:
        if tensor.name.endswith("ffn_down.weight"):
            widest = max(widest, tensor.shape[0])
        elif tensor.name.endswith("ffn_down_exps.weight"):
            widest = max(widest, tensor.shape[0] * max(model.n_expert_used, 1))
    return widest or 4 * model.n_embd
