"""What is said of the workers of a study of several machines."""

from __future__ import annotations

import pytest

from tuner.report.view.workers import worker_lines, workers_table
from tuner.study import Part, Worker

ALPHA, BETA = Worker("a1b2c3d4e5f6", "alpha"), Worker("b1b2c3d4e5f6", "beta")
AT_S = 1_800_000_000.0


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Part(ALPHA, 1, 0), "alpha: 1 trial, 0 measured; never heard of."),
        (
            Part(ALPHA, 12, 9, running=14, quiet_s=3.4, lease_s=60),
            "alpha: 12 trials, 9 measured; RUNNING trial 14, heard of 3 s ago.",
        ),
        (
            Part(ALPHA, 12, 9, running=14),  # behind a proxy nobody can say how long ago that was
            "alpha: 12 trials, 9 measured; RUNNING trial 14.",
        ),
        (
            Part(ALPHA, 12, 9, running=14, quiet_s=900, lease_s=60),
            "alpha: 12 trials, 9 measured; RUNNING trial 14, but no sign of life for 15 min.",
        ),
        (
            Part(ALPHA, 12, 9, proves=True, quiet_s=0.2, lease_s=60),
            "alpha: 12 trials, 9 measured; RUNNING to prove the winner, heard of 0 s ago.",
        ),
        (
            Part(ALPHA, 12, 9, running=3, quiet_s=86_400, lease_s=60, given_up=(4, 7), late=1),
            (
                "alpha: 12 trials, 9 measured; RUNNING trial 3, but no sign of life for 24 h; "
                "given up because nothing was heard of it: trial 4, 7; 1 result came late."
            ),
        ),
    ],
)
def test_each_worker_has_a_sentence(part: Part, said: str) -> None:
    assert worker_lines([part]) == [said]


def test_a_silent_worker_is_not_at_work() -> None:
    assert Part(ALPHA, 1, 0, running=3, quiet_s=59, lease_s=60).works
    assert Part(ALPHA, 1, 0, running=3, lease_s=60).works
    assert not Part(ALPHA, 1, 0, running=3, quiet_s=61, lease_s=60).works
    assert not Part(ALPHA, 1, 1, heard_s=AT_S, lease_s=60).works


def test_why_a_rig_is_apart_is_said_without_its_host_twice() -> None:
    apart = Part(BETA, 3, 3, heard_s=AT_S, apart="beta: it makes -12.0% of what the first makes")
    (line,) = worker_lines([apart])
    assert line.endswith("; set apart: it makes -12.0% of what the first makes.")
    (row,) = workers_table([apart]).rows
    assert row[0] == "beta"
    assert row[-1] == "it makes -12.0% of what the first makes"


def test_workers_of_one_host_have_their_marks() -> None:
    twin = Worker("c1b2c3d4e5f6", "alpha")
    parts = [Part(ALPHA, 1, 0), Part(BETA, 1, 0), Part(twin, 1, 0)]
    assert [line.partition(":")[0] for line in worker_lines(parts)] == [
        "alpha [a1b2c3]",
        "beta",
        "alpha [c1b2c3]",
    ]
    assert [row[0] for row in workers_table(parts).rows] == ["alpha [a1b2c3]", "beta", "alpha [c1b2c3]"]
