"""Every number of docs/gpu comes from the data files beside it."""

from statistics import fmean

from tests.support.gpu_tables import FOLDER, memory_table, rows, wall_table

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
