from __future__ import annotations

import pytest

from tuner.simulate.moves import neighbours, on_grid


@pytest.mark.parametrize(
    ("split", "steps", "expected"),
    [((1, 1), 10, (5, 5)), ((2, 1, 1), 20, (10, 5, 5)), ((1, 1, 1), 20, (7, 7, 6)), ((99, 1), 10, (9, 1))],
)
def test_a_split_on_a_grid_is_near_and_gives_each_device_a_part(
    split: tuple[int, ...], steps: int, expected: tuple[int, ...]
) -> None:
    assert sorted(on_grid(split, steps)) == sorted(expected)
    assert sum(on_grid(split, steps)) == steps


def test_neighbours_move_parts_and_leave_no_device_without() -> None:
    assert set(neighbours((3, 1))) == {(2, 2), (1, 3)}
    assert all(sum(split) == 12 and min(split) > 0 for split in neighbours((4, 4, 4)))
