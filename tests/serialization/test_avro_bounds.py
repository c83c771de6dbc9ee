"""Avro from others: depth and members are bounded before fastavro, which recurses in C, reads anything."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from rocketpy.errors import SerializationError
from rocketpy.serialization import AvroSerializer, avro_bytes
from tests.interop.requirement import require

CHAIN = {"name": "N", "type": "record", "fields": [{"name": "next", "type": ["null", "N"]}]}
TREE = {"name": "T", "type": "record", "fields": [{"name": "parts", "type": {"type": "map", "values": "T"}}]}
ENDLESS = {"name": "E", "type": "record", "fields": [{"name": "same", "type": "E"}]}
EMPTY = {"name": "Empty", "type": "record", "fields": []}
NOTHINGS = {"type": "array", "items": "null"}
LISTS = {"type": "array", "items": {"type": "array", "items": ["null", "long"]}}
MILLION = b"\x80\x89\x7a\x00"


@pytest.fixture(autouse=True)
def fastavro():
    require(
        None if importlib.util.find_spec("fastavro") else "no fastavro in this environment: it is in the group test"
    )


def form(schema, **bounds):
    return AvroSerializer(json.dumps(schema), **bounds)


@pytest.mark.slow
def test_a_deep_body_does_not_end_the_process():
    code = (
        "from rocketpy.serialization import AvroSerializer\n"
        f"form = AvroSerializer({json.dumps(CHAIN)!r})\n"
        "try:\n"
        "    form.decode(bytes([2]) * 100_000 + bytes(1))\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "SerializationError the value in the body is nested deeper than 64 levels\n"


@pytest.fixture
def unread(monkeypatch):
    """fastavro must not be asked to read."""

    class Writer:
        def schemaless_reader(self, *_):
            raise AssertionError("the body was read")

    monkeypatch.setattr(avro_bytes, "fastavro", Writer)


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (CHAIN, b"\x02" * 64 + b"\x00"),
        (["null", CHAIN], b"\x02" * 65 + b"\x00"),
        (TREE, b"\x02\x00" * 64 + b"\x00" * 65),
        (ENDLESS, b""),
    ],
)
def test_depth(unread, schema, body):
    with pytest.raises(SerializationError, match="nested deeper than 64 levels"):
        form(schema).decode(body)


def test_depth_up_to_the_bound():
    value = None
    for _ in range(64):
        value = {"next": value}
    chain = form(CHAIN)
    assert chain.decode(chain.encode(value)) == value
    deeper = form(CHAIN, max_depth=65)
    assert deeper.decode(deeper.encode({"next": value})) == {"next": value}
    with pytest.raises(SerializationError, match="nested deeper than 64 levels"):
        chain.decode(deeper.encode({"next": value}))


def test_a_depth_that_python_cannot_reach(unread):
    with pytest.raises(SerializationError, match="nested deeper than 100000 levels"):
        form(CHAIN, max_depth=100_000).decode(b"\x02" * 50_000 + b"\x00")


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        (NOTHINGS, b"\x82\x89\x7a\x00"),
        (NOTHINGS, b"\x81\x89\x7a\x00\x00"),
        (NOTHINGS, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00"),
        ({"type": "array", "items": EMPTY}, MILLION),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, b"\x82\x89\x7a\x00"),
        ({"type": "map", "values": "int"}, b"\x82\x89\x7a" + b"\x00\x00" * 1_000_001 + b"\x00"),
    ],
)
def test_members(unread, schema, body):
    with pytest.raises(SerializationError, match="more than 1000000 members"):
        form(schema).decode(body)


@pytest.mark.slow
def test_a_million_members():
    assert form(NOTHINGS).decode(MILLION) == [None] * 1_000_000


def test_members_up_to_the_bound():
    order = {"name": "O", "type": "record", "fields": [{"name": "lists", "type": LISTS}, {"name": "id", "type": "int"}]}
    value = {"lists": [[], [None, 5], []], "id": 7}
    body = form(order).encode(value)
    assert form(order, max_members=9).decode(body) == value, "two fields, three lists, two empty ones, two items"
    with pytest.raises(SerializationError, match="more than 8 members"):
        form(order, max_members=8).decode(body)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (["null", "int"], None),
        ("boolean", True),
        ("double", 1.5),
        ("float", 1.5),
        ("long", -(2**63)),
        ("long", 2**63 - 1),
        ("int", -1),
        ("bytes", b"raw" * 50),
        ("string", "Größe"),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "long", "logicalType": "other"}, 5),
        ({"type": "map", "values": ["null", "string"]}, {"a": "b", "": None}),
    ],
)
def test_values_inside_of_records_that_contain_themselves(schema, value):
    again = {"name": "next", "type": ["null", "R"]}
    records = form({"name": "R", "type": "record", "fields": [{"name": "value", "type": schema}, again]})
    whole = {"value": value, "next": {"value": value, "next": None}}
    assert records.decode(records.encode(whole)) == whole


def test_blocks_that_say_their_size():
    body = b"\x01\x0a\x03\x06\x00\x02\x02\x00\x00"
    assert form(LISTS, max_members=3).decode(body) == [[None, 1]]
    with pytest.raises(SerializationError, match="more than 2 members"):
        form(LISTS, max_members=2).decode(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x02",
        b"\x04",
        b"\x01",
        b"\x80",
        b"\x80" * 10,
        b"\xff" * 9 + b"\x02",
        b"\x00\x00",
    ],
)
def test_bodies_that_do_not_match(body):
    with pytest.raises(SerializationError, match="is not Avro written with the schema"):
        form(CHAIN).decode(body)


def test_types_with_names():
    place = {"name": "P", "namespace": "a.b", "type": "record", "fields": [{"name": "x", "type": "int"}]}
    pair = {
        "name": "Pair",
        "type": "record",
        "fields": [
            {"name": "one", "type": place},
            {"name": "other", "type": "a.b.P"},
            {"name": "more", "type": {"type": "map", "values": ["null", "Pair"]}},
        ],
    }
    pairs = form(pair)
    value = {"one": {"x": 1}, "other": {"x": 2}, "more": {"a": None}}
    value = {**value, "more": {"b": value, "c": None}}
    assert pairs.decode(pairs.encode(value)) == value
