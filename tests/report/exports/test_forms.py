"""What holds for every form of export."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.support.winners import MODEL, UUIDS, a_best, a_winner
from tuner.core.serving import Serving
from tuner.report.best import check_best
from tuner.report.exports.registry import FORMS, Format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tuner.report.exports.form import Served

#: The forms that start a server, whose text holds the whole command.
STARTING = [form for form in Format if form not in {Format.JSON, Format.MARKDOWN}]
#: How a comment begins in each.
COMMENTS: dict[Format, str] = {form: ";" if form is Format.PRESET_INI else "#" for form in STARTING}


def body(form: Format, text: str) -> str:
    """What is no comment."""
    mark = COMMENTS.get(form, "\0")
    return "\n".join(line for line in text.splitlines() if not line.startswith(mark))


def test_each_format_is_written_by_a_form() -> None:
    assert set(FORMS) == set(Format)


@pytest.mark.parametrize("form", STARTING)
def test_a_name_from_a_model_file_cannot_leave_its_comment(form: Format) -> None:
    """What a GGUF says of itself is not ours: with line breaks in it, no line but comments is another."""
    text = FORMS[form].write(a_winner(name="evil\nrm -rf /\r; \u2028 stop\x85 [x]\\"))
    plain = FORMS[form].write(a_winner(name="plain"))
    assert body(form, text).replace("evil rm -rf / ;   stop  [x]", "plain") == body(form, plain)


@pytest.mark.parametrize("form", STARTING)
def test_cards_are_pinned_by_uuid_where_the_form_starts_the_server(form: Format) -> None:
    assert ",".join(UUIDS) in FORMS[form].write(a_winner())


@pytest.mark.parametrize("form", STARTING)
@pytest.mark.parametrize(
    ("serving", "named"),
    [
        (Serving(model_path="/else/where.gguf"), ["/else/where.gguf"]),
        (Serving(host="192.168.7.9"), ["192.168.7.9"]),
        (Serving(port=9123), ["9123"]),
        (Serving(api_key_file="/etc/the.keys"), ["/etc/the.keys", "--api-key-file"]),
        (Serving(alias="nightowl"), ["nightowl", "--alias"]),
    ],
)
def test_what_is_set_changes_only_what_it_names(form: Format, serving: Serving, named: Sequence[str]) -> None:
    plain, text = (lines(form, one) for one in (a_winner(), a_winner(serving=serving)))
    assert any(word in line for line in text for word in named)
    if serving.model_path is not None:  # the file, its folder and the name that is made of it
        text = [line.replace("/else", "/models").replace("where", "qwen") for line in text]
        assert text == plain
        return
    may_change = re.compile(r"PORT|8080|qwen:|\[qwen\]|Start it with")
    assert [line for line in plain if line not in text and not may_change.search(line)] == []
    came = [line for line in text if line not in plain]
    assert all(may_change.search(line) or any(word in line for word in named) for line in came)


def lines(form: Format, winner: Served) -> list[str]:
    """A form's lines, without what only goes on to the next."""
    return [line.rstrip(" \\,") for line in FORMS[form].write(winner).splitlines()]


def test_json_is_best_json_and_has_what_is_set_in_its_command() -> None:
    best = a_best()
    assert json.loads(FORMS[Format.JSON].write(a_winner())) == best
    changed = json.loads(
        FORMS[Format.JSON].write(a_winner(serving=Serving(model_path="/n.gguf", port=9000, alias="a")))
    )
    check_best(changed)
    argv = [word if word != MODEL else "/n.gguf" for word in best["winner"]["argv"]]
    assert changed["winner"]["argv"] == [*argv, "--alias", "a", "--port", "9000"]
    assert changed["winner"]["command"].endswith("--alias a --port 9000")
    changed["winner"] |= {name: best["winner"][name] for name in ("argv", "command")}
    changed["model"]["path"] = MODEL
    assert changed == best


def test_words_of_no_form_are_added_to_the_measured_ones() -> None:
    """The words are those of the trial, in its order."""
    winner = a_winner(["--b", "2", "--a", "1", "--b", "3"])
    assert winner.words == ("-m", MODEL, "--b", "2", "--a", "1", "--b", "3")
    assert replace(winner, document={}).words == winner.words
