"""Values decoded on the way: JSON of a type, all at once or, if some are bad, one by one."""

from __future__ import annotations

from datetime import date

import pytest

from rocketpy.errors import ConfigError, SerializationError
from rocketpy.spark.source.entry import with_schema
from rocketpy.spark.source.options import stream_options
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


@pytest.mark.parametrize(
    ("type_of", "body", "value"),
    [
        ("binary", b'"aGk="', b"hi"),
        ("binary", b'""', b""),
        ("date32", b'"2020-01-31"', date(2020, 1, 31)),
        ("string", '"Größe"'.encode(), "Größe"),
        ("binary", b"null", None),
        ("date32", b"null", None),
    ],
)
def test_text_stands_for_values_as_in_spark(decoded, pyarrow, type_of, body, value):
    kind = getattr(pyarrow, type_of)()
    assert decoded([body, b"null"], kind) == [value, None]
    items = pyarrow.list_(pyarrow.field("element", kind))
    nested = pyarrow.struct([("v", kind), ("n", pyarrow.int64()), ("more", pyarrow.struct([("items", items)]))])
    bodies = [b'{"v":%b,"n":7,"more":{"items":[%b,null]}}' % (body, body), b'{"more":{}}', b"null", b'{"n":8}']
    assert decoded(bodies, nested) == [
        {"v": value, "n": 7, "more": {"items": [value, None]}},
        {"v": None, "n": None, "more": {"items": None}},
        None,
        {"v": None, "n": 8, "more": None},
    ]


@pytest.mark.parametrize(
    ("type_of", "bad"),
    [
        ("binary", b'"aGk"'),
        ("binary", b'"a-k="'),
        ("binary", '"ä"'.encode()),
        ("binary", b"5"),
        ("date32", b"5"),
        ("date32", b'"soon"'),
        ("date32", b'"2020-02-30"'),
        ("string", '"München"'.encode("latin-1")),
    ],
)
def test_text_that_stands_for_no_value(decoded, pyarrow, type_of, bad):
    kind = pyarrow.struct([("v", getattr(pyarrow, type_of)())])
    bodies = [b"{}", b'{"v":%b}' % bad]
    with pytest.raises(SerializationError, match="message at offset 1 is not JSON"):
        decoded(bodies, kind)
    assert decoded(bodies, kind, bad_values="null") == [{"v": None}, None]


class Type:
    """A type of Spark."""

    def __init__(self, text, **parts):
        self._text = text
        vars(self).update(parts)

    def simpleString(self):
        return self._text


class Field:
    nullable = True

    def __init__(self, kind):
        self.name, self.dataType = "value", kind


def nested(kind):
    """A struct that has an array of a type."""
    array = Type(f"array<{kind.simpleString()}>", elementType=kind)
    return Type(f"struct<a:int,b:{array.simpleString()}>", fields=[Field(Type("int")), Field(array)])


@pytest.mark.parametrize("text", ["map<string,int>", "interval day to second", "interval"])
@pytest.mark.parametrize("around", [lambda kind: kind, nested])
def test_types_that_are_not_read_from_json_fail_on_the_driver(text, around):
    given = {"namesrv": "a:1", "subscribe": "T", "columns": "value", "valueFormat": "json", "valueSchema": "?"}
    schema = Type("", fields=[Field(around(Type(text)))])
    with pytest.raises(ConfigError, match=rf"valueSchema has {text}, .*apply from_json"):
        with_schema(stream_options(given), schema)
    schema.fields = [Field(around(Type("int")))]
    assert with_schema(stream_options(given), schema).shape.columns == ("value",)


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
