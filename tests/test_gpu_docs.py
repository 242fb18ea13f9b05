"""Every number of docs/gpu comes from the data files beside it."""

import re
from statistics import fmean, median

import pytest

from tests.support.gpu_tables import (
    FOLDER,
    answers,
    answers_table,
    best,
    memory_table,
    options_of,
    proof_table,
    rows,
    search_table,
    trials,
    wall_table,
)

TEXT = (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_data() -> None:
    assert memory_table() in TEXT
    assert wall_table() in TEXT


def test_what_is_said_of_the_errors_is_so() -> None:
    errors = [row["nvml_mib"] - row["predicted_mib"] for row in rows("memory.jsonl")]
    parts = [abs(row["nvml_mib"] - row["predicted_mib"]) / row["nvml_mib"] for row in rows("memory.jsonl")]
    assert f"{len(errors)} readings" in TEXT
    assert f"mean {fmean(errors):+.0f} MiB, worst {max(map(abs, errors)):.0f} MiB" in TEXT
    assert f"{max(parts):.1%}" in TEXT


def test_what_is_said_of_the_run_itself_is_so() -> None:
    errors = [row["predicted_in_the_run_mib"] - row["nvml_mib"] for row in rows("memory.jsonl")]
    high = [error for error in errors if error > 100]
    assert f"{len(high)} of the {len(errors)}" in TEXT
    assert f"{min(high):.0f} to {max(high):.0f} MiB too high" in TEXT
    assert f"the others within {max(abs(error) for error in errors if error <= 100):.0f} MiB" in TEXT


def test_every_wall_was_predicted_where_it_was() -> None:
    for row in rows("walls.jsonl"):
        said, came = row["predicted"], row["came"]
        assert (said["device"], said["stage"]) == (came["device"], came["stage"])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "search-8k.csv",
            "the engine's own default makes {default} tok/s, the winner `none · CUDA0 · {how}` {best}",
        ),
        (
            "search-64k.csv",
            "the engine's default makes {default} tok/s, the winner `layer · 34,32 · {how}` {best}",
        ),
    ],
)
def test_the_searches_are_those_of_the_data(name: str, said: str) -> None:
    assert search_table(name) in TEXT
    default, *_ = launched = trials(name)
    # the winner is the best by all trials together, so it need not be the highest single figure
    winner = launched[{"search-8k.csv": 7, "search-64k.csv": 5}[name]]
    speeds = [float(trial["generation_tok_s"]) for trial in (default, winner)]
    how = "draft-mtp n-max 5" if name == "search-8k.csv" else "kv q8_0 · draft-mtp n-max 4"
    assert said.format(default=f"{speeds[0]:.1f}", best=f"{speeds[1]:.1f}", how=how) in TEXT
    assert f"({speeds[1] / speeds[0]:.2f} times)" in TEXT
    assert f"{len(launched)} launches" in TEXT
    assert not [trial for trial in launched if trial["outcome"] == "out-of-memory"]


def test_the_whole_runs_are_those_of_the_data() -> None:
    assert proof_table(("8k", "64k")) in TEXT
    for run in ("8k", "64k", "229k"):
        errors = [
            row["used_mib"] - row["predicted_mib"] for row in rows("memory-runs.jsonl") if row["run"] == run
        ]
        said = f"{len(errors)} readings, mean {fmean(errors):+.0f} MiB, worst {max(errors, key=abs):+.0f}"
        assert said in TEXT
        launched = trials(f"run-{run}.csv")
        assert len(launched) == best(run)["study"]["trials"]["total"]
    assert proof_table(("229k-one-gpu",)) in TEXT
    lost = [row for row in trials("run-229k.csv") if row["outcome"] == "out-of-memory"]
    assert f"{len(lost)} launches in a row ran out of memory" in TEXT


def test_what_is_said_of_one_card_as_two_is_so() -> None:
    found = rows("one-gpu-memory.jsonl")
    errors = [row["lines_mib"] - row["predicted_mib"] for row in found]
    said = f"{len(errors)} figures, mean {fmean(errors):+.1f} MiB, worst {max(errors, key=abs):+.1f}"
    assert said in TEXT
    assert f"The buffers of the {len({row['trial'] for row in found})} launches by layers" in TEXT
    stated = {name: int(mib) for name, mib in re.findall(r"(CUDA\d)=(\d{5})", TEXT)}
    assert all(row["lines_mib"] <= stated[row["device"]] for row in found)
    launched = trials("run-229k-one-gpu.csv")
    assert f"its first candidate ({float(launched[1]['generation_tok_s']):.1f} tok/s)" in TEXT
    assert not [trial for trial in launched if trial["outcome"] == "out-of-memory"]


