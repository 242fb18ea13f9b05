"""Addresses of storages: which can be used, and that no password is ever shown."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tuner.errors import UsageError
from tuner.study.location import VARIABLE, Location, location_of

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = "postgresql+psycopg://anna@db.example:5433/tuner"
PASSWORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=8, max_size=20).filter(
    lambda text: not text.isspace()
)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (PLAIN, "postgresql+psycopg://db.example:5433/tuner"),
        ("postgresql://anna@db.example/tuner", "postgresql+psycopg://db.example/tuner"),
        ("  postgresql://db.example/tuner\n", "postgresql+psycopg://db.example/tuner"),
        ("postgresql://anna:secret@db.example/tuner", "postgresql+psycopg://db.example/tuner"),
        ("postgresql://a%40b:se%2Fcret@db.example/tuner", "postgresql+psycopg://db.example/tuner"),
        ("postgresql:///tuner?host=/run/postgresql&password=secret", "postgresql+psycopg:///tuner"),
        ("postgresql://anna@[::1]:5432/tuner", "postgresql+psycopg://[::1]:5432/tuner"),
        ("grpc://proxy.example:13000", "grpc://proxy.example:13000"),
        ("grpc://anna:secret@[fe80::1]:13000/", "grpc://[fe80::1]:13000/"),
    ],
)
def test_an_address_is_shown_without_user_password_and_parameters(given: str, shown: str) -> None:
    location = Location.parse(given, "--storage")
    assert str(location) == shown
    assert "secret" not in repr(location)
    assert location.url.startswith(("postgresql+psycopg:", "grpc:"))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "(no address)"),
        ("study.db", "(no address)"),
        ("sqlite:///study.db", "'sqlite:...' is no storage for several machines"),
        ("mysql://anna:secret@db.example/tuner", "'mysql:...' is no storage for several machines"),
        ("anna:secret", "'anna:...' is no storage"),
        ("postgresql://anna:secret@db.example", "names no database"),
        ("postgresql://anna:secret@db.example/", "names no database"),
        ("grpc://anna:secret@proxy.example", "has to be grpc://HOST:PORT"),
        ("grpc://proxy.example:13000/tuner", "has to be grpc://HOST:PORT"),
        ("postgresql://db.example:port/tuner", "no address of a storage that can be read"),
        ("postgresql://[db.example/tuner", "no address of a storage that can be read"),
        ("anna:secret@db.example/tuner", "%40 for @"),
        ("postgresql://anna:12/secret@db.example/tuner", "%40 for @"),
        ("postgresql://anna:12?secret@db.example/tuner", "%40 for @"),
        ("postgresql://anna:12#secret@db.example/tuner", "%40 for @"),
        ("postgresql://anna:x@secret@db.example/tuner", "%40 for @"),
        ("postgresql://anna:secret/@db.example/tuner", "%40 for @"),
        ("postgresql://anna:secret\N{DOUBLE QUESTION MARK}@db.example/tuner", "%40 for @"),
    ],
)
def test_what_is_no_address_is_refused_and_no_password_in_it_shown(given: str, why: str) -> None:
    with pytest.raises(UsageError) as error:
        Location.parse(given, "TUNER_STORAGE")
    said = str(error.value)
    assert said.startswith("TUNER_STORAGE: ")
    assert why in said
    assert "secret" not in said
    assert "anna:12" not in said


@given(password=PASSWORDS)
def test_a_password_is_never_shown(password: str) -> None:
    url = f"postgresql://anna:{quote(password, safe='')}@db.example:5433/tuner"
    location = Location.parse(url, "--storage-file f")
    assert str(location) == "postgresql+psycopg://db.example:5433/tuner"
    assert repr(location) == "Location()"
    assert location.has_password
    assert urlsplit(location.url).hostname == "db.example"


@given(password=PASSWORDS)
@example("pa/ss@word:5432")
@example("[12?345#678")
def test_a_password_that_is_not_written_with_its_codes_is_shown_no_more(password: str) -> None:
    said = shown_of(f"postgresql://anna:{password}@db.example:5433/tuner")
    assert said in {"postgresql+psycopg://db.example:5433/tuner", shown_of("postgresql://[")}


def shown_of(url: str) -> str:
    """All that is said of an address."""
    try:
        return str(Location.parse(url, "--storage-file f"))
    except UsageError as refused:
        return str(refused)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna:secret@db.example/tuner",
        "postgresql://db.example/tuner?password=secret",
        "postgresql://db.example/tuner?%70assword=secret",
        "postgresql://db.example/tuner?sslmode=require&sslpassword=secret",
    ],
)
def test_a_password_on_the_command_line_is_refused_but_not_elsewhere(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can be read by everyone on this machine") as error:
        location_of(url, None, {})
    assert "secret" not in str(error.value)
    file = tmp_path / "storage"
    file.write_text(f"{url}\nsomething else\n", encoding="utf-8")
    wanted = url.replace("postgresql:", "postgresql+psycopg:")
    for found in (location_of(None, file, {}), location_of(None, None, {VARIABLE: url})):
        assert found is not None
        assert found.url == wanted


def test_an_option_wins_over_the_environment_and_nothing_means_no_storage(tmp_path: Path) -> None:
    environ = {VARIABLE: "grpc://proxy.example:13000"}
    assert str(location_of(PLAIN, None, environ)) == "postgresql+psycopg://db.example:5433/tuner"
    assert str(location_of(None, None, environ)) == "grpc://proxy.example:13000"
    assert location_of(None, None, {VARIABLE: " "}) is None
    with pytest.raises(UsageError, match="give one of them"):
        location_of(PLAIN, tmp_path / "storage", {})
    with pytest.raises(UsageError, match=f"or set {VARIABLE}"):
        location_of(None, None, {}, required=True)


def test_a_file_that_holds_no_address_is_named(tmp_path: Path) -> None:
    file = tmp_path / "storage"
    with pytest.raises(UsageError, match=f"{file} cannot be read"):
        location_of(None, file, {})
    file.write_text("\nsecond line\n", encoding="utf-8")
    with pytest.raises(UsageError, match="its first line is to be the address"):
        location_of(None, file, {})


def test_a_proxy_has_a_host_and_a_port() -> None:
    location = Location.parse("grpc://[fe80::1]:13000", "--storage")
    assert location.is_grpc
    assert location.host_and_port == ("fe80::1", 13000)
    assert not Location.parse(PLAIN, "--storage").is_grpc
