"""Commands that owners of pairs of cards have published, as candidates to begin with on such cards."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tuner.core.options import Value


@dataclass(frozen=True, slots=True)
class Published:
    """One command of an owner's."""

    cards: tuple[str, ...]
    """Parts of the cards' names, one a card, in the order of the split."""
    source: str
    claim: str
    """What its owner reports; nobody else has measured it."""
    options: Mapping[str, Value]


_TENSOR_Q8 = {"split-mode": "tensor", "cache-type-k": "q8_0", "cache-type-v": "q8_0"}

PUBLISHED: tuple[Published, ...] = (
    Published(
        ("RTX 5080", "RTX 3090"),
        "owners of the pair, with Qwen3.6-27B Q8 at 229,376 tokens",
        "80 tok/s and more",
        MappingProxyType(
            {
                **_TENSOR_Q8,
                "tensor-split": (2, 3),
                "kv-unified": True,
                "spec-type": "ngram-mod,draft-mtp",
                "spec-draft-n-max": 3,
            }
        ),
    ),
    Published(
        ("RTX 5080", "RTX 3090"),
        "sudoingX/qwen38-mtp PR 44, with Qwen 27B UD-Q4_K_XL at 131,072 tokens",
        "92.9 tok/s",
        MappingProxyType(
            {
                **_TENSOR_Q8,
                "tensor-split": (1, 1),
                "spec-type": "draft-mtp",
                "spec-draft-n-max": 2,
            }
        ),
    ),
    Published(
        ("RTX 3090", "RTX 3090"),
        "owners of the pair, with Qwen3.6-27B UD-Q8_K_XL",
        "67 to 81 tok/s",
        MappingProxyType(
            {
                **_TENSOR_Q8,
                "tensor-split": (1, 1),
                "spec-type": "draft-mtp",
                "spec-draft-n-max": 3,
            }
        ),
    ),
)


def published_for(descriptions: Iterable[str]) -> list[Published]:
    """The commands of owners of exactly these cards, whatever their order.

    Args:
        descriptions: What the engine says of each device, such as `NVIDIA GeForce RTX 3090`.
    """
    cards = [" ".join(one.split()) for one in descriptions]
    return [one for one in PUBLISHED if _are(cards, one.cards)]


def _are(descriptions: list[str], cards: tuple[str, ...]) -> bool:
    """Whether the devices are these cards: `RTX 3090` is not an `RTX 3090 Ti`."""
    found = Counter(
        next((card for card in cards if one.casefold().endswith(card.casefold())), one)
        for one in descriptions
    )
    return found == Counter(cards)
