"""The configuration keeps the rules of llama-swap's schema and gives it the measured command."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.llama_swap_config import read_config
from tests.support.strategies import PROPERTY
from tests.support.winners import MODEL, ODD_FOLDER, PROGRAM, UUIDS, a_winner
from tuner.core.serving import Serving
from tuner.errors import ExportError
from tuner.report.exports.llama_swap import LlamaSwap

#: Anything but a line break, and often what could be a macro.
words = st.lists(
    st.sampled_from(["$", "{", "}", "'", '"', "\\", "#", " ", "PORT", "${PORT}", "${env.HOME}", "a"])
    | st.characters(exclude_characters="\0\n\r\x85\u2028\u2029", codec="utf-8"),
    min_size=1,
    max_size=8,
).map("".join)


def test_a_port_of_its_choice_and_the_measured_environment() -> None:
    (name, model), *none = read_config(
        LlamaSwap().write(a_winner(["-ts", "2,3"], environment={"GGML_A": "b: c"}))
    ).items()
    assert not none
    assert name == "qwen"
    assert model.argv == [PROGRAM, "-m", MODEL, "-ts", "2,3", "--port", "5800"]
    assert model.environment == {
        "XDG_CONFIG_HOME": "/dev/null",
        "GGML_A": "b: c",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(UUIDS),
    }
    assert model.proxy == "http://localhost:5800"


@PROPERTY
@given(st.lists(words, max_size=4), words)
def test_each_word_arrives_whatever_is_in_it(more: list[str], folder: str) -> None:
    more = [word if word != "${PORT}" else "x" for word in more]  # where alone, it is the port
    program, path = f"/{folder}/llama-server", f"/{folder}/m.gguf"
    (model,) = read_config(
        LlamaSwap().write(a_winner(["--tags", *more], program=program, model=path))
    ).values()
    assert model.argv == [program, "-m", path, "--tags", *more, "--port", "5800"]


@pytest.mark.parametrize(
    ("serving", "proxy", "port"),
    [
        (Serving(port=9000), "http://127.0.0.1:9000", "9000"),
        (Serving(host="0.0.0.0"), "http://127.0.0.1:5800", "5800"),  # noqa: S104
        (Serving(host="::"), "http://[::1]:5800", "5800"),
        (Serving(host="192.168.1.2", port=1), "http://192.168.1.2:1", "1"),
    ],
)
def test_it_is_reached_where_it_listens(serving: Serving, proxy: str, port: str) -> None:
    (model,) = read_config(LlamaSwap().write(a_winner(serving=serving))).values()
    assert model.proxy == proxy
    assert model.argv[model.argv.index("--port") + 1] == port
    assert model.argv.count("--port") == 1


def test_the_alias_is_the_models_id() -> None:
    assert list(read_config(LlamaSwap().write(a_winner(serving=Serving(alias="1e3: x"))))) == ["1e3: x"]


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "/a\nb.gguf"},
        {"model": "/a\u2028b.gguf"},
        {"environment": {"GGML_A": "${HOME}"}},
        {"environment": {"GGML_A": "a\nb"}},
        {"environment": {"ggml_a": "b"}},
        {"serving": Serving(host="/run/llama.sock")},
    ],
)
def test_what_it_would_read_otherwise_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ExportError, match="llama-swap"):
        LlamaSwap().write(a_winner(**changes))  # type: ignore[arg-type]  # each case has its own keys


def test_an_odd_path() -> None:
    path = f"/{ODD_FOLDER}/m.gguf"
    (model,) = read_config(LlamaSwap().write(a_winner(model=path))).values()
    assert model.argv[2] == path
