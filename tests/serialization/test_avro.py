"""Avro: what is written is read again, and what does not match the schema is refused."""

from __future__ import annotations

import importlib.util
import json
import pickle
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import NamedTuple

import pytest

from rocketpy.errors import ConfigError, SerializationError
from rocketpy.message import Message
from rocketpy.serialization import AvroSerializer, Serializer, serializer
from rocketpy.spark.rows import RowMapping
from tests.interop.requirement import require

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "default": None},
            {
                "name": "place",
                "type": [
                    "null",
                    {"type": "record", "name": "Place", "fields": [{"name": "raw", "type": "bytes"}]},
                ],
                "default": None,
            },
        ],
    }
)


class Place(NamedTuple):
    raw: object


class Order(NamedTuple):
    id: int
    note: str


@pytest.fixture(autouse=True)
def fastavro():
    require(
        None if importlib.util.find_spec("fastavro") else "no fastavro in this environment: it is in the group test"
    )


def test_there_and_back():
    form = AvroSerializer(SCHEMA)
    assert isinstance(form, Serializer)
    body = form.encode({"id": 1, "day": date(2026, 11, 28), "place": Place(bytearray(b"x"))})
    assert form.decode(body) == {"id": 1, "note": None, "day": date(2026, 11, 28), "place": {"raw": b"x"}}
    assert pickle.loads(pickle.dumps(form)) == form == serializer(form)


@pytest.mark.parametrize(
    "value", [{}, {"id": "1"}, {"id": 1, "note": 5}, {"id": 1, "more": 2}, {"id": 1, "place": {}}, [1], None]
)
def test_values_that_do_not_match(value):
    with pytest.raises(SerializationError, match="does not match the Avro schema"):
        AvroSerializer(SCHEMA).encode(value)


@pytest.mark.parametrize("body", [b"", b"\x02", b"\x02\x00\x00\x00\x00", b"\x02\x08"])
def test_bodies_that_do_not_match(body):
    with pytest.raises(SerializationError, match="is not Avro written with the schema"):
        AvroSerializer(SCHEMA).decode(body)


def test_logical_types():
    form = AvroSerializer('{"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}')
    assert form.decode(form.encode(Decimal("19.90"))) == Decimal("19.90")
    moment = datetime(2026, 11, 28, 12, 0, 0, 125, UTC)
    form = AvroSerializer('{"type": "long", "logicalType": "timestamp-micros"}')
    assert form.decode(form.encode(moment)) == moment


def test_a_row_becomes_a_record():
    mapping = RowMapping(topic="Orders", columns={"value": "*"}, value_format=AvroSerializer(SCHEMA))
    message = mapping.to_message()(Order(5, "soon"))
    assert isinstance(message, Message)
    assert AvroSerializer(SCHEMA).decode(message.body)["note"] == "soon"


def test_what_is_missing(monkeypatch):
    with pytest.raises(ConfigError, match=r"needs a schema: give AvroSerializer"):
        serializer("avro")
    with pytest.raises(ConfigError, match="type dict: give its JSON"):
        AvroSerializer({"type": "int"})
    with pytest.raises(ConfigError, match="not JSON"):
        AvroSerializer("int")
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ConfigError, match=r"rocketpy\[avro\]"):
        AvroSerializer('"bytes"')
