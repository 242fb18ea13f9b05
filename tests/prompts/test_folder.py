"""A folder of texts is a prompt set, and a file that cannot be one is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.core.workload import PromptForm
from tuner.errors import PromptError
from tuner.prompts.reader import load_prompts


def write(folder: Path, **files: str | bytes) -> str:
    """Files by their names, `__` for a slash and `_` for a dot."""
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(folder)


def refusal(folder: Path) -> str:
    with pytest.raises(PromptError) as caught:
        load_prompts(str(folder))
    return str(caught.value)


def test_each_file_is_one_message_of_the_user(tmp_path: Path) -> None:
    found = load_prompts(write(tmp_path, b_md="# Why?\n\nSay why.\n", a_txt="größer\n"))
    assert [(p.id, p.prompt_class, p.messages) for p in found.prompts] == [
        ("a.txt", "user", ({"role": "user", "content": "größer"},)),
        ("b.md", "user", ({"role": "user", "content": "# Why?\n\nSay why."},)),
    ]
    assert (found.name, found.origin.form, found.origin.found) == (str(tmp_path), PromptForm.FOLDER, 2)
    assert found.origin.is_own
    assert found.warmup == load_prompts("default").warmup


def test_a_sub_folder_is_the_class_of_what_lies_in_it(tmp_path: Path) -> None:
    found = load_prompts(
        write(tmp_path, z_txt="one", code__python__a_txt="two", code__b_txt="three", chat__c="four")
    )
    assert [(p.id, p.prompt_class) for p in found.prompts] == [
        ("chat/c", "chat"),
        ("code/b.txt", "code"),
        ("code/python/a.txt", "code"),
        ("z.txt", "user"),
    ]


def test_hidden_files_and_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_bytes(b"\xff")
    (tmp_path / ".notes.txt").write_bytes(b"\xff")
    assert [prompt.id for prompt in load_prompts(write(tmp_path, a_txt="one")).prompts] == ["a.txt"]


def test_a_byte_order_mark_and_space_at_the_end_are_the_editors(tmp_path: Path) -> None:
    found = load_prompts(write(tmp_path, a_txt=b"\xef\xbb\xbf  one\r\ntwo \r\n\r\n"))
    assert found.prompts[0].messages[0]["content"] == "  one\r\ntwo"


def test_a_text_that_lies_there_twice_is_asked_once(tmp_path: Path) -> None:
    found = load_prompts(write(tmp_path, a_txt="one", b_txt="two", copy__a_txt="one\n"))
    assert [prompt.id for prompt in found.prompts] == ["a.txt", "b.txt"]
    assert (found.origin.found, found.origin.repeated) == (3, 1)


@pytest.mark.parametrize("name", ["a.txt", "b.txt"])
def test_a_files_content_changes_the_digest(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path, a_txt="one", b_txt="two")
    before = load_prompts(folder).digest
    assert load_prompts(folder).digest == before
    (tmp_path / name).write_text("three", encoding="utf-8")
    assert load_prompts(folder).digest != before


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    write(tmp_path, deep__er__x="")
    (tmp_path / "deep" / "er" / "x").rename(tmp_path / "deep" / "er" / ".x")
    assert refusal(tmp_path) == f"{tmp_path}: holds no file; put texts into it, a prompt each"


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    write(tmp_path, a_txt="one", sub__b_txt=b"two\ncaf\xe9")
    assert refusal(tmp_path) == (f"{tmp_path}/sub/b.txt, line 2: byte 4 is not UTF-8; save the file as UTF-8")


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, a_txt="one", b_txt=" \n")
    assert refusal(tmp_path) == (
        f"{tmp_path}/b.txt: holds no text; write what the user says, or take the file out"
    )


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").symlink_to(tmp_path / "gone")
    assert refusal(tmp_path) == (
        f"{tmp_path}/a.txt: cannot be read (No such file or directory); make it readable or take it out"
    )


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    assert refusal(tmp_path) == f"{tmp_path}/a.txt: is no file that can be read; take it out"


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, a_txt="one")

    def denied(_path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    assert refusal(tmp_path) == (
        f"{tmp_path}/a.txt: cannot be read (Permission denied); make it readable or take it out"
    )


def test_a_name_that_is_not_utf8_is_told_in_letters(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("one", encoding="utf-8")
    assert refusal(tmp_path) == f"{tmp_path}/caf\\udce9.txt: its name is not UTF-8; give it another name"
