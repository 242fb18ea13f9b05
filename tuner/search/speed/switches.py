"""Options that the speed model knows nothing of: what each of their values costs, as far as trials tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tuner.core.candidate import Candidate
    from tuner.core.options import Value

#: Options that the model itself takes in, or that change nothing of a token's time.
_MODELLED = frozenset(
    "device split-mode tensor-split gpu-layers fit ctx-size parallel cache-type-k cache-type-v spec-type "
    "spec-draft-n-max spec-draft-type-k spec-draft-type-v GGML_CUDA_ALLREDUCE".split()
)
#: What a value of another option is expected to change at most, as a logarithm of a time, or of what a cycle yields.
TIME_SIGMA, YIELD_SIGMA = 0.05, 0.2


def switch_effects(
    candidates: Sequence[Candidate],
    residuals: NDArray[np.float64],
    noise: NDArray[np.float64],
    *,
    prior_sigma: float = TIME_SIGMA,
) -> NDArray[np.float64]:
    """What the other options of each candidate change, as a logarithm.

    Each value that not all candidates have is given an effect of its own, small unless trials insist.

    Args:
        candidates: Those that were measured.
        residuals: Errors of the speed model.
        noise: Their standard deviations; infinite where one says nothing.
        prior_sigma: How much a value is expected to change.
    """
    features = _features(candidates)
    if features.shape[1] == 0:
        return np.zeros(len(candidates))
    scaled = features / noise[:, None]
    gram = scaled.T @ scaled + np.eye(features.shape[1]) / prior_sigma**2
    effects = features @ np.linalg.solve(gram, scaled.T @ (residuals / noise))
    return np.asarray(effects, dtype=np.float64)


def switches_of(candidate: Candidate) -> dict[str, Value]:
    """The options of a candidate that the speed model knows nothing of."""
    return {name: value for name, value in candidate.items if name not in _MODELLED}


def _features(candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    """One column a value that some candidates have and some have not; most have the usual one, which has none."""
    seen: dict[tuple[str, Value | None], list[int]] = {}
    names = dict.fromkeys(
        name for candidate in candidates for name, _ in candidate.items if name not in _MODELLED
    )
    for name in names:
        for place, candidate in enumerate(candidates):
            seen.setdefault((name, candidate.get(name)), []).append(place)
    usual = {
        name: max((len(places), key) for (other, key), places in _keyed(seen) if other == name)[1]
        for name in names
    }
    columns = [
        places for (name, key), places in _keyed(seen) if key != usual[name] and len(places) < len(candidates)
    ]
    features = np.zeros((len(candidates), len(columns)))
    for column, places in enumerate(columns):
        features[places, column] = 1.0
    return features


def _keyed(seen: dict[tuple[str, Value | None], list[int]]) -> list[tuple[tuple[str, str], list[int]]]:
    return [((name, repr(value)), places) for (name, value), places in seen.items()]
