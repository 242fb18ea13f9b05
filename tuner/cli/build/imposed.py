"""What every candidate of a study has, whatever is searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.options import OPTIONS, Value
from tuner.engine.user_command import UserCommand, number, option_value
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.cli.build.options import TuneOptions
    from tuner.core.model import ModelFile
    from tuner.core.space import SearchSpace
    from tuner.engine.command_line import UserFlag

DEFAULT_CONTEXT = 16_384
#: Flags by which a model is stretched beyond what it was trained for.
_STRETCH = ("rope-", "yarn-", "override-kv")


def imposed_options(
    options: TuneOptions,
    extra: tuple[UserFlag, ...],
    current: UserCommand | None,
    space: SearchSpace,
    model: ModelFile,
) -> dict[str, Value]:
    """What every candidate has: the user's own flags, the context, the slots, the draft model.

    Raises:
        UsageError: Two of them say different things.
    """
    imposed = {
        flag.name: option_value(flag) for flag in extra if flag.name in OPTIONS and flag.name is not None
    }
    if "device" in imposed:
        raise UsageError("choose devices with --devices, not with a flag after --")
    if options.context is not None and "ctx-size" in imposed:
        raise UsageError("--context and a flag after -- both set the context; keep one of the two")
    if "ctx-size" not in imposed:
        imposed["ctx-size"] = options.context or _context(current, space, model)
    if options.parallel is not None and "parallel" in imposed:
        raise UsageError("--parallel and a flag after -- both set the slots; keep one of the two")
    if options.parallel is not None:
        imposed["parallel"] = options.parallel
    if options.draft_model is not None:
        imposed["spec-draft-model"] = str(options.draft_model.resolve())
    return imposed


def _context(current: UserCommand | None, space: SearchSpace, model: ModelFile) -> int:
    """The user's command's context, else the space's, else 16,384 or what the model was trained for."""
    theirs = None if current is None else current.value("ctx-size")
    if theirs is not None and (tokens := int(number(theirs, "--current: -c"))) > 0:
        return tokens
    fixed = space.fixed.get("ctx-size")
    if isinstance(fixed, int):
        return fixed
    return min(DEFAULT_CONTEXT, model.n_ctx_train) if model.n_ctx_train > 0 else DEFAULT_CONTEXT


def beyond_training(context: int, extra: tuple[UserFlag, ...], model: ModelFile) -> list[str]:
    """What is to be said of a context beyond what the model was trained for: nothing within it.

    Raises:
        UsageError: Nothing stretches the model: a slot would get what it was trained for, and no launch would be
            what was asked for (server-context.cpp, build 11434).
    """
    if not context > model.n_ctx_train > 0:
        return []
    beyond = f"{context:,} tokens of context are more than the model was trained for ({model.n_ctx_train:,})"
    if any(flag.name is not None and flag.name.startswith(_STRETCH) for flag in extra):
        return [beyond]
    raise UsageError(
        f"{beyond}, and llama-server gives a slot no more than that; lower --context, or stretch the model with "
        "flags after --, such as -- --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx N"
    )
