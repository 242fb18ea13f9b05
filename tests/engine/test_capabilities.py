"""What can be said to an engine, whatever it calls it."""

import pytest

from tests.support.fake_llama.builds import BUILDS
from tuner.engine.capabilities import capabilities
from tuner.engine.help_text import HelpText

OWN = sorted(name for name, build in BUILDS.items() if not build.fork_of)


@pytest.mark.parametrize("build", OWN)
def test_options_are_by_canonical_name_and_values_as_the_help_lists_them(build: str) -> None:
    found = capabilities(HelpText(BUILDS[build].help_text()))
    assert found["split-mode"] == "layer,none,row,tensor"
    assert found["tensor-split"] == ""
    assert "q8_0" in found["cache-type-k"].split(",")
    assert "spec-draft-n-max" in found


def test_a_fork_lists_split_modes_of_its_own() -> None:
    (fork,) = (build for build in BUILDS.values() if build.fork_of)
    assert capabilities(HelpText(fork.help_text()))["split-mode"] == "graph,layer,none"


def test_load_modes_are_there_under_their_old_switches_too() -> None:
    old, new = (capabilities(HelpText(BUILDS[name].help_text())) for name in ("9246", "11434"))
    assert set(old["load-mode"].split(",")) <= set(new["load-mode"].split(","))
    assert "n-cpu-ffn" in new
    assert "n-cpu-ffn" not in old


def test_an_engine_without_an_option_has_none() -> None:
    assert capabilities(HelpText("  -sm, --split-mode {none,layer}  how to split\n")) == {
        "split-mode": "layer,none"
    }
