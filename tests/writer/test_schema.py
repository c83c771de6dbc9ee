"""Schemas: the columns that are picked, and the types that cannot become parts of a message."""

from __future__ import annotations

import pytest

from rocketpy.errors import ConfigError
from rocketpy.spark.writer.entry import checked_write

STRINGS = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}


def array(kind):
    return {"type": "array", "elementType": kind, "containsNull": True}


def struct(*kinds, names=None):
    names = names or [f"f{number}" for number in range(len(kinds))]
    return {"type": "struct", "fields": [{"name": name, "type": kind} for name, kind in zip(names, kinds, strict=True)]}


def test_only_the_columns_that_are_needed_are_picked(write):
    picked = write(
        {"noise": "long", "value": "binary", "topic": "string", "keys": "string", "more": "variant"}
    ).selection
    assert (picked.columns, picked.places) == (("value", "keys"), (1, 3))
    named = write({"a": "long", "b": "string", "keys": "long"}, columns='{"value": "b", "keys": null, "tags": "a"}')
    assert (named.selection.columns, named.selection.places) == (("a", "b"), (0, 1))


def test_columns_of_kafka_users_that_are_ignored_are_named_once(write, caplog):
    kinds = {"key": "string", "value": "binary", "headers": array(struct("string")), "partition": "integer"}
    for _ in range(3):
        write(kinds, topic="From-kafka", streamed=True)
    lines = sorted(record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert [line.split(" of a frame")[0] for line in lines] == [
        "the column headers",
        "the column key",
        "the column partition",
    ]
    for line, used in zip(lines, ("properties", '{"keys": "key"}', '{"sharding_key": "partition"}'), strict=True):
        assert "written to From-kafka is ignored" in line
        assert used in line


@pytest.mark.parametrize(
    "options",
    [
        {"columns": '{"keys": "key", "sharding_key": "partition"}'},
        {"columns": '{"value": "*"}', "valueFormat": "json"},
        {"columns": '{"keys": "key"}', "dedupeKey": "partition", "provenance": "true"},
    ],
)
def test_columns_that_are_used_are_not_named(write, caplog, options):
    write({"key": "string", "value": "string", "partition": "integer"}, topic="All-used", **options)
    assert not caplog.records


def test_a_column_of_topics(write):
    assert write({"value": "binary", "topic": "string"}, topic=None).selection.columns == ("value", "topic")
    both = write({"value": "binary", "target": "string"}, columns='{"topic": "target"}')
    assert both.selection.columns == ("value", "target")


def test_a_whole_row_takes_all_columns(write):
    made = write({"a": "long", "b": STRINGS}, columns='{"value": "*", "keys": "a"}', valueFormat="json")
    assert made.selection.columns == ("a", "b")


def test_times_of_delivery_are_read_as_numbers(write):
    assert write({"value": "binary", "deliver_at": "timestamp"}).selection.moments == {"deliver_at"}
    assert write({"value": "binary", "deliver_at": "timestamp_ntz"}).selection.moments == set()
    twice = write({"value": "binary", "at": "timestamp"}, columns='{"deliver_at": "at", "keys": "at"}')
    assert twice.selection.moments == set()


GOOD = [
    ("tags", "string"),
    ("tags", "decimal(10,2)"),
    ("tags", "void"),
    ("tags", "interval day to second"),
    ("keys", array("string")),
    ("keys", array("long")),
    ("keys", "time(6)"),
    ("properties", STRINGS),
    ("properties", struct("string", "long", "void")),
    ("sharding_key", "date"),
    ("delay_level", "byte"),
    ("deliver_at", "timestamp"),
    ("deliver_at", "timestamp_ntz"),
    ("deliver_at", "long"),
    ("wait_store_ok", "boolean"),
]


def test_a_frame_without_columns_has_no_values():
    options = {"namesrv": "127.0.0.1:9876", "topic": "Orders", "columns": '{"value": "*"}', "valueFormat": "json"}
    with pytest.raises(ConfigError, match="the frame has no columns, so its rows have no value"):
        checked_write(options, {"type": "struct", "fields": []}, streamed=False)


@pytest.mark.parametrize(("part", "kind"), GOOD)
def test_types_of_parts(write, part, kind):
    assert part in write({"value": "binary", part: kind}).selection.columns


BAD = [
    ("tags", "binary", "'tags' has the type binary, and the tags must be a string or another single value"),
    ("tags", array("string"), "array<string>"),
    ("tags", "interval year to month", "interval year to month"),
    ("keys", array("binary"), "or an array of them"),
    ("properties", "string", "a map from strings"),
    ("properties", {**STRINGS, "keyType": "long"}, "map<bigint,string>"),
    ("properties", struct("string", array("string")), "the type struct"),
    ("properties", struct("string", "string", names="aa"), "with different names"),
    ("delay_level", "double", "an integer"),
    ("deliver_at", "date", "a timestamp, or milliseconds"),
    ("wait_store_ok", "string", "a boolean"),
]


@pytest.mark.parametrize(("part", "kind", "said"), BAD)
def test_types_that_cannot_be_parts(write, part, kind, said):
    with pytest.raises(ConfigError, match=said) as error:
        write({"value": "binary", part: kind})
    assert f'{{"{part}": null}}' in str(error.value)


@pytest.mark.parametrize(
    ("value_format", "kind", "fits"),
    [
        ("binary", "binary", True),
        ("binary", "string", False),
        ("binary", "void", False),
        ("string", "double", True),
        ("string", "varchar(10)", True),
        ("string", "binary", False),
        ("string", struct("string"), False),
        ("json", struct("string", array(STRINGS), "binary"), True),
        ("json", struct("string", "string", names="aa"), False),
        ("json", {**STRINGS, "keyType": array("long")}, False),
        ("json", "variant", False),
        ("json", array("interval"), False),
        ("msgpack", "timestamp", True),
        ("msgpack", {"type": "udt", "class": "x", "pyClass": "y", "sqlType": "string"}, False),
    ],
)
def test_types_of_values(write, value_format, kind, fits):
    if fits:
        assert write({"value": kind}, valueFormat=value_format).selection.columns == ("value",)
        return
    with pytest.raises(ConfigError, match=f"with valueFormat {value_format}, must be"):
        write({"value": kind}, valueFormat=value_format)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (
            {"payload": "binary"},
            {},
            r"no column 'value'; the columns are 'payload': name another.*\{\"value\": \"\*\"\}",
        ),
        ({"value": "binary"}, {"columns": '{"keys": "id"}'}, "no column 'id' for the keys; the columns are 'value'"),
        ({"value": "binary"}, {"topic": None}, "the option topic is missing, and there is no column 'topic'"),
        ({"a": "variant"}, {"columns": '{"value": "*"}', "valueFormat": "json"}, "'a' has the type variant"),
    ],
)
def test_columns_that_are_not_there_or_do_not_fit(write, columns, options, said):
    with pytest.raises(ConfigError, match=said):
        write(columns, **options)


def test_columns_of_the_same_name():
    from rocketpy.spark.rows import RowMapping
    from rocketpy.spark.writer.schema import Field, selection

    twice = [Field("value", "binary"), Field("keys", "string"), Field("keys", "string")]
    with pytest.raises(ConfigError, match="several columns 'keys'"):
        selection(RowMapping(topic="T"), twice)
    with pytest.raises(ConfigError, match="several columns 'keys'"):
        selection(RowMapping(topic="T", columns={"value": "*"}, value_format="json"), twice)
    assert selection(RowMapping(topic="T", columns={"keys": None}), twice).columns == ("value",)
