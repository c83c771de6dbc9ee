"""Positions of messages and numbers of rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.spark.row_numbers import RowNumbers


@given(st.lists(st.booleans(), max_size=60))
def test_every_message_is_found_in_its_row(kept):
    numbers, rows = RowNumbers(), []
    for row, has_message in enumerate(kept, 1):
        if has_message:
            rows.append(row)
        else:
            numbers.leave_out(row)
    assert [numbers.row_of(position) for position in range(len(rows))] == rows


def test_rows_far_into_a_large_partition_are_found():
    numbers = RowNumbers()
    for row in range(2, 200_001, 2):  # every other row
        numbers.leave_out(row)
    assert numbers.left_out == 100_000
    assert [numbers.row_of(position) for position in (0, 1, 70_000, 99_999)] == [1, 3, 140_001, 199_999]
    assert [numbers.row_of(position) for position in (100_000, 100_007)] == [200_001, 200_008]


def test_it_remembers_a_bit_for_each_row_however_many_are_left_out():
    numbers = RowNumbers()
    for row in range(1, 80_001, 2):
        numbers.leave_out(row)
    assert len(numbers._bits) == 10_000