def test_what_is_said_of_experts_is_so() -> None:
    found = rows("experts.jsonl")
    errors = [
        abs(row["lines_mib"][part] - row["predicted_mib"][part]) for row in found for part in row["lines_mib"]
    ]
    assert f"{len(found)} launches that put the experts of 31 to 48 layers" in TEXT
    assert f"within {max(errors):.2f} MiB of the engine's lines in all of them" in TEXT


def test_a_winner_of_a_whole_run_keeps_what_is_said_free() -> None:
    assert f"keeps {best('64k')['soak']['free_mib']['CUDA0']} MiB of the fast card free" in TEXT


def test_as_many_launches_are_played_again_as_is_said() -> None:
    launched = [row for run in ("8k", "64k") for row in trials(f"run-{run}.csv")]
    measured = [row for row in launched if row["generation_tok_s"] and options_of(row)]
    assert f"all {len(measured)} candidates' launches" in TEXT


def test_what_split_modes_do_to_answers_is_that_of_the_data() -> None:
    assert answers_table() in TEXT
    references = {row["study"]: row for row in rows("answers.jsonl") if "places" in row}
    entropies = {
        study: median(place["entropy_nats"] for place in row["places"]) for study, row in references.items()
    }
    assert f"(median entropy of a next token {entropies['c']:.2f} nats)" in TEXT
    assert f"is a tenth ({entropies['b']:.2f} nats)" in TEXT
    assert {row["noise_floor_nats"] for row in references.values()} == {0}
    assert {row["bound_nats"] for row in references.values()} == {0.01}
    shallow = {sum(not place["deep"] for place in row["places"]) for row in references.values()}
    deepest = {max(place["tokens"] for place in row["places"]) for row in references.values()}
    assert shallow == {13, 14}
    assert deepest == {940, 6396}


def test_layers_answer_the_same_whatever_the_split() -> None:
    plain = [
        row
        for model in (1, 2)
        for (mode, _, _, *rest), row in answers(model).items()
        if mode == "layer" and rest == ["f16", 512, "on"]
    ]
    assert f"0 nats at every place in {len(plain)} launches" in TEXT
    assert all(row["loss"]["worst_kl_nats"] == 0 and row["answers_alike"] == 1 for row in plain)
    here, there = (
        {place["name"]: place["next_sha256"] for place in row["places"]}
        for study in ("a", "c")
        for row in rows("answers.jsonl")
        if row["study"] == study and "places" in row
    )
    both = here.keys() & there.keys()
    assert f"the same at all {len(both)} places" in TEXT
    assert all(here[name] == there[name] for name in both)


def test_what_is_said_of_the_reductions_is_so() -> None:
    off = [
        {key: row["loss"]["kl_nats"] for key, row in answers(model).items() if key[3:] != ("q8_0", 512, "on")}
        for model in (1, 2)
    ]
    even, uneven, layers = ("tensor", (1, 1)), ("tensor", (3, 1)), ("layer", (33, 33))
    f16 = ("f16", 512, "on")
    for found, said in zip(
        off, ("{} and {} nats at shallow places beside {}", "{} and {} beside {}"), strict=True
    ):
        sums = [found[(*split, "none", *f16)] for split in (even, uneven)]
        kernel = found[(*layers, "", "f16", 512, "off")]
        assert said.format(*(f"{nats:.3f}" for nats in (*sums, kernel))) in TEXT
    times = [found[(*even, "internal", *f16)] / found[(*even, "none", *f16)] for found in off]
    assert f"{times[0]:.1f} times as far as `none`" in TEXT
    assert f"{times[1]:.1f} times on the second" in TEXT
    for model, found in zip((1, 2), off, strict=True):
        assert found[(*even, "nccl", *f16)] == pytest.approx(found[(*even, "internal", *f16)], rel=1e-9)
        assert answers(model)[(*even, "nccl", *f16)]["fell_back"]
        quantised = answers(model)[(*layers, "", "q8_0", 512, "on")]["loss"]["kl_nats"]
        assert quantised < min(nats for key, nats in found.items() if key[2] == "internal")


def test_as_many_launches_are_beyond_the_bound_as_is_said() -> None:
    launched = [row for model in (1, 2) for row in answers(model).values()]
    other = [row for row in launched if row["loss"]["worst_kl_nats"] > 0]
    beyond = [row for row in other if row["outcome"] == "degraded"]
    assert f"{len(beyond)} of {len(other)} launches" in TEXT
