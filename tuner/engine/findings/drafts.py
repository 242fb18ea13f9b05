"""Drafts that a command asks for and does not get, or gets and does not use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.core.options import NEEDS_DRAFT_MODEL
from tuner.engine.findings.asked import listed, problem, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuner.core.checkup.check import Check
    from tuner.engine.findings.asked import Asked

_MODELS = ("spec-draft-model", "spec-draft-hf")
#: Handled on their own.
_APART = frozenset({*_MODELS, "spec-draft-p-split"})
#: What is read with some kinds of drafts only: the beginning of the option's name, and the kind.
_OF_KIND = {
    "spec-ngram-mod-": "ngram-mod",
    "spec-ngram-simple-": "ngram-simple",
    "spec-ngram-map-k-": "ngram-map-k",
    "spec-ngram-map-k4v-": "ngram-map-k4v",
    "lookup-cache-": "ngram-cache",
}
#: How many to draft: other kinds may read these too.
_COUNTS = frozenset({"spec-draft-n-max", "spec-draft-n-min", "spec-draft-p-min"})


def draft_findings(asked: Asked) -> list[Check]:
    """Kinds without a model, models without a kind, and options that nothing reads."""
    if asked.help_text.option("spec-type") is None:
        return []
    return [*_kinds(asked), *_model(asked), *_unread(asked)]


def _has_model(asked: Asked) -> bool:
    return any(asked.has(name) for name in _MODELS)


def _written_type(asked: Asked) -> str:
    return asked.written("spec-default" if not asked.has("spec-type") else "spec-type")


def _kinds(asked: Asked) -> Iterator[Check]:
    lacking = [kind for kind in asked.spec_types if kind in NEEDS_DRAFT_MODEL]
    if lacking and not _has_model(asked):
        text = (
            f"{listed(lacking)} drafts with a second model, and none is given: the server runs without drafts"
        )
        yield problem(_written_type(asked), text, "add -md with the draft model's file")
    has_none = asked.model is not None and asked.model.n_mtp_layers == 0
    if "draft-mtp" in asked.spec_types and has_none and not _has_model(asked):
        text = "this model has no MTP layers, and the server does not start"
        yield problem(
            _written_type(asked), text, "write --spec-type none, or use a model file with MTP layers"
        )


def _model(asked: Asked) -> Iterator[Check]:
    """A draft model that no kind uses; builds differ in what they make of it."""
    name = next((name for name in _MODELS if asked.has(name)), None)
    if name is None or any(kind.startswith("draft-") for kind in asked.spec_types):
        return
    if not asked.knows("spec-type", "draft-simple"):
        return  # so old that the model alone is enough
    shown, remedy = asked.written(name), "add --spec-type draft-simple"
    if not asked.knows("spec-type", "draft-dflash"):
        text = "without --spec-type builds of this age draft with it and warn; newer ones never use it"
        yield warning(shown, text, remedy)
    elif asked.help_text.option("spec-draft-sampling") is not None and not asked.spec_types:
        text = (
            "without --spec-type an ordinary draft model is loaded and never used (an MTP or DFlash one is)"
        )
        yield warning(shown, text, remedy)
    else:
        yield problem(shown, "loaded, and never used: no --spec-type drafts with a model", remedy)


def _unread(asked: Asked) -> Iterator[Check]:
    if asked.has("spec-draft-p-split"):
        yield warning(asked.written("spec-draft-p-split"), "the server never reads it", "leave it out")
    for prefix, kind in _OF_KIND.items():
        names = [name for name in asked.set_names(prefix) if _longest(name) == prefix]
        if names and kind not in asked.spec_types:
            shown = " ".join(asked.written(name) for name in names)
            yield warning(
                shown, f"no effect without --spec-type {kind}", f"add --spec-type {kind}, or leave it out"
            )
    names = [name for name in asked.set_names("spec-draft-") if name not in _APART]
    drafts = any(kind.startswith("draft-") for kind in asked.spec_types)
    if asked.spec_types:
        names = [name for name in names if name not in _COUNTS]
    if not names or drafts or (_has_model(asked) and not asked.knows("spec-type", "draft-dflash")):
        return
    shown = " ".join(asked.written(name) for name in names)
    given = "--spec-type is none" if not asked.spec_types else f"{listed(asked.spec_types)} does not read it"
    kind = "draft-mtp" if asked.model is not None and asked.model.n_mtp_layers else "draft-simple"
    yield warning(shown, f"no effect: {given}", f"add --spec-type {kind}, or leave it out")


def _longest(name: str) -> str:
    return max((prefix for prefix in _OF_KIND if name.startswith(prefix)), key=len)
