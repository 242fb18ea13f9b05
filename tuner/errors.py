"""What stops a run.

    TunerError
      UsageError       an option that cannot be understood or that contradicts another
      PlatformError    this system cannot run the tuner's servers
      SpaceError       a search space: file and dotted key of the first thing wrong
      PromptError      a prompt file: file and line of the first thing wrong
      ModelError       a model file that is missing, cut, or no GGUF
      RigError         fewer devices than needed, a device unknown, a rig already in use
      EngineError      a llama-server that cannot be started or understood
      StudyError       a study on disk that was made with something else
      ExportError      a configuration that a form of export cannot hold
      ResultsError     a results folder that cannot be written or read

An error means that the run cannot go on; every message says what, where and what to do. What a candidate
does to itself (running out of memory, crashing) is no error but an `Outcome`: see `tuner.core.outcome`.
"""


class TunerError(Exception):
    """Root of everything that stops a run; the command line turns it into exit code 2."""


class UsageError(TunerError):
    """An option that cannot be understood or that contradicts another."""


class PlatformError(TunerError):
    """This system cannot run the tuner's servers."""


class SpaceError(TunerError):
    """A search space is wrong: the message names the file and the dotted key."""


class PromptError(TunerError):
    """A prompt file is wrong: the message names the file and the line."""


class ModelError(TunerError):
    """A model file is missing, incomplete, or no GGUF."""


class RigError(TunerError):
    """Devices are missing, unknown, or in use by another tuner."""


class EngineError(TunerError):
    """A llama-server cannot be started or understood."""


class StudyError(TunerError):
    """A study on disk was made with another model, engine, space or workload."""


class ExportError(TunerError):
    """A form of export cannot hold a configuration as it was measured."""


class ResultsError(TunerError):
    """A results folder cannot be written or read."""
