"""The options of a study come back from what is kept of them, keys and folders of the run excepted."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.cli.build.options import TuneOptions
from tuner.cli.build.recorded import options_of, recorded
from tuner.core.objective import Objective
from tuner.core.workload import Thinking
from tuner.engine.help_text import HelpText
from tuner.engine.user_command import parse_command
from tuner.errors import UsageError

OF_THE_RUN = {
    "study": "s",
    "results": Path("results"),
    "budget_s": None,
    "launches": 3,
    "confirm_blocks": 8,
    "soak": True,
    "endure_s": None,
    "facts": None,
}
OPTIONS = TuneOptions(
    model=Path("/m.gguf"),
    server=Path("/opt/llama-server"),
    space="dual-gpu",
    context=16_384,
    devices="CUDA0,CUDA1",
    device_memory=None,
    reserve="0=2048",
    current=None,
    sampling="temp=0.6",
    thinking=Thinking.AUTO,
    prompts="default",
    sample=None,
    requests=5,
    keep_text=False,
    max_tokens=256,
    draft_model=None,
    seed=1,
    allow_p2p=False,
    cool_to_c=None,
    worthwhile=0.01,
    quality_s=10.0,
    min_kv="q8_0",
    objective=None,
    weights=None,
    max_ttft=None,
    depth="0",
    session=False,
    agents=1,
    parallel=None,
    offload=False,
    flags=("--rpc", "host:1"),
    **OF_THE_RUN,  # type: ignore[arg-type]  # of several kinds
)
HELP = HelpText(
    "-m, --model FNAME  model\n-ts, --tensor-split N0,N1  split\n--api-key KEY  key\n--port PORT  port\n"
)


def back(options: TuneOptions) -> TuneOptions:
    return options_of(json.loads(json.dumps(recorded(options, None))), OF_THE_RUN)


@given(
    st.sampled_from([None, *Objective]),
    st.sampled_from(list(Thinking)),
    st.sampled_from([None, Path("/d.gguf")]),
    st.lists(st.sampled_from(["--mmproj", "x", "--rpc", "a b"]), max_size=3),
    st.floats(0, 1),
)
def test_options_come_back(
    objective: Objective | None, thinking: Thinking, draft: Path | None, flags: list[str], worthwhile: float
) -> None:
    options = replace(
        OPTIONS,
        objective=objective,
        thinking=thinking,
        draft_model=draft,
        flags=tuple(flags),
        worthwhile=worthwhile,
    )
    assert back(options) == options


def test_paths_are_whole_and_names_stay_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "default").mkdir()  # the name of a built-in set wins over a folder
    options = replace(OPTIONS, model=Path("m.gguf"), space="my.toml", prompts="mine")
    kept = recorded(options, None)
    assert (kept["model"], kept["space"], kept["prompts"]) == tuple(
        str(tmp_path / name) for name in ("m.gguf", "my.toml", "mine")
    )
    assert recorded(OPTIONS, None)["prompts"] == "default"
    assert recorded(OPTIONS, None)["space"] == "dual-gpu"


def test_the_users_command_is_kept_without_its_keys() -> None:
    text = "LLAMA_API_KEY=SECRET GGML_X='a b' llama-server -m x.gguf -ts 2,3 --api-key SECRET --port 1"
    command = parse_command(HELP, text)
    kept = recorded(replace(OPTIONS, current=text), command)["current"]
    assert "SECRET" not in kept
    again = parse_command(HELP, kept)
    assert (again.argv, again.environment) == (command.argv, command.environment)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.pop("seed"),
        lambda d: d.update(thinking="often"),
        lambda d: d.update(flags=7),
        lambda d: d.update(model=7),
    ],
)
def test_what_another_version_wrote_is_refused(change: object) -> None:
    document = recorded(OPTIONS, None)
    assert callable(change)
    change(document)
    with pytest.raises(UsageError):
        options_of(document, OF_THE_RUN)


def test_what_is_not_known_is_left_alone() -> None:
    assert options_of({**recorded(OPTIONS, None), "later": 1}, OF_THE_RUN) == OPTIONS
