"""Why a server died, or what it quietly did otherwise: from its log, its exit code and what was going on.

Texts and exit codes are those of llama.cpp builds 9095 to 11434. Builds from 9246 on prefix every line with
time and level, so nothing is anchored at line starts. Lines of two writers can come out of order (an assert
before the allocator line that caused it), so a text is looked for in the whole log, not after another one.
"""

from tuner.core.diagnosis.death import Death
from tuner.core.diagnosis.quiet import degraded
from tuner.core.diagnosis.verdict import diagnose, examine

__all__ = ["Death", "degraded", "diagnose", "examine"]
