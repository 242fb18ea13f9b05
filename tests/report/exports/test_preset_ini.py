"""What a preset cannot hold is refused, and what the router sets is not written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.fake_llama.builds import BUILDS
from tests.support.winners import MODEL, PROGRAM, UUIDS, a_winner
from tuner.core.serving import Serving
from tuner.engine.help_text import HelpText
from tuner.errors import ExportError
from tuner.report.exports.preset_ini import PresetIni


def test_the_router_gets_host_port_and_key_and_the_section_the_alias() -> None:
    serving = Serving(host="0.0.0.0", port=9000, api_key_file="/k", alias="my model")  # noqa: S104
    text = PresetIni().write(a_winner(["-ts", "2,3"], serving=serving, environment={"GGML_A": "b c"}))
    assert text.split("\n\n")[1] == f"[my model]\nmodel = {MODEL}\ntensor-split = 2,3\n"
    assert (
        "; Start it with: XDG_CONFIG_HOME=/dev/null GGML_A='b c' "
        f"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={','.join(UUIDS)} "
        f"{PROGRAM} --models-preset THIS_FILE --host 0.0.0.0 --port 9000 --api-key-file /k\n"
    ) in text


@pytest.mark.parametrize(
    ("words", "model", "part"),
    [
        (["-ts", "2,3"], "/a;b.gguf", "-m holds"),
        (["-ts", "2,3"], "/a#b.gguf", "-m holds"),
        (["-ts", "2,3"], "/a\nb.gguf", "-m holds"),
        (["-ts", "2,3"], "/a.gguf ", "-m holds"),
        (["-lv", "3", "--verbosity", "4"], MODEL, "--verbosity stands more than once"),
        (["--flag-of-tomorrow", "1"], MODEL, "does not list --flag-of-tomorrow"),
        (["--alias", "a]b"], MODEL, "cannot name a preset"),
        (["--alias", "a:b"], MODEL, "cannot name a preset"),
        (["--alias", "*"], MODEL, "cannot name a preset"),
        (["--alias", "default"], MODEL, "cannot name a preset"),
        (["--alias", " a"], MODEL, "cannot name a preset"),
    ],
)
def test_what_its_parser_would_read_otherwise_is_refused(words: list[str], model: str, part: str) -> None:
    with pytest.raises(ExportError, match=part):
        PresetIni().write(a_winner(words, model=model))


def test_an_engine_without_presets_is_told_so() -> None:
    """Every build whose help is known has them; one that lists all else has not."""
    text = BUILDS["11434"].help_text().replace("--models-preset", "--models-of-yore")
    winner = replace(a_winner(["-ts", "2,3"]), ask_help=lambda: HelpText(text))
    with pytest.raises(ExportError, match="no --models-preset"):
        PresetIni().write(winner)
