"""The time of a generated token, as a handful of physical quantities say it.

A step of m tokens, drafted ones and those of other streams among them, takes
`transfer * (1 + verify * (m - 1)) + fixed`. In layer mode the devices read their layers one after the other, so
`transfer` is the sum of bytes over bandwidth; in tensor mode they wait for the slowest, so it is the largest, and
`fixed` holds the reductions, two a layer. A draft of n tokens costs n times a draft pass, which reads the drafting
layers and the output wherever these lie, and yields what is accepted. What lies in host memory is read at the
host's own rate, whichever device's layers it belongs to.
All quantities are positive and unknown: they live as logarithms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tuner.core.cards import Bandwidth

#: Quantities beside one bandwidth a device, in their order.
REDUCE, OVERHEAD, HOP, VERIFY, DRAFT, ACCEPT, DECAY, QUANTISED, INTERNAL, NGRAM, HOST, HOST_VERIFY = range(12)
_N_SHARED = 12


@dataclass(frozen=True, slots=True)
class Rows:
    """Configurations as vectors, one row each."""

    tensor: NDArray[np.bool_]
    read_bytes: NDArray[np.float64]
    """Rows by devices: what a token of the model reads."""
    host_bytes: NDArray[np.float64]
    """What a token of the model makes the host read."""
    draft_bytes: NDArray[np.float64]
    """Rows by devices: what a drafted token reads."""
    boundaries: NDArray[np.float64]
    """Devices less one, in layer mode."""
    depth: NDArray[np.float64]
    """Tokens drafted at a time; 0 without drafts."""
    quantised: NDArray[np.float64]
    """1 where the cache is quantised."""
    internal: NDArray[np.float64]
    """1 where reductions do not go through NCCL."""
    ngram: NDArray[np.float64]
    """1 where n-grams draft too."""
    streams: NDArray[np.float64]
    """Requests at the same time."""

    def __len__(self) -> int:
        return len(self.depth)

    def take(self, places: NDArray[np.int_]) -> Rows:
        """Some of the rows."""
        return Rows(*(getattr(self, name)[places] for name in Rows.__dataclass_fields__))


@dataclass(frozen=True, slots=True)
class Prior:
    """What is believed of the quantities beforehand: means and standard deviations of their logarithms."""

    mean: NDArray[np.float64]
    sigma: NDArray[np.float64]
    n_layers: int

    @property
    def n_devices(self) -> int:
        """Devices that have a bandwidth."""
        return len(self.mean) - _N_SHARED

    def disbelief(self, theta: NDArray[np.float64]) -> float:
        """How unlikely some quantities are beforehand, as a negative logarithm."""
        return float(0.5 * (((theta - self.mean) / self.sigma) ** 2).sum())

    def pinned(self, device: int, at: float, sigma: float) -> Prior:
        """The same with another belief of one device's bandwidth, as a logarithm."""
        mean, sigmas = self.mean.copy(), self.sigma.copy()
        mean[device], sigmas[device] = at, sigma
        return Prior(mean, sigmas, self.n_layers)


def prior_of(bandwidths: Sequence[Bandwidth], n_layers: int) -> Prior:
    """A prior for a rig.

    Args:
        bandwidths: What a decode step reaches of each device.
        n_layers: Layers of the model.
    """
    shared = {
        REDUCE: (np.log(30e-6), 0.9),
        OVERHEAD: (np.log(0.8e-3), 0.8),
        HOP: (np.log(120e-6), 0.8),
        VERIFY: (np.log(0.05), 0.7),
        DRAFT: (np.log(1.6e-3), 0.8),  # beyond what it reads
        ACCEPT: (1.6, 0.7),  # of the first drafted token: a logit
        DECAY: (1.8, 0.6),  # of each further one, given the last: a logit
        QUANTISED: (0.01, 0.03),
        INTERNAL: (0.03, 0.12),
        NGRAM: (0.02, 0.04),
        HOST: (np.log(35e9), 0.7),  # bytes a second that processor and memory reach
        HOST_VERIFY: (np.log(0.6), 0.6),  # each further token has experts of its own
    }
    means = [np.log(bandwidth.bytes_s) for bandwidth in bandwidths]
    sigmas = [bandwidth.sigma for bandwidth in bandwidths]
    for place in range(_N_SHARED):
        means.append(shared[place][0])
        sigmas.append(shared[place][1])
    return Prior(np.array(means), np.array(sigmas), n_layers)


def log_cycle_s(theta: NDArray[np.float64], rows: Rows, n_layers: int) -> NDArray[np.float64]:
    """Logarithm of the seconds of a draft and its verification, or of a plain step; of one stream's part of it.

    Args:
        theta: Quantities: one vector, or one a draw in rows.
        rows: Configurations.
        n_layers: Layers of the model.

    Returns:
        One number a configuration; of several draws, draws by configurations.
    """
    draws = np.atleast_2d(theta)
    n = draws.shape[1] - _N_SHARED
    shared = draws[:, n:, None]
    bandwidths = np.exp(draws[:, None, :n])

    def reading_s(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
        seconds = sizes[None, :, :] / bandwidths
        found: NDArray[np.float64] = np.where(rows.tensor[None, :], seconds.max(axis=2), seconds.sum(axis=2))
        return found

    transfer = reading_s(rows.read_bytes)
    transfer = transfer * np.exp(shared[:, QUANTISED] * rows.quantised[None, :])
    reduce_s = 2 * n_layers * np.exp(shared[:, REDUCE] + shared[:, INTERNAL] * rows.internal[None, :])
    fixed = np.exp(shared[:, OVERHEAD]) + np.where(
        rows.tensor[None, :], reduce_s, np.exp(shared[:, HOP]) * rows.boundaries[None, :]
    )
    depth = rows.depth[None, :]
    streams = rows.streams[None, :]
    more = streams * (1 + depth) - 1
    host_s = rows.host_bytes[None, :] / np.exp(shared[:, HOST])
    step = transfer * (1 + np.exp(shared[:, VERIFY]) * more) + fixed
    step = step + host_s * (1 + np.exp(shared[:, HOST_VERIFY]) * more)
    step = step * np.exp(shared[:, NGRAM] * rows.ngram[None, :])
    whole_s = step + depth * (reading_s(rows.draft_bytes) + np.exp(shared[:, DRAFT]))
    cycle: NDArray[np.float64] = np.log(whole_s / streams)
    return cycle.reshape(theta.shape[:-1] + depth.shape[1:])


def log_yield(theta: NDArray[np.float64], depth: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logarithm of the tokens that a cycle yields, by the depth of its drafts.

    The first drafted token is accepted with a probability, each further one with another, given the last.
    """
    draws = np.atleast_2d(theta)
    n = draws.shape[1] - _N_SHARED
    first = 1 / (1 + np.exp(-draws[:, n + ACCEPT, None]))
    decay = np.minimum(1 / (1 + np.exp(-draws[:, n + DECAY, None])), 1 - 1e-9)
    total = 1 + first * (1 - decay ** depth[None, :]) / (1 - decay)
    logs: NDArray[np.float64] = np.log(total)
    return logs.reshape(theta.shape[:-1] + depth.shape)
