"""Prompt sets: those that come with the package, and the user's own in whatever form they have."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.core.workload import Origin, PromptForm, PromptSet
from tuner.errors import PromptError
from tuner.prompts.entry import canonical, decoded
from tuner.prompts.folder import read_folder
from tuner.prompts.jsonl import read_jsonl
from tuner.prompts.sharegpt import is_sharegpt, read_sharegpt

if TYPE_CHECKING:
    from tuner.core.workload import Prompt
    from tuner.prompts.entry import Entry

_DEFAULT_SET = "default"
_SUFFIX = ".jsonl"
_FORMS = "a JSONL file of messages, a chat export (ShareGPT) or a folder of texts"


def builtin_sets() -> tuple[str, ...]:
    """Names of the prompt sets that come with the package, sorted."""
    names = (entry.name for entry in resources.files("tuner.prompts").iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


def load_prompts(name_or_path: str) -> PromptSet:
    """The built-in set of that name, else the set in that file or folder.

    A built-in name wins over a file of that name; `./default` reads the file. A set without a warm-up gets
    the one of the built-in `default`. What form a file has is told by what it holds, not by its name.

    Raises:
        PromptError: There is no such set, file or folder, or something in it is wrong.
    """
    if name_or_path in builtin_sets():
        raw = resources.files("tuner.prompts").joinpath(name_or_path + _SUFFIX).read_bytes()
        return _written(name_or_path, decoded(name_or_path, raw), PromptForm.BUILTIN)
    path = Path(name_or_path)
    if path.is_dir():
        return _collected(name_or_path, PromptForm.FOLDER, read_folder(path))
    text = decoded(name_or_path, _read(path, name_or_path))
    if is_sharegpt(text):
        found = read_sharegpt(name_or_path, text)
        return _collected(name_or_path, PromptForm.SHAREGPT, found.entries, without_user=found.without_user)
    return _written(name_or_path, text, PromptForm.JSONL)


def _read(path: Path, name: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise PromptError(
            f"{name}: neither a file, a folder nor a built-in prompt set; "
            f"give the path of {_FORMS}, or one of: {', '.join(builtin_sets())}"
        ) from None
    except OSError as error:
        raise PromptError(f"{name}: cannot be read ({error.strerror}); give the path of {_FORMS}") from error


def _written(name: str, text: str, form: PromptForm) -> PromptSet:
    """What somebody has written as prompts: nothing in it is left out, and what is wrong is said."""
    entries = read_jsonl(name, text)
    prompts = tuple(entry.prompt for entry in entries if not entry.is_warmup)
    if not prompts:
        raise PromptError(f"{name}: holds no prompt to measure; write one conversation a line")
    warmup = _own_warmup(entries) or _builtin_warmup(entries)
    return _set(name, warmup, prompts, Origin(form, found=len(prompts)))


def _collected(
    name: str, form: PromptForm, entries: tuple[Entry, ...], *, without_user: int = 0
) -> PromptSet:
    """What has piled up: the same conversation again is left out, since a server would have it in its cache."""
    warmup = load_prompts(_DEFAULT_SET).warmup
    seen = {canonical(warmup.messages)}
    prompts: list[Prompt] = []
    for entry in entries:
        said = canonical(entry.prompt.messages)
        if said not in seen:
            seen.add(said)
            prompts.append(entry.prompt)
    found = len(entries) + without_user
    if not prompts:
        raise PromptError(f"{name}: a user says something in none of its {found:,} conversations")
    origin = Origin(form, found, without_user=without_user, repeated=len(entries) - len(prompts))
    return _set(name, warmup, tuple(prompts), origin)


def _set(name: str, warmup: Prompt, prompts: tuple[Prompt, ...], origin: Origin) -> PromptSet:
    return PromptSet(name, warmup, prompts, _digest(warmup, *prompts), origin)


def _own_warmup(entries: tuple[Entry, ...]) -> Prompt | None:
    marked = [entry for entry in entries if entry.is_warmup]
    if len(marked) > 1:
        raise marked[1].place.error(
            f"a second warm-up besides {marked[0].place.at}; mark only one line as warm-up"
        )
    return marked[0].prompt if marked else None


def _builtin_warmup(entries: tuple[Entry, ...]) -> Prompt:
    warmup = load_prompts(_DEFAULT_SET).warmup
    for entry in entries:
        if canonical(entry.prompt.messages) == canonical(warmup.messages):
            raise entry.place.error(
                "the same messages as the built-in warm-up, and a server would answer from its cache; "
                'mark the line with "warmup": true or change it'
            )
    return warmup


def _digest(*prompts: Prompt) -> str:
    rows = [[prompt.id, prompt.prompt_class, prompt.messages] for prompt in prompts]
    return hashlib.sha256(canonical(rows).encode()).hexdigest()
