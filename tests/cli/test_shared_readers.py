"""`tuner show`, `report`, `export` and `serve` on a study of several machines, also where it was never worked on."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import socket
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.cli.test_report import details
from tests.cli.test_serve import OTHER_CARD
from tests.support.fake_engine import FakeEngine
from tests.support.postgres import Postgres
from tests.support.shared_study import proxy
from tests.support.trials import measured
from tests.support.tuner_command import (
    DEADLINE_S,
    Ended,
    Made,
    TunerCommand,
    assert_refused,
    kinds,
)
from tuner.core.launch import ENGINE_DEFAULT, LaunchSpec
from tuner.core.trial import TrialRecord
from tuner.study import SharedStore, Worker
from tuner.study.location import VARIABLE, Location

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = socket.gethostname()
PASSWORD = "S3cretOfTheStorage"
SPEC = LaunchSpec(None, ENGINE_DEFAULT)


@dataclass(frozen=True, slots=True)
class Shared:
    """A study of six trials in a storage, and the machine that made it."""

    pg: Postgres
    maker: TunerCommand

    @property
    def place(self) -> str:
        return f"postgresql+psycopg://127.0.0.1:{self.pg.port}/tuner"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with Postgres() as pg:
        maker = TunerCommand(tmp_path_factory.mktemp("maker"))
        maker.fake.when({"split-mode": "layer"}, oom={"stage": "kv", "device": 0, "mib": 512})
        maker.tune("--storage", pg.url, "--launches", "6")
        yield Shared(pg, maker)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TunerCommand:
    """A machine with an empty folder of results; the working directory is empty too."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return TunerCommand(tmp_path)


