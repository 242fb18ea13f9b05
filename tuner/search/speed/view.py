"""What one explanation of the trials says of any configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tuner.search.speed.fit import slopes_of
from tuner.search.speed.model import log_cycle_s, log_yield
from tuner.search.speed.rest import whole
from tuner.search.speed.surprise import surprise
from tuner.search.speed.switches import YIELD_SIGMA, switch_effects, switches_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tuner.core.options import Value
    from tuner.search.speed.fit import Fitted
    from tuner.search.speed.model import Rows
    from tuner.search.speed.rest import Rest
    from tuner.search.speed.trials import Trials

#: A time that is further off than this, as a logarithm and in usual errors, has a cause that the model cannot know.
_FAR_OFF, _FAR_OFF_SIGMAS = 0.4, 5.0
#: Switches that save so much of a token's time, as a logarithm, are kept.
_WORTH_KEEPING = 0.03


@dataclass(frozen=True, slots=True)
class View:
    """The speed model, fitted to some trials."""

    trials: Trials
    fitted: Fitted
    """Its residuals are less what switches cost."""
    n_layers: int
    switches: NDArray[np.float64]
    """What options that the model does not know cost each trial, as a logarithm of a time."""
    usual_sigma: float
    """How far off the model usually is, as a standard deviation of the logarithm of a time."""
    rest: Rest | None
    """What a token takes beside generating it; None where the goal does not count that."""
    generating: NDArray[np.float64]
    """Logarithm of the rate at which each trial is expected to generate, with the usual switches."""

    @classmethod
    def of(
        cls, trials: Trials, fitted: Fitted, n_layers: int, usual_sigma: float, rest: Rest | None = None
    ) -> View:
        """Take what other options cost out of what the fit leaves over."""
        measured, off = trials.measured, fitted.residuals
        noise = np.where(_is_far_too_slow(off, usual_sigma), np.inf, measured.cycle_sigma)
        cost = switch_effects(trials.candidates, off, noise)
        more = np.log(np.nan_to_num(measured.yields, nan=1.0)) - log_yield(fitted.theta, measured.rows.depth)
        gain = switch_effects(
            trials.candidates,
            np.where(measured.drafting, more, 0.0),
            np.where(measured.drafting, measured.yield_sigma, np.inf),
            prior_sigma=YIELD_SIGMA,
        )
        view = cls(
            trials,
            replace(fitted, residuals=off - cost),
            n_layers,
            cost - gain,
            usual_sigma,
            rest,
            np.zeros(0),
        )
        return replace(view, generating=view._generates(measured.rows)[0])

    def expected(self, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Logarithm of the expected rate of configurations, and its standard deviation."""
        alone, sigma = self._generates(rows)
        if self.rest is None:
            return alone, sigma
        seconds, rest_sigma = self.rest.expected(rows)
        rates = whole(alone, seconds)
        part = np.exp(rates - alone)
        return rates, np.hypot(part * sigma, (1 - part) * rest_sigma)

    def _generates(self, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        measured = self.trials.measured
        off = surprise(rows, measured.rows, self.fitted.residuals, measured.cycle_sigma, self.usual_sigma)
        at, slopes = slopes_of(
            lambda theta: log_yield(theta, rows.depth) - log_cycle_s(theta, rows, self.n_layers),
            self.fitted.theta,
        )
        spread = np.linalg.cholesky(self.fitted.covariance)
        variance = ((slopes @ spread) ** 2).sum(axis=1)
        return at - off.mean, np.sqrt(variance + off.sigma**2)

    @property
    def best(self) -> float | None:
        """Logarithm of the best expected rate of what was measured; None before the first."""
        own = self.at_trials[self.trials.are_own]
        return float(own.max()) if len(own) else None

    @property
    def at_trials(self) -> NDArray[np.float64]:
        """Logarithm of the expected rate of each trial, with the usual switches."""
        return whole(self.generating, self.trials.rest_s)

    @property
    def own(self) -> NDArray[np.float64]:
        """Logarithm of what each trial makes with its own switches, by all trials together."""
        generating = self.generating - self.switches
        alone = np.where(self.is_far_too_slow, self.trials.measured.log_rates, generating)
        return whole(alone, self.trials.rest_s)

    @property
    def is_far_too_slow(self) -> NDArray[np.bool_]:
        """Which trials are slower than the model can be wrong."""
        return _is_far_too_slow(self.fitted.residuals, self.usual_sigma)

    @property
    def good_switches(self) -> dict[str, Value]:
        """Options that the model does not know, as the best trial has them, if they are worth something."""
        if not len(self.trials):
            return {}
        best = int(np.argmax(self.own))
        keeps = self.switches[best] < -_WORTH_KEEPING and not self.is_far_too_slow[best]
        return switches_of(self.trials.candidates[best]) if keeps else {}


def _is_far_too_slow(residuals: NDArray[np.float64], usual_sigma: float) -> NDArray[np.bool_]:
    return residuals > max(_FAR_OFF_SIGMAS * usual_sigma, _FAR_OFF)
