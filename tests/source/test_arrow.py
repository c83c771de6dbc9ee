"""Columns of messages whose parts are unusual."""

from __future__ import annotations

import pytest

from rocketpy.message import MessageQueue
from rocketpy.spark.source.shape import Shape
from rocketpy.wire.record_columns import ColumnHead, RecordColumns


@pytest.mark.parametrize("column", ["timestamp", "born_timestamp"])
def test_a_time_that_has_no_room_in_a_column_is_null(pyarrow, column):
    """Anybody may send a message with such a time, and a stream has to get past it."""
    from rocketpy.spark.source.arrow import BatchMaker, arrow_schema

    most = (2**63 - 1) // 1000
    times = [1_700_000_000_000, 2**62, -(2**62), most, most + 1, -most, -most - 1, 2**63 - 1, -(2**63), 0]
    heads = [tuple(ColumnHead(0, 0, 0, offset, 0, 0, time, time, b"", 0)) for offset, time in enumerate(times)]
    columns = RecordColumns(heads=heads, bodies=[b""] * len(times), properties=[b""] * len(times))
    shape = Shape(columns=(column,))
    batch = BatchMaker(shape, MessageQueue("T", "b", 0), arrow_schema(shape), lambda *_: None).batch(columns)
    micros = batch.column(0).cast(pyarrow.int64()).to_pylist()
    assert micros == [None if abs(time) > most else time * 1000 for time in times]
