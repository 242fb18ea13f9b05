"""An export of chats is a prompt set: what is asked of each, what is left out, and what is wrong with it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.workload import PromptForm
from tuner.errors import PromptError
from tuner.prompts.reader import load_prompts
from tuner.prompts.sharegpt import is_sharegpt, read_sharegpt

if TYPE_CHECKING:
    from pathlib import Path

    from tuner.core.workload import Prompt, PromptSet


def chat(*turns: tuple[str, str], **keys: object) -> dict[str, Any]:
    return {**keys, "conversations": [{"from": who, "value": text} for who, text in turns]}


HELLO, BYE = chat(("human", "Hello"), ("gpt", "Hi!")), chat(("human", "Bye"))
UNASKED = chat(("gpt", "Welcome!"))


def load(folder: Path, content: object, name: str = "export.json") -> PromptSet:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return load_prompts(str(path))


def said(prompt: Prompt) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in prompt.messages]


# --- the form


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([HELLO, BYE]),
        json.dumps([HELLO, BYE], indent=2),
        f"\n{json.dumps(HELLO)}\n\n{json.dumps(BYE)}\n",
        f"{json.dumps(HELLO, indent=2)}\n{json.dumps(BYE, indent=2)}",
        "\ufeff" + json.dumps([HELLO, BYE]),
    ],
    ids=["array", "indented array", "one a line", "indented objects", "byte order mark"],
)
@pytest.mark.parametrize("name", ["export.json", "export.jsonl", "export"])
def test_the_form_is_told_by_what_the_file_holds(tmp_path: Path, text: str, name: str) -> None:
    found = load(tmp_path, text, name)
    assert [said(prompt) for prompt in found.prompts] == [[("user", "Hello")], [("user", "Bye")]]
    assert found.origin.form is PromptForm.SHAREGPT
    assert found.origin.is_own
    assert found.origin.found == 2


def test_one_object_alone_is_an_export_too(tmp_path: Path) -> None:
    assert [said(p) for p in load(tmp_path, HELLO).prompts] == [[("user", "Hello")]]


@pytest.mark.parametrize("text", ["", "[", "[[", "{", "[]", "[1]", '{"messages": []}', '["conversations"]'])
def test_what_does_not_begin_with_a_chat_is_no_export(text: str) -> None:
    assert not is_sharegpt(text)


@given(st.text(st.sampled_from('[]{}":, \nconversations1')) | st.text())
def test_any_text_can_be_looked_at(text: str) -> None:
    is_sharegpt(text)


def test_messages_by_hand_are_no_export(tmp_path: Path) -> None:
    found = load(tmp_path, '[{"role": "user", "content": "conversations"}]', "export.json")
    assert found.origin.form is PromptForm.JSONL


# --- what is asked


def test_a_conversation_ends_with_the_users_last_turn(tmp_path: Path) -> None:
    turns = [
        ("system", "Be brief."),
        ("human", "How warm is it?"),
        ("gpt", "21"),
        ("user", "And outside?"),
        ("chatgpt", "12"),
        ("tool", "12.5"),
        ("assistant", "12.5"),
    ]
    (prompt,) = load(tmp_path, [chat(*turns)]).prompts
    assert said(prompt) == [
        ("system", "Be brief."),
        ("user", "How warm is it?"),
        ("assistant", "21"),
        ("user", "And outside?"),
    ]


def test_what_the_user_leaves_blank_asks_nothing(tmp_path: Path) -> None:
    (prompt,) = load(tmp_path, [chat(("human", "Why?"), ("gpt", "So."), ("human", " \n"))]).prompts
    assert said(prompt) == [("user", "Why?")]


def test_answers_to_what_the_export_does_not_hold_are_left_out(tmp_path: Path) -> None:
    (prompt,) = load(tmp_path, [chat(("system", "s"), ("gpt", "part 2"), ("human", "Go on"))]).prompts
    assert said(prompt) == [("system", "s"), ("user", "Go on")]


def test_several_turns_of_one_in_a_row_are_one_message(tmp_path: Path) -> None:
    (prompt,) = load(tmp_path, [chat(("human", "a"), ("human", "b"), ("gpt", "c"), ("human", "d"))]).prompts
    assert said(prompt) == [("user", "a\n\nb"), ("assistant", "c"), ("user", "d")]


def test_ids_are_the_exports_own_or_the_entrys_number_and_never_the_same(tmp_path: Path) -> None:
    chats = [
        chat(("human", "a"), id="x"),
        chat(("human", "b"), id="x"),
        chat(("human", "c")),
        chat(("human", "d"), id=7),
        chat(("human", "e"), id=None),
        chat(("human", "f"), id="x#2"),
    ]
    assert [p.id for p in load(tmp_path, chats).prompts] == ["x", "x#2", "entry-3", "7", "entry-5", "x#2#6"]


def test_keys_of_the_exporter_are_none_of_our_business(tmp_path: Path) -> None:
    assert len(load(tmp_path, [{**HELLO, "model": "x", "items": [1]}]).prompts) == 1


# --- what is left out


def test_conversations_without_a_user_and_repeated_ones_are_counted(tmp_path: Path) -> None:
    found = load(tmp_path, [UNASKED, HELLO, chat(), {**HELLO, "id": "again"}, BYE, HELLO])
    assert [said(prompt) for prompt in found.prompts] == [[("user", "Hello")], [("user", "Bye")]]
    assert (found.origin.found, found.origin.without_user, found.origin.repeated) == (6, 2, 2)


def test_an_export_in_which_nobody_asks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptError) as caught:
        load(tmp_path, [UNASKED, chat()])
    assert str(caught.value) == (
        f"{tmp_path}/export.json: a user says something in none of its 2 conversations"
    )


# --- what is wrong

ROLES = (
    "human, user, gpt, assistant, chatgpt, bing, bard, model, function_call, system, tool, observation, "
    "function_response"
)


@pytest.mark.parametrize(
    ("entry", "sentence"),
    [
        (1, 'entry 2: a number; an export holds objects with "conversations"'),
        ({}, 'entry 2: no "conversations"; add the array of its turns or take the entry out'),
        ({"conversations": {}}, 'entry 2: "conversations" is an object; it has to be an array of turns'),
        (
            {"conversations": ["Hello"]},
            'entry 2: turn 1 is a string; it has to be an object with "from" and "value"',
        ),
        ({"conversations": [{"value": ""}]}, 'entry 2: turn 1: "from" is missing; it has to be a string'),
        (
            {"conversations": [*HELLO["conversations"], {"from": "gpt", "value": None}]},
            'entry 2: turn 3: "value" is null; it has to be a string',
        ),
        (chat(("nobody", "a")), f'entry 2: turn 1 is from the unknown "nobody"; use one of: {ROLES}'),
        ({**BYE, "id": " "}, 'entry 2: "id" is blank; write a word or leave the key out'),
        ({**BYE, "id": True}, 'entry 2: "id" is a boolean; write a string'),
        (chat(("human", "\ud83d")), "entry 2: holds a value that no request can carry ("),
    ],
)
def test_a_bad_entry_is_named_with_its_place(tmp_path: Path, entry: object, sentence: str) -> None:
    for content in ([HELLO, entry], f"{json.dumps(HELLO)}\n{json.dumps(entry)}"):
        with pytest.raises(PromptError) as caught:
            load(tmp_path, content)
        assert str(caught.value).startswith(f"{tmp_path}/export.json, {sentence}")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"[{json.dumps(HELLO)},\n{{", "line 2: column 2: no valid JSON (Expecting property name"),
        (f"{json.dumps(HELLO)}\n{{", "line 2: column 2: no valid JSON (Expecting property name"),
        (f"[{json.dumps(HELLO)}]\n[]", "line 2: column 1: no valid JSON (Extra data)"),
    ],
)
def test_an_export_that_is_cut_off_names_line_and_column(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(PromptError) as caught:
        load(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/export.json, {sentence}")


@pytest.mark.parametrize("rest", ["[" * 200_000, f"[{'9' * 5000}]"], ids=["deep", "long number"])
def test_json_that_python_refuses_names_the_file(tmp_path: Path, rest: str) -> None:
    with pytest.raises(PromptError, match=r"export\.json: "):
        load(tmp_path, f"[{json.dumps(HELLO)}, {rest}")


def test_tens_of_megabytes_are_read_in_seconds(tmp_path: Path) -> None:
    turns = [("human", "word " * 400), ("gpt", "answer " * 600)] * 4
    chats = [chat(("human", f"{n}"), *turns) for n in range(1_000)]
    text = json.dumps(chats)
    assert len(text) > 20_000_000
    start_s = time.monotonic()
    assert len(load(tmp_path, text).prompts) == 1_000
    assert time.monotonic() - start_s < 10


# --- whatever is exported

turns = st.tuples(
    st.sampled_from(["system", "human", "gpt", "tool"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
exports = st.lists(st.builds(lambda said: chat(*said), st.lists(turns, max_size=5)), min_size=1, max_size=6)


@PROPERTY
@given(exports)
def test_every_conversation_is_asked_or_counted_and_ends_with_the_user(chats: list[dict[str, Any]]) -> None:
    found = read_sharegpt("x", json.dumps(chats))
    assert len(found.entries) + found.without_user == len(chats)
    assert len({entry.prompt.id for entry in found.entries}) == len(found.entries)
    for entry in found.entries:
        roles = [role for role, _ in said(entry.prompt)]
        assert roles[-1] == "user"
        assert "assistant" not in roles[: roles.index("user")]
        spoken = [t["value"] for one in chats for t in one["conversations"] if t["from"] == "human"]
        assert any(said(entry.prompt)[-1][1].endswith(text) for text in spoken)