def with_variable(command: TunerCommand, monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    base = command.environment | variables
    monkeypatch.setattr(TunerCommand, "environment", property(lambda _: base))


def read(command: TunerCommand, *words: str) -> str:
    ended = command.run(*words, "--results", str(command.results))
    assert (ended.code, ended.stderr) == (0, ""), ended
    return ended.stdout


def files_of(command: TunerCommand) -> list[Path]:
    """What is in the results and in the working directory."""
    return [path for folder in (command.results, Path.cwd()) for path in folder.rglob("*")]


# --- from the storage alone


def test_the_best_is_that_of_the_workers_own_folder(shared: Shared, elsewhere: TunerCommand) -> None:
    found = json.loads(read(elsewhere, "export", "mine", "--storage", shared.pg.url))
    own = shared.maker.best()
    assert found.pop("date") >= own.pop("date")
    assert found == own
    assert found["study"]["trials"]["total"] == 6
    assert files_of(elsewhere) == []


def test_other_forms_are_those_of_the_workers_own_folder(shared: Shared, elsewhere: TunerCommand) -> None:
    own = read(shared.maker, "export", str(shared.maker.study / "best.json"), "--format", "markdown")
    assert read(elsewhere, "export", "mine", "--format", "markdown", "--storage", shared.pg.url) == own


def test_a_study_is_shown_with_its_workers(shared: Shared, elsewhere: TunerCommand) -> None:
    said = read(elsewhere, "show", "mine", "--storage", shared.pg.url)
    assert f"Shared: {shared.place} mine\n{HOST}: 6 trials, " in said
    assert re.search(
        rf"^{re.escape(HOST)}: 6 trials, \d measured; last heard of \d{{4}}-\S+ \S+\.$", said, re.MULTILINE
    )
    for part in ("out-of-memory at kv", "the engine's own choice", "no run is going on"):
        assert part in said
    assert shared.maker.best()["winner"]["command"] in said
    assert read(shared.maker, "show", "mine", "--storage", shared.pg.url) == said
    assert files_of(elsewhere) == []


def test_csv_has_a_row_for_each_trial(shared: Shared, elsewhere: TunerCommand) -> None:
    rows = list(
        csv.DictReader(io.StringIO(read(elsewhere, "show", "mine", "--csv", "--storage", shared.pg.url)))
    )
    records = SharedStore.open(Location.parse(shared.pg.url, "test"), "mine").records()
    assert [int(row["trial"]) for row in rows] == list(range(6))
    assert [row["outcome"] for row in rows] == kinds(records)


def test_a_report_has_logs_and_workers_and_is_that_of_the_workers_own_machine(
    shared: Shared, elsewhere: TunerCommand
) -> None:
    said = read(elsewhere, "report", "mine", "--storage", shared.pg.url)
    path = Path("mine.html")
    assert said.startswith(f"Written: {path} (")
    page = html.unescape(path.read_text(encoding="utf-8"))
    assert files_of(elsewhere) == [path.absolute()]
    own_path = shared.maker.study / "report.html"
    assert read(shared.maker, "report", "mine", "--storage", shared.pg.url).startswith(f"Written: {own_path}")
    own = html.unescape(own_path.read_text(encoding="utf-8"))
    assert details(page) == details(own)
    assert [row["log"] for row in details(page).values() if not row["log"].strip()] == []
    for part in ("Who took part", HOST, "Memory of each card", "no run is going on"):
        assert part in page
    assert _without_date(page) == _without_date(own)


def test_a_proxy_of_the_database_gives_the_same(shared: Shared, elsewhere: TunerCommand) -> None:
    own = read(elsewhere, "show", "mine", "--storage", shared.pg.url)
    with proxy(shared.pg.url) as url:
        said = read(elsewhere, "show", "mine", "--storage", url)
        exported = json.loads(read(elsewhere, "export", "mine", "--storage", url))
        assert exported["winner"] == shared.maker.best()["winner"]
        assert_refused(elsewhere.run("show", "nothing", "--storage", url), url, "studies: mine")
    assert said == own.replace(shared.place, url)


def test_a_study_is_compared_with_a_file(shared: Shared, elsewhere: TunerCommand) -> None:
    best = str(shared.maker.study / "best.json")
    said = read(elsewhere, "show", "mine", best, "--storage", shared.pg.url)
    assert "Rig, engine, model, workload and winner are the same." in said


def test_a_server_is_started_from_the_storage(shared: Shared, elsewhere: TunerCommand) -> None:
    """It is not, since its rig is another; what it was tuned for is known all the same."""
    other = TunerCommand(elsewhere.folder, FakeEngine(elsewhere.folder, devices=OTHER_CARD))
    ended = other.run("serve", "mine", "--storage", shared.pg.url)
    assert_refused(ended, "not what it was tuned for: ", "NVIDIA GeForce RTX 5080", "--anyway")


def _without_date(page: str) -> str:
    return re.sub(r"written \S+", "", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL))


# --- where it is looked for


