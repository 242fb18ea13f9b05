"""Every bad input is one line on standard error, exit code 2, and nothing launched or written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.gguf_files import Tensor, model_metadata, write_gguf, write_shards
from tests.support.tuner_command import TunerCommand, assert_refused
from tuner.cli.build import assembly
from tuner.engine.probe import Engine, probe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_KNOWN: dict[Path, Engine] = {}
ONE_DEVICE = [("CUDA0", "NVIDIA GeForce RTX 3090", 24576, 24100)]
SPACE = """
schema_version = 1
[fixed]
batch-size = 2048
[parameters.ubatch-size]
kind = "choice"
choices = [256, 512]
"""


@pytest.fixture(autouse=True)
def _asks_the_fake_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the fake says of itself is the same in every case, and asking takes most of a case's time."""

    def ask(path: Path, environment: Mapping[str, str]) -> Engine:
        if path != FakeEngine.path:
            return probe(path, environment)
        if path not in _KNOWN:
            _KNOWN[path] = probe(path, environment)
        return _KNOWN[path]

    monkeypatch.setattr(assembly, "probe", ask)


def script(folder: Path, body: str) -> Path:
    path = folder / "engine" / "llama-server"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


# --- what is wrong by itself


def server(make: Callable[[Path], object]) -> Callable[[TunerCommand], list[str]]:
    return lambda command: command.words("--server", str(make(command.folder)))


def model(make: Callable[[Path], Path]) -> Callable[[TunerCommand], list[str]]:
    return lambda command: command.words(model=make(command.folder))


def space(text: str) -> Callable[[TunerCommand], list[str]]:
    return lambda command: command.words(space=written(command.folder, "my.toml", text))


def options(*words: str) -> Callable[[TunerCommand], list[str]]:
    return lambda command: command.words(*words)


def prompts(text: str) -> Callable[[TunerCommand], list[str]]:
    return lambda command: command.words("--prompts", written(command.folder, "my.jsonl", text))


def _not_executable(folder: Path) -> Path:
    path = script(folder, "")
    path.chmod(0o644)
    return path


def _without_a_shard(folder: Path) -> Path:
    first, second, _ = write_shards(folder, "big", 3)
    second.unlink()
    return first


def _no_gguf(folder: Path) -> Path:
    path = folder / "no.gguf"
    path.write_bytes(b"PK\3\4 something else")
    return path


def _unsplittable(folder: Path) -> Path:
    return write_gguf(folder / "mamba.gguf", model_metadata("mamba"), [Tensor("output.weight")])


LOST_LIBRARY = "echo 'llama-server: error while loading shared libraries: libcuda.so.1: none' >&2; exit 127"

