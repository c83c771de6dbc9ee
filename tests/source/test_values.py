"""Values decoded on the way: JSON of a type, all at once or, if some are bad, one by one."""

from __future__ import annotations

import pytest

from rocketpy.errors import SerializationError
from rocketpy.spark.source.shape import Shape
from rocketpy.wire.record_columns import ColumnHead, RecordColumns


def columns_of(bodies):
    heads = [ColumnHead(0, 0, 0, offset, 0, 0, 0, 0, b"", 0) for offset in range(len(bodies))]
    return RecordColumns(heads=[tuple(each) for each in heads], bodies=bodies, properties=[b""] * len(bodies))


@pytest.fixture
def decoded(pyarrow):
    from rocketpy.spark.source.values import values_of

    def decode(bodies, kind=None, **shape):
        kind = pyarrow.struct([("a", pyarrow.int32()), ("b", pyarrow.string())]) if kind is None else kind
        made = values_of(Shape(value_format="json", value_schema="?", **shape), kind)
        found = made(bodies, columns_of(bodies))
        assert found.type == kind
        return found.to_pylist()

    return decode


def test_objects(decoded):
    assert decoded([b'{"a": 1, "b": "x"}', b'{"b":\n"y", "more": [1]}', b"null", b"{}"]) == [
        {"a": 1, "b": "x"},
        {"a": None, "b": "y"},
        None,
        {"a": None, "b": None},
    ]
    assert decoded([]) == []


def test_many_and_large_ones(decoded):
    bodies = [b'{"a": %d, "b": "%s"}' % (number, b"x" * 1000) for number in range(3000)]
    assert [row["a"] for row in decoded(bodies)] == list(range(3000))


def test_other_types(decoded, pyarrow):
    assert decoded([b"[1, 2]", b"[]"], pyarrow.list_(pyarrow.int64())) == [[1, 2], []]


BAD = [
    *[b"", b" ", b"nothing", b"1,2", b"}", b'{"a": "x"}', b'{"a": 1', b"\xff", b"[1]"],
    *[b'{"a":1}{"a":2}', b'{"a":1}\n{"a":2}', b'{"a":1},{"a":2}', b'{"a":1}}\n{"value":{"a":2}'],
    # Values with members behind them, which would be fine in the lines that Arrow parses.
    *[b'{"a":1},"x":2', b'{"a":1} ,\n "x":{"a":2}', b'null,"x":2', b' null , "x":2', b'{"a":1},"value":{"a":2}'],
    *[b'{"a":1},"x":"', b'{"a":1},"values":[1', b'{"a":1},"x":2}\n{"y":3', b'{"a":1}],"x":[2'],
]


@pytest.mark.parametrize("bad", BAD)
def test_bad_values_fail_with_their_place_or_are_null(decoded, bad):
    bodies = [b'{"a": 1}', bad, b'{"a": 2}']
    with pytest.raises(SerializationError, match="message at offset 1 is not JSON"):
        decoded(bodies)
    assert decoded(bodies, bad_values="null") == [{"a": 1, "b": None}, None, {"a": 2, "b": None}]


@pytest.mark.parametrize("bad", [b'[1],"x":2', b"[1],[2]", b'null,"x":2', b'[1]],"x":[[2]'])
def test_bad_arrays(decoded, pyarrow, bad):
    assert decoded([b"[1]", bad], pyarrow.list_(pyarrow.int64()), bad_values="null") == [[1], None]


@pytest.mark.parametrize("bad", [b'1,"x":2', b"1,2", b"1}", b'null,"x":2'])
def test_bad_numbers(decoded, pyarrow, bad):
    assert decoded([b"1", bad], pyarrow.int64(), bad_values="null") == [1, None]


def test_values_that_only_look_like_several(decoded, pyarrow):
    kind = pyarrow.struct([("a", pyarrow.struct([("b", pyarrow.int64())])), ("c", pyarrow.string())])
    assert decoded([b'{"a": {"b": 1}, "c": "},\\"x\\":2"}', b'{"c": "}", "a": null}'], kind) == [
        {"a": {"b": 1}, "c": '},"x":2'},
        {"a": None, "c": "}"},
    ]
