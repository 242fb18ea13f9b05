"""All explanations of some trials that are worth a thought, not the likeliest alone.

In tensor mode the slowest device decides, so of another one trials often say only that it is fast enough: a
probability with a tail on one side, which no single Gaussian has. Slices along each device's bandwidth, each with a
Gaussian over all else, are added where they are likely.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tuner.search.speed.fit import fit

if TYPE_CHECKING:
    from tuner.search.speed.fit import Fitted, Likeness, Measured
    from tuner.search.speed.model import Prior

#: Slices on either side of the first explanation's bandwidth: how far off, as logarithms, and their widths as
#: standard deviations.
_SLICES = ((0.2, 0.08), (0.45, 0.12), (0.9, 0.2))
#: What is nearer, in standard deviations, the first explanation says itself.
_WITHIN = 1.5
#: A slice that comes back by more than this part of its step is the first explanation again.
_DRAWN_BACK = 0.6
#: Explanations that are kept: the likeliest, if they are not far less likely than the first.
_MOST, _LEAST_WEIGHT = 5, 0.1


def explanations(
    prior: Prior, measured: Measured, model_sigma: float, likeness: Likeness
) -> tuple[tuple[float, Fitted], ...]:
    """Each with its probability, the likeliest first.

    Args:
        prior: What is believed beforehand.
        measured: The trials; none is fine.
        model_sigma: How far off the model itself is, as a standard deviation of the logarithm.
        likeness: How alike the model's errors are, from 0 to 1.
    """
    first = fit(prior, measured, model_sigma, likeness=likeness)
    found = [first]
    for device in range(prior.n_devices):
        sigma = float(np.sqrt(first.covariance[device, device]))
        for sign in (-1, 1):
            for step, width in _SLICES:
                if step < _WITHIN * sigma:
                    continue
                start = first.theta.copy()
                start[device] += sign * step
                pinned = prior.pinned(device, start[device], width)
                other = fit(pinned, measured, model_sigma, likeness=likeness, start=start)
                believed = prior.disbelief(other.theta) - pinned.disbelief(other.theta)
                other = replace(other, log_evidence=other.log_evidence - believed)
                drawn_back = abs(other.theta[device] - first.theta[device]) < _DRAWN_BACK * step
                if drawn_back or other.log_evidence < first.log_evidence + np.log(_LEAST_WEIGHT):
                    break  # and further out it is less likely still
                found.append(other)
    found.sort(key=lambda one: -one.log_evidence)
    weights = np.exp(np.array([one.log_evidence - found[0].log_evidence for one in found]))
    weights = weights[weights >= _LEAST_WEIGHT][:_MOST]
    return tuple((float(one), fitted) for one, fitted in zip(weights / weights.sum(), found, strict=False))
