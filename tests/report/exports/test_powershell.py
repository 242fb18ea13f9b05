"""PowerShell's grammar finds no error in the script, and the words stand in it as texts.

PowerShell itself is in no package registry that the tests can reach, so nothing has run it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tree_sitter_powershell
from hypothesis import given
from hypothesis import strategies as st
from tree_sitter import Language, Node, Parser

from tests.support.strategies import PROPERTY
from tests.support.winners import MODEL, ODD_FOLDER, PROGRAM, UUIDS, a_winner
from tuner.report.exports.powershell import PowerShell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tuner.report.exports.form import Served

QUOTES = "'\u2018\u2019\u201a\u201b"
#: Its grammar knows only the plain apostrophe of the five that PowerShell takes for one.
words = st.text(
    st.characters(codec="utf-8", exclude_characters="\0" + QUOTES[1:]) | st.sampled_from("'\"$`@{}()#;"),
    max_size=12,
)


def parsed(text: str) -> Node:
    root = Parser(Language(tree_sitter_powershell.language())).parse(text.encode()).root_node
    assert not root.has_error, [
        text[node.start_byte : node.end_byte] for node in nodes(root) if node.is_error
    ]
    return root


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from nodes(child)


def variable(winner: Served, name: str) -> list[str]:
    """The texts in single quotes that a variable is set to."""
    text = PowerShell().write(winner)
    for node in nodes(parsed(text)):
        if node.type == "assignment_expression" and node.text is not None:
            left = node.text.decode().partition("=")[0].strip()
            if left == name:
                literals = [one for one in nodes(node) if one.type == "verbatim_string_characters"]
                return [_read(one.text.decode()) for one in literals if one.text is not None]
    raise AssertionError(f"{name} is not set: {text}")


def _read(literal: str) -> str:
    return literal[1:-1].replace("''", "'")


@PROPERTY
@given(st.lists(words, max_size=3), words)
def test_each_word_is_a_text(more: list[str], folder: str) -> None:
    program = f"/{folder}/llama-server"
    winner = a_winner(["--tags", *more], program=program, model=f"/{folder}/m.gguf")
    assert variable(winner, "$words") == ["-m", f"/{folder}/m.gguf", "--tags", *more]
    assert variable(winner, "$server") == [program]


def test_cards_are_pinned_and_looked_for() -> None:
    winner = a_winner()
    assert variable(winner, "$env:CUDA_VISIBLE_DEVICES") == [",".join(UUIDS)]
    text = PowerShell().write(winner)
    assert f"@('{UUIDS[0]}', '{UUIDS[1]}')" in text
    assert "@('CUDA0: NVIDIA GeForce RTX 5080', 'CUDA1: NVIDIA GeForce RTX 3090')" in text


def test_each_of_its_quotation_marks_is_doubled() -> None:
    """Of PowerShell's own `EscapeSingleQuotedStringContent`: any of the five ends a text, two of it stand for one."""
    text = PowerShell().write(a_winner(["--tags", f"a{QUOTES}b"]))
    assert f"'a{''.join(quote * 2 for quote in QUOTES)}b'" in text


def test_nothing_is_looked_for_on_rpc_servers() -> None:
    text = PowerShell().write(a_winner(["--rpc", "h:1"], devices=(("RPC0", "h:1", None),)))
    parsed(text)
    assert "list-devices" not in text


def test_an_odd_path_and_the_plain_one() -> None:
    assert variable(a_winner(model=f"/{ODD_FOLDER}/m.gguf"), "$words")[1] == f"/{ODD_FOLDER}/m.gguf"
    assert variable(a_winner(), "$server") == [PROGRAM]
    assert variable(a_winner(), "$words")[1] == MODEL
