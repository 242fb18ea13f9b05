"""The study: Optuna's storage as the record of what was tried, Optuna's samplers as a source of proposals.

With `tuner.importances` all that knows Optuna.
"""

from tuner.study.documents import Worker
from tuner.study.making import Making
from tuner.study.sampler import STARTUP_TRIALS, TpeDraw, TpeSampler
from tuner.study.shared import SharedStore
from tuner.study.shared_claims import PROVING
from tuner.study.store import STUDY_FORMAT, StudyStore
from tuner.study.trial_store import Kept, Taken, TrialStore, always
from tuner.study.workers import Part

__all__ = [
    "PROVING",
    "STARTUP_TRIALS",
    "STUDY_FORMAT",
    "Kept",
    "Making",
    "Part",
    "SharedStore",
    "StudyStore",
    "Taken",
    "TpeDraw",
    "TpeSampler",
    "TrialStore",
    "Worker",
    "always",
]