BAD: dict[str, tuple[Callable[[TunerCommand], list[str]], tuple[str, ...]]] = {
    "no such server": (server(lambda f: f / "none"), ("none: no such file", "--server")),
    "server is a folder": (server(lambda f: f), ("is a folder",)),
    "server not executable": (server(_not_executable), ("is not executable", "chmod +x")),
    "server without libraries": (
        server(lambda f: script(f, LOST_LIBRARY)),
        ("libcuda.so.1", "LD_LIBRARY_PATH"),
    ),
    "server is something else": (server(lambda f: script(f, "echo hello")), ("is no llama-server",)),
    "no such model": (model(lambda f: f / "none.gguf"), ("none.gguf", "no such file")),
    "model is no GGUF": (model(_no_gguf), ("no.gguf",)),
    "missing shard": (model(_without_a_shard), ("big-00002-of-00003.gguf",)),
    "no such draft model": (options("--draft-model", "none.gguf"), ("none.gguf",)),
    "no such space": (options("--space", "fast"), ("--space fast", "dual-gpu", "quick")),
    "space is no TOML": (space("schema_version = "), ("my.toml: is no TOML",)),
    "unknown key": (
        space(SPACE + "hoices = []\n"),
        ("my.toml: parameters.ubatch-size.hoices: unknown key",),
    ),
    "unknown option": (
        space(SPACE + "[parameters.ubatch]\nkind = 'int'\n"),
        ("my.toml: parameters.ubatch: ",),
    ),
    "values that no engine has": (
        space(SPACE + "[parameters.cache-type-k]\nkind = 'choice'\nchoices = ['q3_0']\n"),
        ("my.toml: parameters.cache-type-k: no value is left", "help does not list it"),
    ),
    "rules that nothing satisfies": (
        space(SPACE + "[[rules]]\nleft = 'ubatch-size'\nop = '>'\nright = 'batch-size'\n"),
        ("my.toml: ", "ubatch-size > batch-size"),
    ),
    "peer access unasked": (options("--space", "p2p"), ("p2p: GGML_CUDA_P2P", "--allow-p2p")),
    "model that cannot be split by tensor": (
        lambda command: command.words("--allow-p2p", model=_unsplittable(command.folder), space="p2p"),
        ("p2p: fixed.split-mode: tensor cannot be had", "mamba"),
    ),
    "no such prompts": (options("--prompts", "none"), ("none: ", "default, short")),
    "bad line of prompts": (
        prompts('{"messages": [{"role": "user", "content": "a"}]}\n\n{"messages": []}\n'),
        ("my.jsonl, line 3: ",),
    ),
    "no prompt that fits": (options("--context", "64", "--tokens", "256"), ("raise --context",)),
    "budget": (options("--budget", "soon"), ("--budget: 'soon'", "8h")),
    "budget of nothing": (options("--budget", "0s"), ("--budget: must be above 0",)),
    "launches": (options("--launches", "0"), ("--launches: must be at least 1",)),
    "requests": (options("--requests", "0"), ("--requests: must be at least 1",)),
    "sample": (options("--sample", "0"), ("--sample: must be at least 1",)),
    "tokens": (options("--tokens", "1"), ("--tokens: must be at least 2",)),
    "context": (options("--context", "lots"), ("--context: 'lots'",)),
    "reserve": (options("--reserve", "much"), ("--reserve: 'much'", "DEVICE=MIB")),
    "reserve of no device": (
        options("--reserve", "2=100"),
        ("--reserve: there is no device '2'", "CUDA0, CUDA1"),
    ),
    "devices": (options("--devices", "CUDA7"), ("--devices: there is no device 'CUDA7'",)),
    "devices twice": (options("--devices", "0,CUDA0"), ("names a device twice",)),
    "device memory": (options("--device-memory", "0"), ("--device-memory: '0'",)),
    "sampling": (options("--sampling", "heat=1"), ("--sampling: 'heat=1'", "temp")),
    "sampling without a number": (options("--sampling", "temp=nan"), ("--sampling: temp must be a number",)),
    "current": (options("--current", "llama-server -a 'x"), ("--current: No closing quotation",)),
    "current without a program": (options("--current", ""), ("--current: holds no command",)),
    "study": (options("--study", "../mine"), ("--study '../mine'",)),
    "port after --": (options("--", "--port", "8080"), ("--port after --", "leave it out")),
    "model after --": (options("--", "-hf", "org/model"), ("-hf after --",)),
    "device after --": (options("--", "-dev", "CUDA1"), ("--devices",)),
    "context twice": (options("--", "-c", "4096"), ("--context", "keep one of the two")),
    "word after --": (options("--", "--jinja", "stray"), ("'stray' is no flag",)),
    "value of another kind after --": (options("--", "-ub", "many"), ("-ub many must be a number",)),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_before_anything_happens(command: TunerCommand, name: str) -> None:
    make, parts = BAD[name]
    assert_refused(command.run(*make(command)), *parts)
    assert command.launches() == []
    assert not command.results.exists()


def test_the_table_stands_on_a_command_that_is_good(command: TunerCommand) -> None:
    assert command.run(*command.words("--dry-run")).code == 0
    assert command.run(*command.words("--dry-run", space=written(command.folder, "my.toml", SPACE))).code == 0


def test_the_command_itself_shows_no_traceback(command: TunerCommand) -> None:
    """As the cases above, in a process of its own."""
    ended = command.run_apart(*command.words("--budget", "soon"))
    assert_refused(ended, "--budget")


# --- what is wrong with the machine


@pytest.mark.parametrize(
    ("space_name", "part"), [("quick", "parameters.split-mode"), ("p2p", "fixed.split-mode")]
)
def test_space_for_two_devices_needs_two(tmp_path: Path, space_name: str, part: str) -> None:
    command = TunerCommand(tmp_path, FakeEngine(tmp_path, devices=ONE_DEVICE))
    assert_refused(command.run(*command.words("--allow-p2p", space=space_name)), part, "there is one device")
    assert not command.results.exists()


def test_no_device_at_all_says_where_to_look(tmp_path: Path) -> None:
    command = TunerCommand(tmp_path, FakeEngine(tmp_path, devices=[]))
    assert_refused(command.run(*command.words()), "sees no device", "nvidia-smi", "--rpc")
    assert not command.results.exists()


def test_no_server_on_the_path_asks_for_one(command: TunerCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [w for w in command.words() if w not in {"--server", str(command.fake.path)}]
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert_refused(command.run(*words), "no llama-server on the PATH", "--server")
    assert not command.results.exists()


@pytest.mark.parametrize("place", ["results", "results/mine"])
def test_file_in_the_way_of_results_is_named(command: TunerCommand, place: str) -> None:
    path = command.folder / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine", encoding="utf-8")
    assert_refused(command.run(*command.words()), str(path), "is in the way", "--results")
    assert command.launches() == []
    assert path.read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("content", [b"not a database", b"SQLite format 3\0 and then nothing that is one"])
def test_database_that_is_none_is_named(command: TunerCommand, content: bytes) -> None:
    command.study.mkdir(parents=True)
    path = command.study / "study.db"
    path.write_bytes(content)
    assert_refused(command.run(*command.words()), str(path))
    assert command.launches() == []
    assert path.read_bytes() == content


@pytest.mark.parametrize("words", [["show", "none"], ["export", "none"]])
def test_study_that_does_not_exist_is_told_from_those_that_do(
    command: TunerCommand, words: list[str]
) -> None:
    command.study.mkdir(parents=True)
    (command.study / "study.db").touch()
    ended = command.run(*words, "--results", str(command.results))
    assert_refused(ended, "none: no study there", "mine")


# --- what does not go with the study that is there


@pytest.fixture(scope="module")
def small_study(tmp_path_factory: pytest.TempPathFactory) -> TunerCommand:
    """A study of one launch; a refused run leaves it as it was."""
    command = TunerCommand(tmp_path_factory.mktemp("study"))
    command.tune("--launches", "1")
    return command


def _other_engine(folder: Path) -> Path:
    return script(folder, f'exec "{FakeEngine.path}" "$@"')


def _other_model(folder: Path) -> Path:
    return write_gguf(folder / "other.gguf", model_metadata(block_count=3))


CHANGED: dict[str, Callable[[TunerCommand], list[str]]] = {
    "model": model(_other_model),
    "engine": server(_other_engine),
    "space": options("--space", "dual-gpu"),
    "workload": options("--tokens", "9"),
    "devices": options("--devices", "CUDA1,CUDA0"),
    "flags": options("--", "--jinja"),
}


@pytest.mark.parametrize("part", CHANGED)
def test_study_made_with_something_else_is_not_gone_on_with(small_study: TunerCommand, part: str) -> None:
    launches = len(small_study.launches())
    before = {path: path.read_bytes() for path in small_study.results.rglob("*") if path.is_file()}
    ended = small_study.run(*CHANGED[part](small_study))
    assert_refused(ended, str(small_study.study), f"{part}: made with ", "--study NAME")
    assert len(small_study.launches()) == launches
    assert {path: path.read_bytes() for path in small_study.results.rglob("*") if path.is_file()} == before
