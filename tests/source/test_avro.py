"""Values in Avro: the type in Spark follows from the schema, and bodies are decoded all at once or one by one."""

from __future__ import annotations

import importlib.util
import json
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO

import pytest

from rocketpy.errors import ConfigError, SerializationError
from rocketpy.spark.source.avro_types import spark_type
from rocketpy.spark.source.entry import schema_of, with_schema
from rocketpy.spark.source.options import batch_options
from rocketpy.spark.source.shape import Shape
from tests.interop.requirement import require
from tests.source.test_values import columns_of

NEEDED = {"namesrv": "a:1", "subscribe": "T", "columns": "offset,value", "valueFormat": "avro"}
ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "exact", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]},
            },
        },
        {"name": "counts", "type": {"type": "map", "values": ["null", "Line"]}},
    ],
}
NOON = datetime(2026, 11, 28, 12, 0, 0, 125_000, UTC)
VALUE = {
    "id": 7,
    "note": None,
    "day": date(2026, 11, 28),
    "at": NOON,
    "exact": NOON.replace(microsecond=125_001),
    "price": Decimal("19.90"),
    "state": "PAID",
    "lines": [{"sku": "a"}, {"sku": "b"}],
    "counts": {"x": {"sku": "c"}, "y": None},
}
NO_FASTAVRO = "no fastavro in this environment: it is in the group test"


@pytest.fixture
def fastavro():
    require(None if importlib.util.find_spec("fastavro") else NO_FASTAVRO)
    import fastavro

    return fastavro


@pytest.fixture
def written(fastavro):
    def write(schema, value):
        stream = BytesIO()
        fastavro.schemaless_writer(stream, schema, value)
        return stream.getvalue()

    return write


@pytest.fixture
def decoded(pyarrow, fastavro):
    from rocketpy.spark.source.values import values_of

    def decode(schema, bodies, kind, **shape):
        made = values_of(Shape(value_format="avro", value_schema=json.dumps(schema), **shape), kind)
        found = made(bodies, columns_of(bodies))
        assert found.type == kind
        return found.to_pylist()

    return decode


TYPES = [
    ("int", "int"),
    ("long", "bigint"),
    (["null", "double"], "double"),
    (["int", "null", "long"], "bigint"),
    (["double", "float"], "double"),
    ({"type": "fixed", "name": "Id", "size": 16}, "binary"),
    ({"type": "string", "logicalType": "uuid"}, "string"),
    ({"type": "string", "logicalType": "of our own"}, "string"),
    ({"type": "string", "logicalType": "date"}, "string"),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp_ntz"),
    ({"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 4}, "decimal(4,0)"),
    ({"type": "map", "values": {"type": "array", "items": "bytes"}}, "map<string,array<binary>>"),
]


@pytest.mark.parametrize(("schema", "kind"), TYPES, ids=str)
def test_types(fastavro, schema, kind):
    assert spark_type(json.dumps(schema)) == kind


def test_the_type_of_a_record(fastavro):
    assert spark_type(json.dumps(ORDER)) == (
        "struct<`id`:bigint,`note`:string,`day`:date,`at`:timestamp,`exact`:timestamp,`price`:decimal(9,2),"
        "`state`:string,`lines`:array<struct<`sku`:string>>,`counts`:map<string,struct<`sku`:string>>>"
    )
    options = {**NEEDED, "valueSchema": json.dumps("int")}
    assert schema_of(options) == "`offset` bigint, `value` int"


def record(*fields):
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}


REFUSED = [
    ("{", "not JSON"),
    ('"strin"', "not an Avro schema: UnknownType"),
    ('{"name": "R"}', "not an Avro schema: KeyError"),
    ('["int", "string"]', "the value is a union of 2 types"),
    (["null"], "union of 0 types"),
    ("null", "always null"),
    (record(), "without fields"),
    (record(("a", "int"), ("A", "int")), "differ only in case"),
    (record(("next", ["null", "R"])), "next has the type R, which contains itself"),
    ({"type": "fixed", "name": "F", "size": 0}, "no content"),
    (record(("t", {"type": "int", "logicalType": "time-millis"})), "t has the logical type time-millis.*read as int"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "between 1 and 38"),
    ({"type": "bytes", "logicalType": "decimal"}, "precision None"),
]


@pytest.mark.parametrize(("schema", "said"), REFUSED, ids=str)
def test_schemas_that_spark_has_no_type_for(fastavro, schema, said):
    text = schema if isinstance(schema, str) and schema[0] in '{["' else json.dumps(schema)
    with pytest.raises(ConfigError, match=said):
        spark_type(text)


def test_without_fastavro_the_driver_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ConfigError, match=r"rocketpy\[avro\]"):
        schema_of({**NEEDED, "valueSchema": '"boolean"'})


