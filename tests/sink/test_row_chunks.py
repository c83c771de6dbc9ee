"""Rows that are encoded many at a time have the bytes, frames and errors of rows that are encoded one by one."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.spark import partition
from rocketpy.spark.row_chunks import FEW, EncodeChunk, chunk_encoder
from rocketpy.spark.rows import RowMapping
from rocketpy.spark.settings import SinkConfig
from rocketpy.wire.message_columns import MessageColumns
from tests.serialization.rows import Row
from tests.sink.test_encoded_rows import PRODUCER, ROWS, written

KEYS = st.none() | st.text("ab1 ", min_size=1, max_size=5).filter(str.strip)
PLAIN = st.tuples(KEYS, st.just("t"), st.binary(min_size=1))
MIXED = st.lists(PLAIN, min_size=FEW + 1, max_size=40)
ONE = [("k", "t", b"v")] * (FEW + 4)


def rows_of(given_rows: list[Any], *columns: str) -> list[Row]:
    return [Row.of(list(columns), list(each)) for each in given_rows]


def frames(rows: list[Any], *, together: bool, columns: list[str] | None = None, **settings: Any) -> tuple[Any, ...]:
    """The frames of rows, and how many were left out; or the error."""
    config = SinkConfig(mapping=RowMapping(topic="T"), producer=PRODUCER, **settings)
    with mock.patch.object(partition, "FEW", FEW if together else len(rows)):
        try:
            made, counts = written(rows, config, columns=columns)
        except Exception as error:  # noqa: BLE001  whatever it is, it must be the same
            return type(error), str(error)
    assert all(isinstance(each, MessageColumns) for each in made)
    parts = [(each.bodies, each.properties, each.unique_ids) for each in made if isinstance(each, MessageColumns)]
    return [tuple(map(list, (bodies, texts, ids or ()))) for bodies, texts, ids in parts], counts.skipped


@pytest.mark.slow
@given(MIXED, st.lists(st.tuples(st.integers(0, 39), ROWS), max_size=2), st.booleans(), st.sampled_from([20, 33, 1024]))
def test_frames_are_the_same_together_and_one_by_one(
    plain: list[Any], odd: list[tuple[int, Any]], skip: bool, batch_size: int
) -> None:
    given_rows = [(key, tag, None, value) for key, tag, value in plain]
    for place, row in odd:
        given_rows.insert(place, row)
    rows = rows_of(given_rows, "keys", "tags", "properties", "value")
    settings = {"batch_size": batch_size, "provenance": True, "bad_rows": "skip" if skip else "fail"}
    assert frames(rows, together=True, **settings) == frames(rows, together=False, **settings)


@pytest.mark.slow
@given(MIXED, st.sampled_from([20, 1024]), st.booleans())
def test_plain_tuples_with_given_columns_are_the_same(plain: list[Any], batch_size: int, large: bool) -> None:
    columns = ["keys", "tags", "value"]
    rows = [(key, tag, value * (400 if large else 1)) for key, tag, value in plain]
    settings = {"batch_size": batch_size, "columns": columns}
    assert frames(rows, together=True, **settings) == frames(rows, together=False, **settings)


def encoder(columns: list[str] | None = None, **settings: Any) -> EncodeChunk:
    made = chunk_encoder(RowMapping(topic="T", **settings), columns)
    assert made is not None
    return made


def test_usual_rows_are_encoded_together_whatever_columns_are_beside() -> None:
    both = [b"v"] * len(ONE), ["WAIT\x01true\x02TAGS\x01t\x02KEYS\x01k\x02"] * len(ONE)
    for columns, rows in ((None, rows_of(ONE, "keys", "tags", "value")), (["keys", "tags", "value"], ONE)):
        made = encoder(columns)(rows)
        assert made is not None
        assert tuple(map(list, made)) == both
    rows = rows_of([("k", None, "ä", 7)] * 20, "keys", "tags", "value", "unused")
    made = encoder(value_format="string")(rows)
    assert made is not None
    assert made[0][19] == "ä".encode()
    assert made[1][19] == "WAIT\x01true\x02KEYS\x01k\x02"


def test_a_column_may_be_null_in_some_rows() -> None:
    made = encoder(["keys", "value"])([("k", b"v")] * 20 + [(None, b"v")])
    assert made is not None
    assert list(made[1]) == ["WAIT\x01true\x02KEYS\x01k\x02"] * 20 + ["WAIT\x01true\x02"]


@pytest.mark.parametrize(
    "row",
    [("", "t", b"v"), (" ", "t", b"v"), ("k", "t", b""), ("k", "t", "v"), ("k", "t", None),
     ("k\x01", "t", b"v"), ("\ud800", "t", b"v"), (["k"], "t", b"v"), ("k", "t"), ("k", "t", b"v", 1), ("k", 7, b"v")],
)  # fmt: skip
def test_one_unusual_row_sends_its_chunk_the_other_way(row: tuple[Any, ...]) -> None:
    columns = ["keys", "tags", "value"]
    assert encoder(columns)([*ONE, row]) is None
    assert encoder()([*rows_of(ONE, *columns), Row.of(columns, list(row))]) is None


def test_rows_of_other_kinds_go_the_other_way() -> None:
    assert encoder()([*rows_of(ONE, "keys", "tags", "value"), *rows_of(ONE, "tags", "keys", "value")]) is None
    assert encoder()([{"value": b"v"}] * 20) is None
    assert encoder()([b"v"] * 20) is None
    assert encoder()(rows_of([(b"v", "key")] * 20, "value", "sharding_key")) is None
    assert encoder()(rows_of([("k", "v")] * 20, "keys", "payload")) is None
    assert encoder(value_format="string")(rows_of([("\ud800",)] * 20, "value")) is None


@pytest.mark.parametrize("settings", [{"value_format": "json"}, {"value_format": "msgpack"}])
def test_formats_that_decide_for_each_value_have_no_encoder(settings: dict[str, Any]) -> None:
    assert chunk_encoder(RowMapping(topic="T", **settings), None) is None


def test_a_function_of_the_users_is_called_before_the_next_row_is_read() -> None:
    assert chunk_encoder(RowMapping(function=lambda row: None), None) is None
