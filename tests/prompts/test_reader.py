from __future__ import annotations

import json
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.core.workload import Prompt
from tuner.errors import PromptError
from tuner.prompts.reader import builtin_sets, load_prompts

if TYPE_CHECKING:
    from pathlib import Path

CLASSES = ["code", "prose", "chat", "extraction", "json"]
HELLO = '[{"role": "user", "content": "Hello"}]'
BYE = '[{"role": "user", "content": "Bye"}]'


def write(folder: Path, content: str | bytes) -> str:
    path = folder / "mine.jsonl"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def user(text: str) -> str:
    return json.dumps([{"role": "user", "content": text}])


def spoken(prompt: Prompt) -> str:
    """All text of a conversation, in the order in which a server sees it."""
    return "\n".join(str(message["content"]) for message in prompt.messages)


def words(prompt: Prompt) -> int:
    return len(spoken(prompt).split())


def message(inner: str) -> str:
    return f'{{"messages": [{inner}]}}'


ROLES = "system, developer, user, assistant, tool"

BAD_LINES = {
    "cut off": (
        '{"messages": [',
        "column 15: no valid JSON (Expecting value); write each conversation on one line",
    ),
    "two values": (
        f"{HELLO} 1",
        "column 40: no valid JSON (Extra data); write each conversation on one line",
    ),
    "a string": ('"Hello"', 'a string; write an object with "messages", or an array of messages'),
    "a number": ("7", 'a number; write an object with "messages", or an array of messages'),
    "null": ("null", 'null; write an object with "messages", or an array of messages'),
    "NaN": ('{"messages": NaN}', "holds a value that no request can carry (Out of range float values"),
    "half a pair": (
        message(r'{"role": "user", "content": "\ud83d"}'),
        "holds a value that no request can carry (",
    ),
    "long number": ("9" * 5000, "holds a value that no request can carry (Exceeds the limit"),
    "deep": ("[" * 200_000, "nested too deeply to be read; write an array of flat messages"),
    "unknown key": (
        f'{{"messages": {HELLO}, "klass": "code"}}',
        'unknown key "klass"; remove it or use one of: messages, id, class, warmup',
    ),
    "warm-up is no boolean": (
        f'{{"messages": {HELLO}, "warmup": "yes"}}',
        '"warmup" is a string; write true or false',
    ),
    "id is a number": (f'{{"messages": {HELLO}, "id": 3}}', '"id" is a number; write a string'),
    "blank id": (f'{{"messages": {HELLO}, "id": " "}}', '"id" is blank; write a word or leave the key out'),
    "class is a boolean": (f'{{"messages": {HELLO}, "class": true}}', '"class" is a boolean; write a string'),
    "no messages": ('{"id": "a"}', 'no "messages"; add the array of the conversation\'s messages'),
    "messages are an object": ('{"messages": {}}', '"messages" is an object; write an array of messages'),
    "messages are empty": ('{"messages": []}', '"messages" is empty; write at least the user\'s message'),
    "empty array": ("[]", '"messages" is empty; write at least the user\'s message'),
    "message is a string": ('["Hello"]', 'message 1 is a string; write an object with "role" and "content"'),
    "no role": (
        f'[{HELLO[1:-1]}, {{"content": "x"}}]',
        f'message 2 has no "role"; add one of: {ROLES}',
    ),
    "unknown role": (
        '[{"role": "human", "content": "x"}]',
        f'message 1 has the unknown role "human"; use one of: {ROLES}',
    ),
    "role is an array": (
        '[{"role": ["user"], "content": "x"}]',
        f'message 1 has the unknown role ["user"]; use one of: {ROLES}',
    ),
    "no content": ('[{"role": "user"}]', 'message 1 has no "content"; add the text'),
    "content is null": (
        '[{"role": "user", "content": null}]',
        'message 1 has as "content" null; write a string or an array of parts',
    ),
    "content is an object": (
        '[{"role": "user", "content": {"text": "x"}}]',
        'message 1 has as "content" an object; write a string or an array of parts',
    ),
    "part without type": (
        '[{"role": "user", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}]',
        'message 1, part 2 has no "type"; write {"type": "text", "text": ...}',
    ),
    "part is a string": (
        '[{"role": "user", "content": ["a"]}]',
        'message 1, part 1 has no "type"; write {"type": "text", "text": ...}',
    ),
    "assistant is last": (
        f'[{HELLO[1:-1]}, {{"role": "assistant", "content": "x"}}]',
        'the last message has the role "assistant"; end with a message of the user (or a tool)',
    ),
    "same messages": (
        f'{{"id": "other", "messages": {HELLO}}}',
        "the same messages as line 1, and a server would answer from its cache; remove one of the two",
    ),
    "same id": (
        f'{{"id": "line-1", "messages": {BYE}}}',
        'the id "line-1" is already that of line 1; give each its own',
    ),
}


