"""Compute buffers of a mixture of experts some of which lie in the host's memory, by formulas fitted to build 11434.

Bytes a token, with `E` the embedding, `Q` the queries, `F` the used experts' activations and `U` their outputs
before these are added up. Where a card multiplies with the host's weights (`helps`), the first one does so for the
layers of all of them, and holds a whole matrix of theirs at a time; elsewhere the host computes them and gives `U`
back. Twelve shapes of `qwen3moe`, launched over two devices or asked of `llama-fit-params`, agreed within 2 % where
`F` is wider than `E`, as in the models that there are. Less is taken by a first device that keeps the experts of its
last layer alone, and after a layer of the host's where `U` is wider than `2 F`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.core.memory.activations import Activations


def copied_bytes(widths: Activations, matrix_bytes: int, tokens: int, mask_bytes: int) -> int:
    """The whole buffer of the card that multiplies with the host's weights.

    Args:
        widths: Of the model.
        matrix_bytes: The largest matrix on the host.
        tokens: Tokens of a batch.
        mask_bytes: The attention's mask, a token.
    """
    up = 2 * widths.feed_forward + 3 * widths.embedding
    down = widths.feed_forward + widths.outputs + 4 * widths.embedding
    return matrix_bytes + tokens * (mask_bytes + max(up, down))


def expert_layer_bytes(
    widths: Activations,
    on_host: frozenset[int],
    layers: Sequence[int],
    *,
    last: int,
    is_first: bool,
    helps: bool,
    is_helped: bool,
) -> int:
    """Bytes a token of a device's widest layer, without the attention's mask and without a pipeline.

    Args:
        widths: Of the model.
        on_host: Layers whose experts lie on the host.
        layers: The device's own.
        last: The model's last layer, which drops all tokens but those that are asked for.
        is_first: Whether no device before this one holds a part; true of all in tensor mode.
        helps: Whether this device multiplies with the host's weights.
        is_helped: Whether any does.
    """
    e, q, f, u = widths.embedding, widths.queries, widths.feed_forward, widths.outputs
    own = frozenset(layers)
    after_host = not is_helped and bool(layers) and layers[0] - 1 in on_host
    if helps:
        return widths.inner + 4 * e
    if own == {last} and not is_first:
        return max(2 * (e + q), u + 2 * e if after_host else 0)
    if own & on_host and own <= on_host | {last}:  # none of its own counts
        computed_there = u + (4 * e if is_first else u + e if after_host else 2 * e + q)
        return 2 * (e + q) if is_helped else computed_there
    usual = widths.inner + (4 * e if is_first else 2 * e + q)
    if is_helped or is_first:
        return usual
    follows = any(layer - 1 in on_host for layer in own - on_host - {last})
    return max(usual, 2 * (f + u) + e) if follows else usual
