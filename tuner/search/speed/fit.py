"""Fits the quantities of the speed model to what was measured: the likeliest, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tuner.search.speed.model import Prior, Rows, log_cycle_s, log_yield

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_ITERATIONS = 25
_STEP = 1e-5
#: Degrees of freedom of the errors: what is far off bends the fit little.
_TAILS = 4.0
_DAMPING = 1e-3


@dataclass(frozen=True, slots=True)
class Measured:
    """What trials have shown."""

    rows: Rows
    log_cycle_s: NDArray[np.float64]
    """Of a draft and its verification, or of a plain step."""
    cycle_sigma: NDArray[np.float64]
    yields: NDArray[np.float64]
    """Tokens a cycle of those with drafts; NaN without."""
    yield_sigma: float = 0.03

    @property
    def log_rates(self) -> NDArray[np.float64]:
        """Tokens a second, as logarithms."""
        tokens: NDArray[np.float64] = np.log(np.nan_to_num(self.yields, nan=1.0))
        return tokens - self.log_cycle_s


@dataclass(frozen=True, slots=True)
class Fitted:
    """The quantities after the fit."""

    theta: NDArray[np.float64]
    covariance: NDArray[np.float64]
    residuals: NDArray[np.float64]
    """Logarithm of measured over modelled cycle, a trial."""


def fit(prior: Prior, measured: Measured, model_sigma: float) -> Fitted:
    """The likeliest quantities and how sure they are.

    Args:
        prior: What is believed beforehand.
        measured: The trials; none is fine.
        model_sigma: How far off the model itself is, as a standard deviation of the logarithm.
    """
    theta = _start(prior, measured)
    precision = 1 / prior.sigma**2
    sigma = np.concatenate(
        (
            np.sqrt(measured.cycle_sigma**2 + model_sigma**2),
            np.full(np.count_nonzero(~np.isnan(measured.yields)), measured.yield_sigma),
        )
    )
    target = np.concatenate((measured.log_cycle_s, np.log(measured.yields[~np.isnan(measured.yields)])))
    best = np.inf
    damping = _DAMPING
    hessian = np.diag(precision)
    for _ in range(_ITERATIONS):
        predicted, jacobian = slopes_of(lambda one: _predicted(one, prior, measured), theta)
        errors = (target - predicted) / sigma
        weights = (_TAILS + 1) / (_TAILS + errors**2)
        scaled = jacobian / sigma[:, None]
        hessian = scaled.T @ (weights[:, None] * scaled) + np.diag(precision)
        gradient = scaled.T @ (weights * errors) - precision * (theta - prior.mean)
        step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), gradient)
        step = np.clip(step, -0.7, 0.7)
        candidate = theta + step
        loss = _loss(candidate, prior, measured, target, sigma)
        if loss < best:
            converged = best - loss < 1e-9
            theta, best = candidate, loss
            damping = max(damping / 3, 1e-6)
            if converged or np.abs(step).max() < 1e-6:
                break
        else:
            damping *= 8
            if damping > 1e6:
                break
    residuals = measured.log_cycle_s - log_cycle_s(theta, measured.rows, prior.n_layers)
    covariance: NDArray[np.float64] = np.linalg.inv(hessian).astype(np.float64)
    return Fitted(theta, covariance, residuals)


def _start(prior: Prior, measured: Measured) -> NDArray[np.float64]:
    """The prior, with all bandwidths moved to where the trials are: errors that are robust do not pull from afar."""
    theta = prior.mean.copy()
    if len(measured.log_cycle_s):
        off = measured.log_cycle_s - log_cycle_s(theta, measured.rows, prior.n_layers)
        theta[: prior.n_devices] -= np.median(off)
    return theta


def _predicted(theta: NDArray[np.float64], prior: Prior, measured: Measured) -> NDArray[np.float64]:
    drafting = ~np.isnan(measured.yields)
    cycles = log_cycle_s(theta, measured.rows, prior.n_layers)
    yields = log_yield(theta, measured.rows.depth[drafting])
    return np.concatenate((cycles, yields))


def slopes_of(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]], theta: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A function's values there, and their slopes along each quantity (values by quantities)."""
    at = function(theta)
    columns = []
    for place in range(len(theta)):
        moved = theta.copy()
        moved[place] += _STEP
        columns.append((function(moved) - at) / _STEP)
    return at, np.stack(columns, axis=1)


def _loss(
    theta: NDArray[np.float64],
    prior: Prior,
    measured: Measured,
    target: NDArray[np.float64],
    sigma: NDArray[np.float64],
) -> float:
    errors = (target - _predicted(theta, prior, measured)) / sigma
    misfit = (_TAILS + 1) / 2 * np.log1p(errors**2 / _TAILS).sum()
    return float(misfit + 0.5 * (((theta - prior.mean) / prior.sigma) ** 2).sum())
