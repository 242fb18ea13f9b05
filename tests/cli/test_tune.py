"""`tuner tune` from end to end, on the fake engine."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.support.tuner_command import Made, TunerCommand, kinds, lives
from tuner.core.outcome import Kind
from tuner.report.best import check_best

CURRENT = "llama-server -m /elsewhere.gguf -ngl 99 -sm layer -ts 1,1 -c 2048 -np 1 --port 9000"


def settled(argv: list[str]) -> list[str]:
    """A launch without what the tuner adds for itself."""
    return argv[: argv.index("--host")]


# --- a whole run


def test_default_space_finds_the_best_of_twelve_launches(made: Made) -> None:
    command = made.command
    records = command.records()
    assert len(records) == len(command.launches()) == 12
    assert set(kinds(records)) == {Kind.NONE, Kind.OUT_OF_MEMORY}

    reference, *candidates = records
    assert reference.reference == "engine-default"
    assert len({record.key for record in candidates}) == 11
    assert all(record.candidate is not None for record in candidates)

    best = command.best()
    check_best(best)
    winner = max(records, key=lambda record: record.worth)
    assert best["winner"]["trial"] == winner.number
    assert best["winner"]["argv"] == list(winner.argv)
    assert winner.candidate is not None
    assert best["winner"]["parameters"] == winner.candidate.to_json()
    assert best["study"]["trials"]["total"] == 12
    (one,) = best["references"]
    assert (one["name"], one["trial"]) == ("engine-default", 0)
    assert one["winner_ratio"] == pytest.approx((winner.score or 0) / (reference.score or 1))
    assert best["winner"]["rates"]["generation_tok_s"] == winner.score
    # on the fake, 60 tok/s for the fast card alone; even halves in tensor mode make 54
    assert (winner.score or 0) >= 59.9
    assert best["winner"]["command"] in made.said
    assert "all 12 launches are made" in made.said


def test_every_trial_has_its_folder_and_its_server_is_gone(made: Made) -> None:
    command = made.command
    for record, event in zip(command.records(), command.launches(), strict=True):
        folder = command.study / "trials" / str(record.number)
        assert {path.name for path in folder.iterdir()} == {
            "launch.json",
            "process.json",
            "result.json",
            "server.log",
        }
        launch = json.loads((folder / "launch.json").read_text(encoding="utf-8"))
        assert launch["argv"][1:] == event["argv"]
        assert settled(launch["argv"]) == list(record.argv)
        assert not lives(event)


def test_first_screen_says_what_will_be_used(made: Made) -> None:
    for part in (
        "CUDA0: NVIDIA GeForce RTX 5080, 15,900 of 16,303 MiB free",
        "version: 0.6.0-dev",
        "Small Model, llama, 2 layers",
        "Search space: dual-gpu, 2,048 tokens of context",
        "1 prompts of short, 8 tokens each",
        str(made.command.study),
        "spec-type draft-mtp: dropped, the model has no MTP layers",
        "never touches a process that it did not start",
    ):
        assert part in made.said


def test_dry_run_launches_and_writes_nothing(command: TunerCommand) -> None:
    said = command.run(*command.words("--dry-run", "--current", CURRENT))
    assert said.code == 0, said.stderr
    assert command.launches() == []
    assert not command.results.exists()
    commands = [shlex.split(line) for line in said.stdout.splitlines() if str(command.fake.path) in line][1:]
    assert commands[0] == [
        *(str(command.fake.path), "-m", str(command.model)),
        *shlex.split(CURRENT.partition("gguf ")[2].partition(" --port")[0]),
    ]
    assert "--fit" in commands[1]
    assert len(commands) == 3
    assert "would be proposed first" in said.stdout


def test_space_that_is_used_up_ends_the_run(command: TunerCommand) -> None:
    space = command.folder / "tiny.toml"
    space.write_text(
        'schema_version = 1\n[parameters.ubatch-size]\nkind = "choice"\nchoices = [256, 512]\n',
        encoding="utf-8",
    )
    ended = command.tune("--budget", "8h", space=str(space))
    assert "everything in the search space was tried" in ended.stdout
    assert sorted(str(r.candidate.get("ubatch-size")) for r in command.records() if r.candidate) == [
        "256",
        "512",
    ]


def test_budget_of_time_is_kept(command: TunerCommand) -> None:
    ended = command.tune("--budget", "1s", space="dual-gpu")
    assert "time" in ended.stdout.partition("The run ends: ")[2]
    assert sum(record.wall_s for record in command.records()) < 3


# --- references


def test_users_command_is_measured_first_and_in_its_own_words(command: TunerCommand) -> None:
    ended = command.tune("--launches", "3", "--current", CURRENT)
    current, default, candidate = command.records()
    assert (current.reference, default.reference, candidate.reference) == ("current", "engine-default", None)
    assert list(current.argv[3:]) == "-ngl 99 -sm layer -ts 1,1 -c 2048 -np 1".split()
    assert "--current: --port is left out" in ended.stdout
    assert [reference["name"] for reference in command.best()["references"]] == ["current", "engine-default"]


def test_dead_engine_default_is_a_result_and_the_run_goes_on(command: TunerCommand) -> None:
    command.fake.when({"fit": "on"}, oom={"stage": "weights", "device": 0, "mib": 20000})
    ended = command.tune("--launches", "3")
    assert kinds(command.records())[0] is Kind.OUT_OF_MEMORY
    (reference,) = command.best()["references"]
    assert (reference["outcome"]["kind"], reference["rates"], reference["winner_ratio"]) == (
        "out-of-memory",
        None,
        None,
    )
    assert "The engine's own choice does not run here: out-of-memory at weights on CUDA0" in ended.stdout


def test_candidates_that_die_are_no_winners(command: TunerCommand) -> None:
    command.fake.when({"split-mode": "tensor"}, oom={"stage": "kv", "device": 1}, tok_s=900)
    command.tune("--launches", "5")
    for record in command.records():
        mode = None if record.candidate is None else record.candidate.get("split-mode")
        assert (record.score is None) == (mode == "tensor")
    assert "tensor" not in command.best()["winner"]["argv"]


def test_run_in_which_nothing_works_says_so(command: TunerCommand) -> None:
    command.fake.always(oom={"stage": "weights", "device": 0})
    ended = command.run(*command.words("--launches", "3"))
    assert (ended.code, ended.stderr) == (1, "")
    assert "Nothing could be measured" in ended.stdout
    assert not (command.study / "best.json").exists()


def test_engine_that_refuses_every_candidate_ends_the_run(command: TunerCommand) -> None:
    command.fake.when({"fit": "off"}, exit=1, log="error: invalid argument: --new-flag")
    ended = command.run(*command.words("--launches", "9"))
    assert ended.code == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: trial 1: bad-flag: ")
    assert "server.log" in line
    assert len(command.records()) == 2


# --- flags of the user's


def test_flags_after_two_dashes_are_on_every_launch_and_in_the_winner(command: TunerCommand) -> None:
    extra = ["--jinja", "-ub", "256"]
    command.tune("--launches", "4", "--current", "llama-server -ngl 99 -c 2048 -np 1 --jinja", "--", *extra)
    current, *rest = (settled(event["argv"]) for event in command.launches())
    assert current[2:] == ["-ub", "256", "-ngl", "99", "-c", "2048", "-np", "1", "--jinja"]
    for argv in rest:
        assert argv[2:5] == extra
        assert "--ubatch-size" not in argv
    assert command.best()["winner"]["argv"][3:6] == extra


def test_environment_of_the_user_belongs_to_the_command_and_options_in_it_do_not(
    command: TunerCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = command.environment | {
        "LLAMA_ARG_CTX_SIZE": "512",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "GGML_CUDA_P2P": "1",
    }
    monkeypatch.setattr(TunerCommand, "environment", property(lambda _: base))
    command.tune("--launches", "2")
    for event in command.launches():
        assert not {"LLAMA_ARG_CTX_SIZE", "GGML_CUDA_P2P"} & set(event["environment"])
    environment = command.best()["winner"]["environment"]
    assert environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert "GGML_CUDA_P2P" not in environment


def test_where_nothing_can_fit_it_says_what_would_do(command: TunerCommand) -> None:
    command.fake.always(oom={"stage": "kv", "device": 0, "mib": 512})
    ended = command.run(*command.words("--device-memory", "CUDA0=40,CUDA1=40", "--launches", "3"))
    assert ended.code == 1
    first, _, last = ended.stdout.partition("[  0]")
    for said in (first, last):
        assert (
            "Nothing in this space is expected to fit at 2,048 tokens: the smallest configuration, " in said
        )
        assert "Or a mixture-of-experts model of that size" in said
