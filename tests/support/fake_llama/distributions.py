"""What would come next after a text: made up, the same for the same text, and as far off as a rule says."""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.fake_llama.plan import Plan
    from tests.support.fake_llama.rules import Behaviour

#: Tokens of the vocabulary.
VOCABULARY = 49152
#: So many tokens does it know for each text, and so much of the whole do they hold.
SHOWN = 60
_MASS = 0.98
_TENSOR_KL = 1e-4
_CACHE_KL = {"q8_0": 3e-3, "q5_0": 1e-2, "q5_1": 1e-2, "q4_0": 2.5e-2, "q4_1": 2.5e-2, "iq4_nl": 2.5e-2}
_STEEPEST = 300.0
_HALVINGS = 60
_CONSONANTS = "bdfghklmnprstv"
_VOWELS = "aeiou"
_SYLLABLES = len(_CONSONANTS) * len(_VOWELS)


def kl_nats(plan: Plan, behaviour: Behaviour) -> float:
    """How far this server is from the plain one, over all texts."""
    if behaviour.kl is not None:
        return behaviour.kl
    cache = max(_CACHE_KL.get(kind, 0.0) for kind in plan.cache_types)
    return cache + (_TENSOR_KL if plan.split_mode == "tensor" else 0.0)


def next_tokens(text: str, plan: Plan, behaviour: Behaviour) -> list[tuple[int, float]]:
    """Tokens and the natural logarithms of their probabilities, likeliest first."""
    if behaviour.nonsense:
        found = _distribution(f"nonsense {text}")
    else:
        found = _distribution(f"plain {text}")
        if mean_kl := kl_nats(plan, behaviour):
            # what it is told to be off is the model's, and the same in every configuration
            own = f"{plan.split_mode} {plan.cache_types}" if behaviour.kl is None else behaviour.kl
            seed = f"{own} {text}"
            found = _skewed(found, seed, mean_kl)
    return [(token, math.log(part)) for token, part in sorted(found.items(), key=lambda row: -row[1])]


def token_text(token: int) -> str:
    """The same for the same token, and another for every other."""
    syllables = (token // _SYLLABLES**power % _SYLLABLES for power in (2, 1, 0))
    return " " + "".join(_CONSONANTS[s // len(_VOWELS)] + _VOWELS[s % len(_VOWELS)] for s in syllables)


def _distribution(seed: str) -> dict[int, float]:
    """Falls about geometrically; some texts leave little choice, others much."""
    steepness, *chances = _chances(seed, 1 + 3 * SHOWN)
    jitters, draws = chances[:SHOWN], chances[SHOWN:]
    tokens = list(dict.fromkeys(int(draw * VOCABULARY) for draw in draws))[:SHOWN]
    decay = 0.6 + 0.3 * steepness
    weights = [decay**rank * (0.7 + 0.6 * jitter) for rank, jitter in enumerate(jitters)]
    total = sum(weights) / _MASS
    return {token: weight / total for token, weight in zip(tokens, weights, strict=True)}


def _skewed(plain: dict[int, float], seed: str, mean_kl: float) -> dict[int, float]:
    """Every token becomes likelier or less likely, as strongly as the divergence asks for."""
    luck, *chances = _chances(seed, 2 + len(plain))
    kl = mean_kl * 2 ** (2 * luck - 1)  # a half to twice as much, by text
    parts = [*plain.values(), 1 - sum(plain.values())]  # the last one stands for what is not shown
    leanings = [2 * chance - 1 for chance in chances]
    mean = sum(part * leaning for part, leaning in zip(parts, leanings, strict=True))
    low, high = 0.0, _STEEPEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if math.log(_total(parts, leanings, middle)) - middle * mean < kl:
            low = middle
        else:
            high = middle
    total = _total(parts, leanings, low)
    rows = zip(plain.items(), leanings, strict=False)
    return {token: part * math.exp(low * leaning) / total for (token, part), leaning in rows}


def _total(parts: list[float], leanings: list[float], strength: float) -> float:
    return sum(part * math.exp(strength * leaning) for part, leaning in zip(parts, leanings, strict=True))


def _chances(seed: str, n: int) -> list[float]:
    """Numbers from 0 to 1, the same for the same seed on every machine."""
    raw = hashlib.shake_128(seed.encode()).digest(4 * n)
    return [int.from_bytes(raw[4 * i : 4 * i + 4]) / 2**32 for i in range(n)]