def test_the_variable_alone_names_what_is_not_found_here(
    shared: Shared, made: Made, elsewhere: TunerCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_variable(elsewhere, monkeypatch, **{VARIABLE: shared.pg.url})
    assert f"Shared: {shared.place} mine" in read(elsewhere, "show", "mine")
    local = elsewhere.run("show", "mine", "--results", str(made.command.results))
    assert local.code == 0
    assert "Shared: " not in local.stdout
    forced = elsewhere.run("show", "mine", "--results", str(made.command.results), "--storage", shared.pg.url)
    assert f"Shared: {shared.place} mine" in forced.stdout
    file = str(made.command.study / "best.json")
    assert json.loads(read(elsewhere, "export", file)) == made.command.best()


def test_a_variable_that_is_no_address_hides_no_local_study(
    made: Made, elsewhere: TunerCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_variable(elsewhere, monkeypatch, **{VARIABLE: "nonsense"})
    assert elsewhere.run("show", "mine", "--results", str(made.command.results)).code == 0
    assert_refused(elsewhere.run("show", "other", "--results", str(made.command.results)), VARIABLE)


def test_a_file_may_hold_the_address(shared: Shared, elsewhere: TunerCommand, tmp_path: Path) -> None:
    file = tmp_path / "storage"
    file.write_text(f"{shared.pg.url}\n", encoding="utf-8")
    found = json.loads(read(elsewhere, "export", "mine", "--storage-file", str(file)))
    assert found["winner"] == shared.maker.best()["winner"]


def test_a_worker_is_told_where_its_study_is(shared: Shared) -> None:
    ended = shared.maker.run("show", "mine", "--results", str(shared.maker.results))
    assert_refused(ended, "mine: no study there", "worked on a shared one of that name", "--storage URL")


# --- which there are


def test_the_studies_of_a_storage_are_listed(
    shared: Shared, elsewhere: TunerCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = read(elsewhere, "show", "--storage", shared.pg.url)
    (line,) = [line for line in said.splitlines() if line.startswith(" mine ")]
    for part in ("Small Model", " 6 ", "tok/s", "complete: all 6 launches are made"):
        assert part in line
    with_variable(elsewhere, monkeypatch, **{VARIABLE: shared.pg.url})
    assert read(elsewhere, "show") == said


def test_studies_beside_others_and_strange_ones_are_marked(shared: Shared, elsewhere: TunerCommand) -> None:
    with database(shared.pg, "several") as url:
        maker = elsewhere
        maker.tune("--storage", url, "--launches", "2", "--per-rig-class")
        other = TunerCommand(
            _folder(elsewhere.folder / "other"),
            FakeEngine(elsewhere.folder / "other", devices=OTHER_CARD),
        )
        joined = other.run(
            "worker", "mine", "--storage", url, "--model", str(other.model), "--server", str(other.fake.path),
            "--results", str(other.results), "--yes",
        )  # fmt: skip
        assert joined.code == 0, joined
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            connection.execute("INSERT INTO studies (study_name) VALUES ('of somebody else')")
        said = read(maker, "show", "--storage", url)
        lines = said.splitlines()
        assert [line.split()[0] for line in lines if line.startswith(" mine")] == ["mine", lines_name(lines)]
        assert "(another class of rigs than mine's)" in " ".join(said.split())
        assert "Of another program, or another version of the tuner: of somebody else." in said
        beside = lines_name(lines)
        shown = read(maker, "show", beside, "--storage", url)
        assert f"{HOST}: " in shown
        assert "4090" in shown


def lines_name(lines: list[str]) -> str:
    """The name of the study beside."""
    (name,) = {found[0] for line in lines if (found := re.findall(r"mine@[0-9a-f]{8}", line))}
    return str(name)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


# --- who took part


def test_what_became_of_each_worker_is_said(shared: Shared, elsewhere: TunerCommand) -> None:
    with database(shared.pg, "parts") as url:
        elsewhere.tune("--storage", url, "--launches", "2", "--lease", "2s")
        location = Location.parse(url, "test")
        silent = SharedStore.open(location, "mine", worker=Worker("b" * 12, "beta"))
        lost = silent.begin(SPEC, (), argv=["llama-server"], environment={})
        said = read(elsewhere, "show", "mine", "--storage", url)
        assert re.search(
            rf"^beta: 1 trial, 0 measured; RUNNING trial {lost}, heard of \d s ago\.$", said, re.MULTILINE
        )
        assert "The run is going on" in said
        assert " running " in read(elsewhere, "show", "--storage", url)

        silent._pulse.stop()
        third = SharedStore.open(location, "mine", worker=Worker("c" * 12, "gamma"))
        end_s = time.monotonic() + DEADLINE_S
        while any(one.runs for one in third.stored()):
            assert time.monotonic() < end_s
            third.look_after_others()
            time.sleep(0.05)
        said = read(elsewhere, "show", "mine", "--storage", url)
        assert f"given up because nothing was heard of it: trial {lost}." in said
        assert "no run is going on" in said

        silent.finish(
            TrialRecord(
                lost, None, ENGINE_DEFAULT, ("llama-server",), MappingProxyType({}), measured(50), 3.0
            )
        )
        silent.note_apart("beta: it is slower than the others")
        said = read(elsewhere, "show", "mine", "--storage", url)
        (line,) = [line for line in said.splitlines() if line.startswith("beta: ")]
        assert line.startswith("beta: 1 trial, 1 measured; last heard of ")
        assert line.endswith(f"trial {lost}; 1 result came late; set apart: it is slower than the others.")
        read(elsewhere, "report", "mine", "--storage", url, "-o", "page.html")
        page = html.unescape(Path("page.html").read_text(encoding="utf-8"))
        for part in ("Who took part", "beta", "it is slower than the others", HOST):
            assert part in page


def test_workers_of_one_host_are_told_apart_and_the_prover_is_named(
    shared: Shared, elsewhere: TunerCommand
) -> None:
    with database(shared.pg, "twins") as url:
        elsewhere.tune("--storage", url, "--launches", "1")
        other = SharedStore.open(Location.parse(url, "test"), "mine", worker=Worker("d" * 12, HOST))
        other.begin(SPEC, (), argv=["llama-server"], environment={})
        assert other.take("proving")
        said = read(elsewhere, "show", "mine", "--storage", url)
        other.close()
        lines = [line for line in said.splitlines() if line.startswith(f"{HOST} [")]
        assert len(lines) == 2
        doing = r"1 trial, 0 measured; RUNNING trial \d to prove the winner, heard of \d s ago\."
        assert re.fullmatch(rf"{re.escape(HOST)} \[dddddd\]: {doing}", lines[1])


# --- what goes wrong


@pytest.mark.parametrize(
    "words", [("show", "nothing"), ("report", "nothing"), ("export", "nothing"), ("serve", "nothing")]
)
def test_a_study_that_is_not_there_is_refused_with_those_that_are(
    words: tuple[str, str], shared: Shared, elsewhere: TunerCommand
) -> None:
    ended = elsewhere.run(*words, "--storage", shared.pg.url)
    assert_refused(ended, shared.place, "no study 'nothing' there", "studies: mine")
    assert files_of(elsewhere) == []


def test_both_places_are_named_where_the_study_is_in_neither(
    shared: Shared, elsewhere: TunerCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_variable(elsewhere, monkeypatch, **{VARIABLE: shared.pg.url})
    ended = elsewhere.run("show", "nothing", "--results", str(elsewhere.results))
    assert_refused(ended, f"{elsewhere.results} holds no study", shared.place, "studies: mine")


@pytest.mark.parametrize("words", [("show",), ("show", "mine"), ("report", "mine"), ("export", "mine")])
def test_a_storage_that_is_away_is_said(words: tuple[str, ...], elsewhere: TunerCommand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    ended = elsewhere.run(*words, "--storage", f"postgresql://postgres@127.0.0.1:{port}/tuner")
    assert_refused(ended, f"postgresql+psycopg://127.0.0.1:{port}/tuner cannot be used", "Connection refused")
    assert files_of(elsewhere) == []


def test_a_missing_package_is_named_with_what_installs_it(
    shared: Shared, elsewhere: TunerCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    ended = elsewhere.run("show", "mine", "--storage", shared.pg.url)
    assert_refused(ended, "psycopg is missing", "pip install 'split-ratio-tuner[machines]'")


def test_readers_make_no_tables_in_a_database_that_has_none(shared: Shared, elsewhere: TunerCommand) -> None:
    with database(shared.pg, "empty") as url:
        for words in (("show",), ("show", "mine"), ("export", "mine")):
            assert_refused(elsewhere.run(*words, "--storage", url), "holds no study")
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            query = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
            assert connection.execute(query).fetchone() == (0,)


# --- the password


@pytest.fixture(scope="module")
def guarded(shared: Shared) -> str:
    """The address of a database that only a password lets into, without it."""
    return shared.pg.with_password("guarded", PASSWORD)


def with_secret(url: str, password: str) -> str:
    return url.replace("guarded@", f"guarded:{password}@")


@pytest.mark.parametrize("by", ["variable", "file"])
def test_the_password_is_in_nothing_that_is_said_or_kept(
    by: str, guarded: str, elsewhere: TunerCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "storage"
    told: tuple[str, ...] = ()
    if by == "file":
        file.write_text(with_secret(guarded, PASSWORD), encoding="utf-8")
        told = ("--storage-file", str(file))
    else:
        with_variable(elsewhere, monkeypatch, **{VARIABLE: with_secret(guarded, PASSWORD)})
    name = f"by-{by}"
    ends = [elsewhere.run(*elsewhere.words("--study", name, "--launches", "2", *told))]
    reading = (
        ("show",), ("show", name), ("show", name, "--csv"), ("show", "nothing"), ("report", name, "-o", "r.html"),
        ("report", name), ("export", name), ("export", name, "--format", "markdown"), ("serve", "nothing"),
    )  # fmt: skip
    ends += [elsewhere.run(*words, *told, "--results", str(elsewhere.results)) for words in reading]
    assert [end.code for end in ends] == [0, 0, 0, 0, 2, 0, 0, 0, 0, 2], ends
    assert_not_said(ends)
    assert_not_kept(elsewhere, file)
    starts = elsewhere.launches()
    assert starts
    assert [start for start in starts if PASSWORD in json.dumps(start)] == []
    with psycopg.connect(with_secret(guarded, PASSWORD).replace("+psycopg", "")) as connection:
        rows: list[Any] = []
        for table in ("studies", "study_user_attributes", "study_system_attributes", "trial_user_attributes"):
            found = connection.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - a name of ours
            assert table == "study_system_attributes" or found
            rows += found
    assert PASSWORD not in repr(rows)


def test_the_password_is_in_no_error(
    guarded: str, elsewhere: TunerCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        away = listener.getsockname()[1]
    file = tmp_path / "storage"
    bad = {
        "wrong password": with_secret(guarded, f"{PASSWORD}x"),
        "away": re.sub(r":\d+/", f":{away}/", with_secret(guarded, PASSWORD)),
        "no host": with_secret(guarded, PASSWORD).replace("127.0.0.1", "no-such-host.invalid"),
        "no database": f"{with_secret(guarded, PASSWORD)}x",
        "no parameter": f"{with_secret(guarded, PASSWORD)}?nonsense=1",
        "not encoded": with_secret(guarded, f"1/{PASSWORD}"),
        "two signs": with_secret(guarded, f"1@{PASSWORD}"),
        "another program": with_secret(guarded, PASSWORD).replace("postgresql+psycopg", "mysql"),
        "no name": with_secret(guarded, PASSWORD).rpartition("/")[0],
    }
    for what, url in bad.items():
        file.write_text(url, encoding="utf-8")
        with monkeypatch.context() as patch:
            with_variable(elsewhere, patch, **{VARIABLE: url})
            ends = [
                elsewhere.run(*words, *told, "--results", str(elsewhere.results))
                for told, words in (
                    ((), ("show", "mine")),
                    ((), ("report", "mine")),
                    (("--storage-file", str(file)), ("show",)),
                    (("--storage-file", str(file)), ("serve", "mine")),
                )
            ]
            ends.append(elsewhere.run(*elsewhere.words("--launches", "1")))
        assert [end.code for end in ends] == [2] * len(ends), (what, ends)
        assert_not_said(ends)
    refused = elsewhere.run("show", "mine", "--storage", with_secret(guarded, PASSWORD))
    assert_refused(refused, "a password on the command line can be read by everyone")
    assert_not_said([refused])
    assert_not_kept(elsewhere, file)


def assert_not_said(ends: list[Ended]) -> None:
    for end in ends:
        assert PASSWORD not in end.stdout + end.stderr


def assert_not_kept(command: TunerCommand, but: Path) -> None:
    """In no file below the machine's folder: results, data, temporary files, pages, what the engine was told."""
    files = [path for path in command.folder.rglob("*") if path.is_file() and path != but]
    assert len(files) > 1
    assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []


@contextmanager
def database(pg: Postgres, name: str) -> Iterator[str]:
    """An empty database of that server, gone at the end."""
    plain = pg.url.replace("+psycopg", "")
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            yield pg.url.removesuffix("/tuner") + f"/{name}"
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