class Field:
    """As PySpark describes a column."""

    nullable = True

    def __init__(self, name, kind):
        self.name = name
        self.dataType = self
        self.simpleString = lambda: kind


def test_a_schema_of_the_users_own_has_the_type_of_the_values(fastavro):
    options = batch_options({**NEEDED, "valueSchema": json.dumps(record(("a", "int")))})
    given = Field("", "")
    given.fields = [Field("value", "struct<a:int>")]
    assert with_schema(options, given).shape.columns == ("value",)
    given.fields = [Field("value", "struct<a:bigint>")]
    with pytest.raises(ConfigError, match="gives struct<a:int>"):
        with_schema(options, given)


def order_type(pa):
    line = pa.struct([("sku", pa.string())])
    moment = pa.timestamp("us", "UTC")
    return pa.struct(
        [
            ("id", pa.int64()),
            ("note", pa.string()),
            ("day", pa.date32()),
            ("at", moment),
            ("exact", moment),
            ("price", pa.decimal128(9, 2)),
            ("state", pa.string()),
            ("lines", pa.list_(line)),
            ("counts", pa.map_(pa.string(), line)),
        ]
    )


def test_values(decoded, written, pyarrow):
    body = written(ORDER, VALUE)
    found = decoded(ORDER, [body, body], order_type(pyarrow))
    assert found == [{**VALUE, "counts": list(VALUE["counts"].items())}] * 2
    assert decoded(ORDER, [], order_type(pyarrow)) == []
    assert decoded(["null", "string"], [b"\x00", b"\x02\x02a"], pyarrow.string()) == [None, "a"]
    uuid = {"type": "string", "logicalType": "uuid"}
    assert decoded(uuid, [b"\x02a"], pyarrow.string()) == ["a"]


BAD = [b"", b"\x02", b"\x02\x02ab", b"\x02\x02a\x00", b"\x02\x04\xff\xfe", b"\x80" * 20, b"\x02\xff\xff\xff\xff\x1f"]


@pytest.mark.parametrize("bad", BAD)
def test_bad_values_fail_with_their_place_or_are_null(decoded, pyarrow, bad):
    schema = record(("a", "int"), ("b", "string"))
    kind = pyarrow.struct([("a", pyarrow.int32()), ("b", pyarrow.string())])
    bodies = [b"\x02\x02x", bad, b"\x04\x02y"]
    with pytest.raises(SerializationError, match="message at offset 1 is not Avro written with the schema"):
        decoded(schema, bodies, kind)
    assert decoded(schema, bodies, kind, bad_values="null") == [{"a": 1, "b": "x"}, None, {"a": 2, "b": "y"}]


def test_numbers_beyond_their_type_are_bad(decoded, written, pyarrow):
    body = written("long", 2**40)
    assert decoded("int", [body], pyarrow.int32(), bad_values="null") == [None]
    money = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    large = written({**money, "precision": 9}, Decimal("12345.67"))
    assert decoded(money, [large], pyarrow.decimal128(4, 2), bad_values="null") == [None]
    late = written("long", 2**60)
    moment = {"type": "long", "logicalType": "timestamp-millis"}
    assert decoded(moment, [late], pyarrow.timestamp("us", "UTC"), bad_values="null") == [None]
