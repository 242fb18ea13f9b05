"""Fits the quantities of the speed model to what was measured: the likeliest, and how sure they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tuner.search.speed.model import HOST, Prior, Rows, log_cycle_s, log_yield

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ITERATIONS = 25
_STEP = 1e-5
#: Degrees of freedom of the errors: what is far off bends the fit little.
_TAILS = 4.0
_DAMPING = 1e-3
#: A step that gains less is the last.
_CONVERGED = 1e-5
#: Rounds of weights, and when they stay as they are.
_REWEIGHTED, _SETTLED = 4, 0.05

Likeness = Callable[[Rows, Rows], "NDArray[np.float64]"]
"""How alike the errors of configurations are, from 0 to 1: rows of the one by rows of the other."""


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
    def drafting(self) -> NDArray[np.bool_]:
        """Which of them draft."""
        return ~np.isnan(self.yields)

    @property
    def log_rates(self) -> NDArray[np.float64]:
        """Tokens a second, as logarithms."""
        tokens: NDArray[np.float64] = np.log(np.nan_to_num(self.yields, nan=1.0))
        return tokens - self.log_cycle_s


@dataclass(frozen=True, slots=True)
class Fitted:
    """One explanation of the trials: likely quantities, and how sure they are."""

    theta: NDArray[np.float64]
    covariance: NDArray[np.float64]
    residuals: NDArray[np.float64]
    """Logarithm of measured over modelled cycle, a trial."""
    log_evidence: float = 0.0
    """How well it explains the trials, and how many values of the quantities do (Laplace's approximation)."""


def fit(
    prior: Prior,
    measured: Measured,
    model_sigma: float,
    *,
    likeness: Likeness | None = None,
    start: NDArray[np.float64] | None = None,
) -> Fitted:
    """The likeliest quantities near a start, and how sure they are.

    Errors of the model are alike for like configurations, so ten trials of one split do not say ten times as much
    of it: generalised least squares, with weights that are worked out anew so that one wild trial bends little
    (Student's t).

    Args:
        prior: What is believed beforehand.
        measured: The trials; none is fine.
        model_sigma: How far off the model itself is, as a standard deviation of the logarithm.
        likeness: How alike the model's errors are, from 0 to 1; None where each is on its own.
        start: Where to begin; None for the prior, moved to where the trials are.
    """
    problem = _Problem.of(prior, measured, model_sigma, likeness)
    theta, hessian = _descend(_start(prior, measured) if start is None else start, problem)
    for _ in range(_REWEIGHTED):
        following = problem.reweighted(theta)
        if np.abs(following.weights - problem.weights).max(initial=0.0) < _SETTLED:
            break
        problem = following
        theta, hessian = _descend(theta, problem)
    covariance: NDArray[np.float64] = np.linalg.inv(hessian).astype(np.float64)
    evidence = np.log(np.diag(problem.whitener)).sum() - problem.loss(theta)
    return Fitted(
        theta,
        covariance,
        measured.log_cycle_s - log_cycle_s(theta, measured.rows, prior.n_layers),
        float(evidence + 0.5 * np.linalg.slogdet(covariance)[1]),
    )


@dataclass(frozen=True, slots=True)
class _Problem:
    """Trials to be explained: first their cycles, then the yields of those that draft."""

    prior: Prior
    measured: Measured
    target: NDArray[np.float64]
    spread: NDArray[np.float64]
    """Covariance of the errors."""
    weights: NDArray[np.float64]
    """From 0 to 1: what is far off counts little."""
    whitener: NDArray[np.float64]
    """What errors are multiplied by to become independent and of size 1."""

    @classmethod
    def of(cls, prior: Prior, measured: Measured, model_sigma: float, likeness: Likeness | None) -> _Problem:
        """All trials with their full weight."""
        n, places = len(measured.log_cycle_s), np.flatnonzero(measured.drafting)
        spread = np.eye(n + len(places)) * measured.yield_sigma**2
        alike = np.eye(n) if likeness is None else likeness(measured.rows, measured.rows)
        spread[:n, :n] = model_sigma**2 * alike + np.diag(measured.cycle_sigma**2)
        target = np.concatenate((measured.log_cycle_s, np.log(measured.yields[places])))
        return cls(prior, measured, target, spread, np.ones(len(target)), _whitener(spread))

    def reweighted(self, theta: NDArray[np.float64]) -> _Problem:
        """The same with the weights that the errors deserve."""
        squares = (self.target - self.predicted(theta)) ** 2 / np.diag(self.spread)
        weights = np.minimum((_TAILS + 1) / (_TAILS + squares), 1.0)
        wider = self.spread + np.diag(np.diag(self.spread) * (1 / weights - 1))
        return replace(self, weights=weights, whitener=_whitener(wider))

    def predicted(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithms of cycles and yields."""
        cycles = log_cycle_s(theta, self.measured.rows, self.prior.n_layers)
        yields = log_yield(theta, self.measured.rows.depth[self.measured.drafting])
        return np.concatenate((cycles, yields), axis=-1)

    def loss(self, theta: NDArray[np.float64]) -> float:
        """How unlikely some quantities are, as a negative logarithm."""
        errors = self.whitener @ (self.target - self.predicted(theta))
        return float(0.5 * (errors**2).sum()) + self.prior.disbelief(theta)


def _whitener(spread: NDArray[np.float64]) -> NDArray[np.float64]:
    whitener: NDArray[np.float64] = np.linalg.inv(np.linalg.cholesky(spread)).astype(np.float64)
    return whitener


def _descend(
    theta: NDArray[np.float64], problem: _Problem
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Levenberg and Marquardt's way down: the quantities, and the curvature there."""
    precision = 1 / problem.prior.sigma**2
    best, damping = problem.loss(theta), _DAMPING
    hessian = np.diag(precision)
    for _ in range(_ITERATIONS):
        predicted, slopes = slopes_of(problem.predicted, theta)
        errors, scaled = problem.whitener @ (problem.target - predicted), problem.whitener @ slopes
        hessian = scaled.T @ scaled + np.diag(precision)
        gradient = scaled.T @ errors - precision * (theta - problem.prior.mean)
        step = np.clip(np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), gradient), -0.7, 0.7)
        loss = problem.loss(theta + step)
        if loss < best:
            converged = best - loss < _CONVERGED
            theta, best, damping = theta + step, loss, max(damping / 3, 1e-6)
            if converged:
                break
        else:
            damping *= 8
            if damping > 1e6:
                break
    return theta, hessian


def _start(prior: Prior, measured: Measured) -> NDArray[np.float64]:
    """The prior, with all bandwidths moved to where the trials are: errors that are robust do not pull from afar."""
    theta = prior.mean.copy()
    if len(measured.log_cycle_s):
        off = measured.log_cycle_s - log_cycle_s(theta, measured.rows, prior.n_layers)
        theta[: prior.n_devices] -= np.median(off)
        if measured.rows.host_bytes.any():
            theta[prior.n_devices + HOST] -= np.median(off)
    return theta


def slopes_of(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]], theta: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A function's values there, and their slopes along each quantity (values by quantities).

    Args:
        function: Takes vectors of quantities as rows, and gives its values in rows.
        theta: Quantities.
    """
    values = function(np.vstack((theta, theta + _STEP * np.eye(len(theta)))))
    return values[0], (values[1:] - values[0]).T / _STEP
