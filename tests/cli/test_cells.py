"""Which studies several engines and files are, and what each of them is made with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.fake_builds import Q4_BYTES, Q8_BYTES, build, model
from tuner.cli.build.cells import Server, cells_of, for_one, split_words, study_of_several
from tuner.cli.build.options import TuneOptions
from tuner.core.workload import Thinking
from tuner.errors import UsageError

if TYPE_CHECKING:
    from tuner.cli.build.cells import Cell


def options(folder: Path, **changes: object) -> TuneOptions:
    given: dict[str, object] = {
        **dict.fromkeys(TuneOptions.__dataclass_fields__),
        "model": folder / "first.gguf",
        "space": "quick",
        "study": "mine",
        "results": folder / "results",
        "flags": ("--jinja",),
        "thinking": Thinking.AUTO,
        **changes,
    }
    return TuneOptions(**given)  # type: ignore[arg-type]  # what is not looked at is None


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return model(tmp_path, "M-Q4_0", Q4_BYTES), model(tmp_path, "M-Q8_0", Q8_BYTES)


@pytest.fixture
def servers(tmp_path: Path) -> list[Server]:
    return [Server(build(tmp_path, name)) for name in ("old", "new")]


@pytest.mark.parametrize(
    ("words", "models", "flags"),
    [
        ((), (), ()),
        (("b.gguf", "c.gguf"), ("b.gguf", "c.gguf"), ()),
        (("b.gguf", "--rpc", "h:1"), ("b.gguf",), ("--rpc", "h:1")),
        (("-ub", "256", "b.gguf"), (), ("-ub", "256", "b.gguf")),
    ],
)
def test_flags_begin_with_the_first_word_that_is_one(
    words: tuple[str, ...], models: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    assert split_words(words) == (tuple(map(Path, models)), flags)


def test_a_server_is_a_path_or_a_path_with_flags(tmp_path: Path) -> None:
    odd = tmp_path / "my builds" / "llama-server"
    odd.parent.mkdir()
    odd.touch()
    assert Server.read(str(odd)) == Server(odd)
    assert Server.read("/opt/s --rpc a:1,b:2 -t 3") == Server(Path("/opt/s"), ("--rpc", "a:1,b:2", "-t", "3"))
    assert Server.read(f"'{odd}' -t 3") == Server(odd, ("-t", "3"))


def test_flags_of_an_engine_come_before_those_of_all(tmp_path: Path) -> None:
    alone = for_one(options(tmp_path), [Server(Path("/opt/s"), ("-t", "3"))])
    assert (alone.server, alone.flags) == (Path("/opt/s"), ("-t", "3", "--jinja"))
    assert for_one(options(tmp_path), []) == options(tmp_path)


def test_the_largest_file_is_first_whatever_was_typed_first(
    tmp_path: Path, files: tuple[Path, Path], servers: list[Server]
) -> None:
    cells = cells_of(options(tmp_path), files, servers)
    assert [cell.name for cell in cells] == ["old-M-Q8_0", "new-M-Q8_0", "old-M-Q4_0", "new-M-Q4_0"]
    assert [cell.options.study_folder for cell in cells] == [
        tmp_path / "results" / "mine" / cell.name for cell in cells
    ]
    assert [cell.options.model for cell in cells] == [files[1], files[1], files[0], files[0]]
    assert [cell.options.server for cell in cells] == [servers[0].path, servers[1].path] * 2


def yours(cells: tuple[Cell, ...]) -> list[str]:
    return [cell.name for cell in cells if cell.options.current is not None]


def test_the_users_command_is_of_the_engine_and_file_that_it_names(
    tmp_path: Path, files: tuple[Path, Path], servers: list[Server]
) -> None:
    q4, q8 = files
    for command, owner in (
        (f"{servers[1].path} -m {q4} -ts 2,1", "new-M-Q4_0"),
        (f"A=1 {servers[0].path} -ngl 99 -m {q8}", "old-M-Q8_0"),
        ("llama-server -ts 2,1", "old-M-Q4_0"),  # what was typed first
        (f"llama-server -m {q8}", "old-M-Q8_0"),
    ):
        assert yours(cells_of(options(tmp_path, current=command), files, servers)) == [owner], command


def test_files_of_one_name_are_told_apart_by_their_folders(tmp_path: Path, servers: list[Server]) -> None:
    for name, size in (("q4", Q4_BYTES), ("q8", Q8_BYTES)):
        (tmp_path / name).mkdir()
        model(tmp_path / name, "model", size)
    found = cells_of(options(tmp_path), [tmp_path / n / "model.gguf" for n in ("q4", "q8")], servers[:1])
    assert [cell.file for cell in found] == ["q8", "q4"]


def test_without_a_server_the_one_on_the_path_is_meant(tmp_path: Path, files: tuple[Path, Path]) -> None:
    cells = cells_of(options(tmp_path), files, [])
    assert [(cell.engine, cell.options.server) for cell in cells] == [("llama-server", None)] * 2


def test_one_that_is_there_twice_is_refused(
    tmp_path: Path, files: tuple[Path, Path], servers: list[Server]
) -> None:
    link = tmp_path / "link.gguf"
    link.symlink_to(files[0])
    with pytest.raises(UsageError, match="are the same model"):
        cells_of(options(tmp_path), (files[0], link), servers)
    other = tmp_path / "another" / "llama-server"
    other.parent.mkdir()
    other.symlink_to(servers[0].path)
    with pytest.raises(UsageError, match="there twice"):
        cells_of(options(tmp_path), files, [servers[0], Server(other)])


@pytest.mark.parametrize(
    ("names", "study"),
    [
        (["M-27B-Q8_0.gguf", "M-27B-Q4_K_M.gguf"], "M-27B-Q-quick-several"),
        (["A.gguf", "B.gguf"], "A-quick-several"),
        (["A-00001-of-00003.gguf"], "A-quick-several"),
    ],
)
def test_a_study_without_a_name_is_called_by_what_its_files_begin_with(
    tmp_path: Path, names: list[str], study: str
) -> None:
    assert study_of_several(options(tmp_path), [Path(name) for name in names]) == study
