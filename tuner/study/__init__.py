"""The study: Optuna's storage as the record of what was tried, Optuna's samplers as a source of proposals.

With `tuner.importances` all that knows Optuna.
"""

from tuner.study.sampler import STARTUP_TRIALS, TpeDraw, TpeSampler
from tuner.study.store import STUDY_FORMAT, StudyStore
from tuner.study.trial_store import Kept, Taken, TrialStore

__all__ = [
    "STARTUP_TRIALS",
    "STUDY_FORMAT",
    "Kept",
    "StudyStore",
    "Taken",
    "TpeDraw",
    "TpeSampler",
    "TrialStore",
]
