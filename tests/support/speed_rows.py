"""Configurations as the speed model sees them, in a few words, and a truth to measure them by."""

from __future__ import annotations

import numpy as np

from tuner.core.cards import Bandwidth
from tuner.search.speed.fit import Measured
from tuner.search.speed.model import Prior, Rows, log_cycle_s, log_yield, prior_of

N_LAYERS = 64
#: What a decode step reads of the model that these tests play.
MODEL_BYTES = 2e10
#: And what a drafted token reads: on the last device, or cut like the rest.
DRAFT_BYTES = 1.8e9


def rows_of(*configurations: tuple[str, float, int], **flags: float) -> Rows:
    """Rows of a pair of devices.

    Args:
        configurations: Mode, the first device's part of the bytes, and draft depth.
        flags: `quantised`, `internal` and `ngram` of all of them, 0 if left out; `streams`, 1 if left out;
            `host_bytes`, 0 if left out.
    """
    n = len(configurations)
    first = np.array([share for _, share, _ in configurations], dtype=float)
    tensor = np.array([mode == "tensor" for mode, _, _ in configurations], dtype=bool)
    shares = np.stack((first, 1 - first), axis=1)
    last = np.where((first < 1)[:, None], [[0.0, 1.0]], [[1.0, 0.0]])
    return Rows(
        tensor=tensor,
        read_bytes=MODEL_BYTES * shares,
        host_bytes=np.full(n, flags.get("host_bytes", 0.0)),
        draft_bytes=DRAFT_BYTES * np.where(tensor[:, None], shares, last),
        boundaries=np.where(tensor | (first == 0) | (first == 1), 0.0, 1.0),
        depth=np.array([depth for _, _, depth in configurations], dtype=float),
        quantised=np.full(n, flags.get("quantised", 0.0)),
        internal=np.full(n, flags.get("internal", 0.0)),
        ngram=np.full(n, flags.get("ngram", 0.0)),
        streams=np.full(n, flags.get("streams", 1.0)),
    )


def pair_prior(sigma: float = 0.3) -> Prior:
    """What is believed of two cards of 600 GB/s before anything was measured."""
    return prior_of([Bandwidth(6e11, sigma)] * 2, N_LAYERS)


def measured_of(theta: np.ndarray, rows: Rows, *, sigma: float = 0.02) -> Measured:
    """What trials without any noise would show."""
    yields = np.where(rows.depth > 0, np.exp(log_yield(theta, rows.depth)), np.nan)
    return Measured(rows, log_cycle_s(theta, rows, N_LAYERS), np.full(len(rows), sigma), yields)
