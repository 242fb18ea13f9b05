"""`markdown`: a short block for a forum or an issue."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tuner.core.launch import reference_name
from tuner.report.best import shell_command
from tuner.report.exports.about import one_line, ratio_text
from tuner.report.exports.public_words import public_environment, public_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuner.report.exports.form import Served

#: What would mean something to Markdown in a text of somebody else's.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
_COLUMNS = (
    "| | tok/s | prompt tok/s | first token | drafts accepted | winner is |\n|---|--:|--:|--:|--:|---|\n"
)
#: Sets of prompts that come with the package; any other is the owner's, and where it lies is private.
_SHIPPED = frozenset({"default", "short"})


class MarkdownBlock:
    """Cards, model, build, command and numbers; no name, host or path of the owner's."""

    def write(self, served: Served) -> str:
        """The block. Where it is served is left out: host, port, key and alias are the owner's own."""
        document, words = served.document, list(served.words)
        if served.serving.flags:
            words = words[: -len(served.serving.flags)]
        environment = public_environment(document["winner"]["environment"])
        command = shell_command(public_words(served.program, words), environment)
        fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", command)), default=0))
        cards = " + ".join(map(_card, document["devices"]))
        return (
            f"**{_plain(document['model']['name'])}** on {cards}\n\n"
            f"{_COLUMNS}{_row('winner', document['winner'], '')}{_references(document)}\n"
            f"{fence}\n{one_line(command)}\n{fence}\n\n"
            f"{_how(document)}\n"
        )


def _card(row: Mapping[str, Any]) -> str:
    if row["name"].startswith("RPC"):
        return f"{row['name']} (a device of an RPC server)"
    return f"{_plain(row['description'])} ({row['total_mib'] / 1024:.0f} GiB)"


def _references(document: Mapping[str, Any]) -> str:
    return "".join(
        _row(reference_name(row["name"]), row, ratio_text(document, row["name"]))
        for row in document["references"]
        if row["name"] != document["winner"]["reference"]
    )


def _row(name: str, row: Mapping[str, Any], ratio: str) -> str:
    rates = row["rates"]
    if rates is None:
        return f"| {name} | {row['outcome']['kind']} | | | | |\n"
    return (
        f"| {name} | {_figure(rates['generation_tok_s'], '.1f')} | {_figure(rates['prompt_tok_s'], '.0f')} | "
        f"{_figure(rates['ttft_s'], '.2f', ' s')} | {_figure(rates['acceptance'], '.0%')} | {ratio} |\n"
    )


def _figure(value: float | None, form: str, unit: str = "") -> str:
    return "" if value is None else f"{value:{form}}{unit}"


def _how(document: Mapping[str, Any]) -> str:
    """What was asked, and what measured it."""
    workload = document["workload"]
    prompts = f"`{workload['prompts']}`" if workload["prompts"] in _SHIPPED else "the owner's own prompts"
    session = workload.get("session")
    what = prompts if session is None else f"a session ({session['agents']} at once)"
    requests = f"{workload['requests']} request{'' if workload['requests'] == 1 else 's'}"
    asked = (
        f"{requests} of {what}, {workload['max_tokens']} tokens each, "
        f"{workload['ctx_size']:,} tokens of context"
    )
    confirmation = document["confirmation"]
    confirmed = (
        "not confirmed"
        if confirmation is None
        else f"confirmed by {confirmation['launches']} launches in turns"
    )
    return (
        f"llama.cpp {_plain(document['engine']['version'])}; {asked}; {confirmed}; measured by "
        f"split-ratio-tuner {document['tuner_version']}."
    )


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", one_line(text))
