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


def test_a_run_of_rows_that_are_left_out_is_remembered_once():
    numbers = RowNumbers()
    for row in range(1, 10_001):
        numbers.leave_out(row)
    assert numbers.row_of(0) == 10_001
    assert len(numbers._positions) == 1