@pytest.mark.parametrize(("line", "sentence"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_named_with_its_cure(tmp_path: Path, line: str, sentence: str) -> None:
    file = write(tmp_path, f"{HELLO}\n\n{line}\n")
    with pytest.raises(PromptError) as caught:
        load_prompts(file)
    assert str(caught.value).startswith(f"{file}, line 3: {sentence}")


def test_a_second_warmup_names_both_lines(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        f'{{"messages": {HELLO}, "warmup": true}}\n{user("x")}\n{{"messages": {BYE}, "warmup": true}}\n',
    )
    with pytest.raises(PromptError) as caught:
        load_prompts(file)
    assert (
        str(caught.value) == f"{file}, line 3: a second warm-up besides line 1; mark only one line as warm-up"
    )


def test_the_builtin_warmup_cannot_be_measured_too(tmp_path: Path) -> None:
    warmup = json.dumps(load_prompts("default").warmup.messages)
    file = write(tmp_path, f"{HELLO}\n{warmup}\n")
    with pytest.raises(PromptError) as caught:
        load_prompts(file)
    assert str(caught.value) == (
        f"{file}, line 2: the same messages as the built-in warm-up, and a server would answer from its "
        'cache; mark the line with "warmup": true or change it'
    )


@pytest.mark.parametrize(
    "content",
    ["", "\n \n\t\n", f'{{"messages": {HELLO}, "warmup": true}}\n'],
    ids=["empty", "blank", "only a warm-up"],
)
def test_a_file_without_prompts_is_refused(tmp_path: Path, content: str) -> None:
    file = write(tmp_path, content)
    with pytest.raises(PromptError) as caught:
        load_prompts(file)
    assert str(caught.value) == f"{file}: holds no prompt to measure; write one conversation a line"


def test_a_name_that_is_neither_lists_the_builtin_sets() -> None:
    with pytest.raises(PromptError) as caught:
        load_prompts("defualt")
    assert str(caught.value) == (
        "defualt: neither a file, a folder nor a built-in prompt set; "
        "give the path of a JSONL file of messages, a chat export (ShareGPT) or a folder of texts, "
        "or one of: default, short"
    )


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "byte order mark"])
def test_a_byte_that_is_not_utf8_is_located(tmp_path: Path, mark: bytes) -> None:
    file = write(tmp_path, mark + HELLO.encode() + b"\n\n" + b'["caf\xe9"]\n')
    with pytest.raises(PromptError) as caught:
        load_prompts(file)
    assert str(caught.value) == f"{file}, line 3: byte 6 is not UTF-8; save the file as UTF-8"


def test_ids_and_classes_have_defaults(tmp_path: Path) -> None:
    found = load_prompts(
        write(
            tmp_path,
            f'{HELLO}\n{{"messages": {BYE}}}\n{{"messages": {user("x")}, "id": "a", "class": "code"}}',
        )
    )
    assert [(p.id, p.prompt_class) for p in found.prompts] == [
        ("line-1", "user"),
        ("line-2", "user"),
        ("a", "code"),
    ]
    assert found.name == str(tmp_path / "mine.jsonl")


def test_a_file_without_warmup_gets_the_builtin_one(tmp_path: Path) -> None:
    assert load_prompts(write(tmp_path, HELLO)).warmup == load_prompts("default").warmup


def test_a_files_own_warmup_is_used_and_not_measured(tmp_path: Path) -> None:
    found = load_prompts(write(tmp_path, f'{HELLO}\n{{"messages": {BYE}, "warmup": true}}\n'))
    assert spoken(found.warmup) == "Bye"
    assert [spoken(prompt) for prompt in found.prompts] == ["Hello"]


def test_a_conversation_with_tools_and_parts_is_kept_as_it_is(tmp_path: Path) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "How warm is it?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "21"},
    ]
    assert list(load_prompts(write(tmp_path, json.dumps(messages))).prompts[0].messages) == messages


