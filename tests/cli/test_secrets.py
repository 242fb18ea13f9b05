"""What is secret in the user's environment or command is in no file of the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.tuner_command import TunerCommand

if TYPE_CHECKING:
    from pathlib import Path

SECRETS = {
    "HF_TOKEN": "hf_SECRETtokenOfTheUser",
    "HF_TOKEN_PATH": "/home/SECRETpath/token",
    "HUGGING_FACE_HUB_TOKEN": "hf_SECRETolderToken",
    "LLAMA_API_KEY": "SECRETkeyOfTheirServer",
    "OPENAI_API_KEY": "sk-SECRETkeyOfAnother",
    "AWS_SECRET_ACCESS_KEY": "SECRETcloud",
}
CURRENT = (
    "HF_TOKEN=hf_SECRETinFront LLAMA_API_KEY=SECRETkeyInFront llama-server -m x.gguf -ngl 99 -c 2048 -np 1 "
    "--api-key SECRETkeyInTheCommand --hf-token hf_SECRETinTheCommand"
)


def files_with(folder: Path, word: bytes) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 5
    return [path for path in files if word in path.read_bytes() or word in str(path).encode()]


@pytest.fixture
def secretive(command: TunerCommand, monkeypatch: pytest.MonkeyPatch) -> TunerCommand:
    """A user with secrets in the environment."""
    base = command.environment | SECRETS
    monkeypatch.setattr(TunerCommand, "environment", property(lambda _: base))
    return command


def test_secrets_of_the_environment_are_in_no_file_of_the_results(secretive: TunerCommand) -> None:
    said = secretive.tune("--launches", "3")
    assert files_with(secretive.results, b"SECRET") == []
    assert "SECRET" not in said.stdout + said.stderr
    assert files_with(secretive.results, b"engine-default")  # looked where something is


def test_secrets_of_a_run_that_fails_are_in_no_file_either(secretive: TunerCommand) -> None:
    secretive.fake.always(exit=1, log="error: invalid argument: --new-flag")
    said = secretive.run(*secretive.words("--launches", "3"))
    assert said.code == 2
    assert files_with(secretive.results, b"SECRET") == []
    assert "SECRET" not in said.stdout + said.stderr


def test_tokens_of_the_user_reach_no_server(secretive: TunerCommand) -> None:
    secretive.tune("--launches", "2")
    for event in secretive.launches():
        assert not {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "LLAMA_API_KEY"} & set(event["environment"])


def test_secrets_of_the_users_command_are_in_no_file_of_the_results(command: TunerCommand) -> None:
    said = command.tune("--launches", "3", "--current", CURRENT)
    for name in ("HF_TOKEN", "LLAMA_API_KEY", "--api-key", "--hf-token"):
        assert f"--current: {name} is left out" in said.stdout
    assert files_with(command.results, b"SECRET") == []
    assert "SECRET" not in said.stdout + said.stderr
