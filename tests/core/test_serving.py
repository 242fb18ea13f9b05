"""What an owner sets changes what it names, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import PROPERTY
from tuner.core.serving import ALIAS, MODEL, Serving, value_of

WORDS = ("-m", "/a.gguf", "-ts", "2,3", "-m2", "-a", "x")
texts = st.none() | st.sampled_from(["/b.gguf", "one", "two words"])
servings = st.builds(
    Serving,
    model_path=texts,
    host=texts,
    port=st.none() | st.integers(1, 65535),
    api_key_file=texts,
    alias=texts,
)


@PROPERTY
@given(servings)
def test_all_that_is_not_named_stays(serving: Serving) -> None:
    applied = serving.applied(WORDS)
    assert applied[len(WORDS) :] == serving.flags
    assert value_of(applied, MODEL) == (serving.model_path or "/a.gguf")
    assert value_of(applied, ALIAS) == (serving.alias or "x")
    back = Serving(model_path="/a.gguf", alias="x").applied(applied[: len(WORDS)])
    assert back == WORDS
    assert len(serving.flags) == 2 * sum(
        value is not None for value in (serving.host, serving.port, serving.api_key_file)
    )


def test_an_alias_is_added_where_the_command_has_none() -> None:
    assert Serving(alias="n").applied(["-m", "/a"]) == ("-m", "/a", "--alias", "n")


def test_of_a_repeated_flag_every_one_is_set_and_the_last_counts() -> None:
    words = ["-a", "one", "--alias", "two"]
    assert value_of(words, ALIAS) == "two"
    assert Serving(alias="n").applied(words) == ("-a", "n", "--alias", "n")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "my.box", "127.0.0.1, 0.0.0.0", "[::]"])  # noqa: S104
def test_a_host_that_others_reach_is_open_unless_there_is_a_key(host: str) -> None:
    assert Serving(host=host).is_open
    assert not Serving(host=host, api_key_file="/k").is_open


@pytest.mark.parametrize("host", [None, "127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]", "/run/l.sock"])
def test_a_host_of_this_machine_alone_is_not(host: str | None) -> None:
    assert not Serving(host=host).is_open