def test_a_file_named_like_a_builtin_set_is_read_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "short").write_text(HELLO, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert len(load_prompts("short").prompts) > 1
    assert spoken(load_prompts("./short").prompts[0]) == "Hello"


def test_a_line_separator_inside_a_string_ends_no_line(tmp_path: Path) -> None:
    text = "one\u2028two\x85three"
    line = json.dumps([{"role": "user", "content": text}], ensure_ascii=False)
    assert spoken(load_prompts(write(tmp_path, line)).prompts[0]) == text


def test_white_space_does_not_change_the_digest(tmp_path: Path) -> None:
    plain = load_prompts(write(tmp_path, f"{HELLO}\n{BYE}\n")).digest
    airy = "\n".join(["", json.dumps(json.loads(HELLO), separators=(" , ", " :  ")), "", "  " + BYE + " "])
    assert load_prompts(write(tmp_path, airy)).digest == plain
    assert load_prompts(write(tmp_path, airy.replace("\n", "\r\n"))).digest == plain
    assert load_prompts(write(tmp_path, b"\xef\xbb\xbf" + airy.encode())).digest == plain


@pytest.mark.parametrize(
    "other",
    [
        f"{HELLO}\n{user('Bye!')}",
        f"{BYE}\n{HELLO}",
        HELLO,
        f'{HELLO}\n{{"messages": {BYE}, "id": "b"}}',
        f'{HELLO}\n{{"messages": {BYE}, "class": "code"}}',
        f'{HELLO}\n{BYE}\n{{"messages": {user("Warm")}, "id": "w", "warmup": true}}',
    ],
    ids=["text", "order", "fewer", "id", "class", "warm-up"],
)
def test_content_changes_the_digest(tmp_path: Path, other: str) -> None:
    plain = load_prompts(write(tmp_path, f"{HELLO}\n{BYE}")).digest
    assert load_prompts(write(tmp_path, other)).digest != plain


def test_the_builtin_sets_are_listed() -> None:
    assert builtin_sets() == ("default", "short")


def test_the_default_set_has_two_prompts_a_class_and_all_classes_first() -> None:
    assert [prompt.prompt_class for prompt in load_prompts("default").prompts] == CLASSES * 2


def test_the_short_set_has_one_brief_prompt_a_class() -> None:
    found = load_prompts("short")
    assert [prompt.prompt_class for prompt in found.prompts] == CLASSES
    assert max(map(words, (found.warmup, *found.prompts))) < 70


def test_default_documents_are_as_long_as_promised() -> None:
    found = load_prompts("default").prompts
    for prompt in found:
        match prompt.prompt_class:
            case "extraction":
                assert 1_500 <= words(prompt) <= 2_500, prompt.id
            case "code":
                source = spoken(prompt).split("```")[1]
                assert 40 <= source.count("\n") <= 80, prompt.id
            case "chat":
                roles = [message["role"] for message in prompt.messages]
                assert roles == ["system", *["user", "assistant"] * 2, "user"], prompt.id
            case _:
                assert words(prompt) > 100, prompt.id


@pytest.mark.parametrize("name", builtin_sets())
def test_no_builtin_prompt_shares_its_beginning_with_another(name: str) -> None:
    found = load_prompts(name)
    beginnings = [spoken(prompt)[:12] for prompt in (found.warmup, *found.prompts)]
    assert all(one != other for one, other in combinations(beginnings, 2))


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
word = text.filter(str.strip)
content = text | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": text}), max_size=3)


def turns(*roles: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"role": st.sampled_from(roles), "content": content})


conversations = st.builds(
    lambda earlier, last: (*earlier, last),
    st.lists(turns("system", "developer", "user", "assistant", "tool"), max_size=3),
    turns("user", "tool"),
)
valid_prompts = st.lists(
    st.builds(Prompt, id=word, prompt_class=word, messages=conversations),
    min_size=1,
    max_size=5,
    unique_by=(lambda prompt: prompt.id, lambda prompt: json.dumps(prompt.messages, sort_keys=True)),
)


@given(prompts=valid_prompts, escaped=st.booleans())
def test_valid_prompts_are_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory, prompts: list[Prompt], *, escaped: bool
) -> None:
    rows = ({"id": p.id, "class": p.prompt_class, "messages": p.messages} for p in prompts)
    lines = "\n".join(json.dumps(row, ensure_ascii=escaped) for row in rows)
    file = write(tmp_path_factory.getbasetemp(), lines)
    assert load_prompts(file).prompts == tuple(prompts)
