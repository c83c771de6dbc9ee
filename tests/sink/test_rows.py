"""Rows of any kind become messages by the names of their columns."""

from __future__ import annotations

import json
import pickle
from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import msgpack
import pytest

from rocketpy import ConfigError, Message
from rocketpy.spark.rows import BadRow, RowMapping
from tests.serialization.rows import Row

Order = namedtuple("Order", ["value", "keys"])  # noqa: PYI024 - as users of RDDs write it


def message_of(row: object, **settings: Any) -> Message:
    message = RowMapping(**{"topic": "Orders", **settings}).to_message()(row)
    assert message is not None
    return message


def bad_row(row: object, **settings: Any) -> BadRow:
    with pytest.raises(BadRow) as caught:
        message_of(row, **settings)
    return caught.value


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        (Row(value=b"paid", keys="AA-1"), {}),
        (Row(id="AA-1", other=7, payload=b"paid"), {"value": "payload", "keys": "id"}),
        (Row(payload=b"paid", value=b"not this", keys="AA-1"), {"value": "payload"}),
        (Order(b"paid", "AA-1"), {}),
        ({"value": b"paid", "keys": "AA-1"}, {}),
        ({"keys": "AA-1", "v": bytearray(b"paid"), "more": None}, {"value": "v"}),
        ((b"paid", "AA-1"), {"value": 0, "keys": 1}),
        (("AA-1", b"paid", None), {"value": 1, "keys": 0, "tags": 2}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, Mapping) else None,
)
def test_a_row_of_any_kind_becomes_a_message(row: object, columns: Mapping[str, str | int]) -> None:
    message = message_of(row, columns=columns)
    assert (message.topic, message.body, message.keys) == ("Orders", b"paid", ("AA-1",))
    assert message.wire_properties == {"WAIT": "true", "KEYS": "AA-1"}
    assert type(message.body) is bytes


def test_every_part_of_a_message_can_come_from_a_column() -> None:
    row = Row(
        topic="Orders", value=b"paid", tags="new", keys=["AA-1", "AA-2"], properties={"carrier": "UA"},
        sharding_key="UA", delay_level=3, deliver_at=None, wait_store_ok=False,
    )  # fmt: skip
    message = message_of(row, topic=None)
    assert (message.topic, message.body, message.tags, message.keys) == ("Orders", b"paid", "new", ("AA-1", "AA-2"))
    assert (message.sharding_key, message.delay_level, message.wait_store_ok) == ("UA", 3, False)
    assert message.properties["carrier"] == "UA"


@pytest.mark.parametrize("body", [b"paid", bytearray(b"paid"), memoryview(b"paid")])
def test_a_message_of_a_row_is_one_as_any_other(body: bytes) -> None:
    message, other = message_of(Row(value=body, keys="AA-1")), Message("Orders", b"paid", keys="AA-1")
    assert type(message) is Message
    assert {name: getattr(message, name) for name in Message.__slots__} == {
        name: getattr(other, name) for name in Message.__slots__
    }
    assert [type(getattr(message, name)) for name in Message.__slots__] == [
        type(getattr(other, name)) for name in Message.__slots__
    ]


def test_what_is_null_is_left_out() -> None:
    row = Row(
        value=b"paid", tags=None, keys=None, properties=None, sharding_key=None, delay_level=None, deliver_at=None,
        wait_store_ok=None,
    )  # fmt: skip
    assert message_of(row).wire_properties == {"WAIT": "true"}


def test_a_part_may_be_turned_off_and_no_column_gives_it() -> None:
    row = Row(value=b"paid", tags=["no", "tag"], keys="AA-1")
    assert message_of(row, columns={"tags": None}).wire_properties == {"WAIT": "true", "KEYS": "AA-1"}


# --- topics -------------------------------------------------------------------------------------------


def test_one_topic_for_all_wins_over_a_column_that_is_called_topic() -> None:
    assert message_of(Row(topic="from-elsewhere", value=b"paid"), topic="Orders").topic == "Orders"


def test_a_column_that_is_named_for_the_topic_wins_where_it_is_not_null() -> None:
    to_message = RowMapping(topic="Others", columns={"topic": "to"}).to_message()
    topics = [to_message(Row(to=to, value=b"paid")).topic for to in ("Orders", None, "", "Bills")]
    assert topics == ["Orders", "Others", "Others", "Bills"]


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (None, "the topic is null or empty: fill the column, or give one topic for all rows"),
        ("", "the topic is null or empty: fill the column, or give one topic for all rows"),
        (7, "the topic is of the type int: give a string"),
        (
            "SCHEDULE_TOPIC_XXXX",
            "clients cannot send to the topic SCHEDULE_TOPIC_XXXX: only the broker writes to it",
        ),
    ],
)
def test_a_topic_that_cannot_be_sent_to_is_a_bad_row(topic: object, reason: str) -> None:
    error = bad_row(Row(topic=topic, value=b"paid"), topic=None)
    assert (error.reason, error.skippable) == (reason, True)


def test_a_topic_has_the_letters_that_topics_have() -> None:
    assert "a/b" in bad_row(Row(topic="a/b", value=b"paid"), topic=None).reason
    with pytest.raises(ConfigError, match="a/b"):
        RowMapping(topic="a/b")


# --- values -------------------------------------------------------------------------------------------


def test_the_formats_of_values() -> None:
    assert message_of(Row(value="zażółć"), value_format="string").body == "zażółć".encode()
    assert message_of(Row(value=17), value_format="string").body == b"17"
    assert json.loads(message_of(Row(value=Row(a=1, b=[None, "x"])), value_format="json").body) == {
        "a": 1,
        "b": [None, "x"],
    }
    assert msgpack.unpackb(message_of(Row(value={"a": b"\0"}), value_format="msgpack").body) == {"a": b"\0"}


class Doubled:
    """A serializer of the user's own."""

    name = "doubled"

    def encode(self, value: object) -> bytes:
        return bytes(value) * 2  # type: ignore[call-overload]

    def decode(self, body: bytes) -> object:
        return body


def test_a_value_format_of_ones_own() -> None:
    assert message_of(Row(value=b"ab"), value_format=Doubled()).body == b"abab"


def test_a_value_format_of_ones_own_that_fails_is_no_bad_row_to_skip() -> None:
    error = bad_row(Row(value="text", keys="AA-1"), value_format=Doubled())
    assert (error.reason, error.skippable) == ("the value format failed with TypeError: see the cause", False)
    assert error.keys == ("AA-1",)
    assert isinstance(error.__cause__, TypeError)


class OtherBinary(Doubled):
    """Has the name of a format of ours, and is another."""

    name = "binary"


def test_a_value_format_of_ones_own_may_have_any_name() -> None:
    assert message_of(Row(value=b"ab"), value_format=OtherBinary()).body == b"abab"


class NoBytes(Doubled):
    def encode(self, value: object) -> Any:
        return "text"


def test_a_value_format_of_ones_own_has_to_give_bytes() -> None:
    error = bad_row(Row(value=b"x"), value_format=NoBytes())
    assert (str(error.__cause__), error.skippable) == ("a value format must return bytes, not str", False)


@pytest.mark.parametrize("format_", ["binary", "string", "json", "msgpack"])
def test_null_is_no_value_in_any_format(format_: str) -> None:
    error = bad_row(Row(keys="AA-1", value=None), value_format=format_)
    assert str(error.at(17, 3)) == (
        "row 17 of partition 3 (keys 'AA-1'): the value is null, and RocketMQ accepts no message without a body: "
        'filter such rows out, or skip them with bad_rows="skip"'
    )
    assert error.skippable


@pytest.mark.parametrize(("format_", "value"), [("binary", b""), ("binary", bytearray()), ("string", "")])
def test_an_empty_value_is_a_bad_row(format_: str, value: object) -> None:
    error = bad_row(Row(keys=["AA-1", 2], value=value), value_format=format_)
    assert error.reason.startswith("the value is empty")
    assert (error.keys, error.skippable) == (("AA-1", "2"), True)


def test_a_value_of_the_wrong_type_says_so_and_never_what_it_is() -> None:
    error = bad_row(Row(keys="AA-1", value="a secret"))
    assert "str" in error.reason
    assert "secret" not in str(error)
    assert error.skippable


def test_the_whole_row_is_an_object_of_its_columns() -> None:
    row = Row(year=2013, carrier="UA", tags="data", topic="data", delay=None)
    message = message_of(row, columns={"value": "*", "keys": "carrier"}, value_format="json")
    assert json.loads(message.body) == {"year": 2013, "carrier": "UA", "tags": "data", "topic": "data", "delay": None}
    assert message.wire_properties == {"WAIT": "true", "KEYS": "UA"}


@pytest.mark.parametrize(
    ("row", "format_", "body"),
    [
        ({"a": 1}, "json", b'{"a":1}'),
        (Order("v", "k"), "json", b'{"value":"v","keys":"k"}'),
        (("a", 1), "json", b'["a",1]'),
        ("line", "string", b"line"),
        (b"raw", "binary", b"raw"),
    ],
)
def test_the_whole_row_where_it_is_no_row_of_a_data_frame(row: object, format_: str, body: bytes) -> None:
    assert message_of(row, columns={"value": "*"}, value_format=format_).body == body


def test_a_row_without_columns_is_no_value_as_null() -> None:
    assert bad_row(None, columns={"value": "*"}, value_format="json").reason.startswith("the value is null")


# --- columns that are not there -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "settings", "reason"),
    [
        (
            Row(a=b"1", b=2),
            {},
            "there is no column 'value' for the value; the columns are 'a', 'b': name another with "
            'columns={"value": ...}, or send whole rows with columns={"value": "*"} and value_format="json"',
        ),
        (
            Row(value=b"1"),
            {"columns": {"keys": "id"}},
            "there is no column 'id' for the keys; the columns are 'value': name another with columns={\"keys\": ...}",
        ),
        (
            Row(value=b"1"),
            {"topic": None},
            "there is no column 'topic' for the topic; the columns are 'value': give one topic for all rows, or name "
            "the column",
        ),
        (
            (b"1", 2),
            {},
            "there is no column 'value' for the value; the columns are 0, 1: the columns of tuples have no names, "
            "so give positions",
        ),
        (
            Row(value=b"1"),
            {"columns": {"keys": 0}},
            "there is no column 0 for the keys; the columns are 'value': name another with columns={\"keys\": ...}",
        ),
        (
            "a line",
            {},
            "a row is a single value without columns, so there is no 'value' for the value: use it as the value with "
            'columns={"value": "*"}, or give to_message',
        ),
        (Row.of(["value", "value"], [b"1", b"2"]), {}, "there are several columns 'value': rename them (alias)"),
        (
            Row(a=1),
            {"columns": {"value": "*"}, "value_format": "string"},
            'a whole row is not a single value: choose value_format="json" or "msgpack"',
        ),
    ],
)
def test_a_missing_column_is_an_error_that_lists_those_there_are(
    row: object, settings: dict[str, Any], reason: str
) -> None:
    error = bad_row(row, **settings)
    assert (error.reason, error.skippable) == (reason, False)


def test_columns_can_be_looked_up_before_there_are_rows() -> None:
    mapping = RowMapping(topic="Orders", columns={"keys": "id"})
    message = mapping.compile(["value", "id"])((b"paid", "AA-1"))
    assert (message.body, message.keys) == (b"paid", ("AA-1",))
    with pytest.raises(ConfigError, match="no column 'id' for the keys; the columns are 'value'"):
        mapping.compile(["value"])


def test_columns_are_looked_up_again_where_rows_differ() -> None:
    to_message = RowMapping(topic="Orders", columns={"tags": None}).to_message()
    rows = [
        Row(value=b"1", keys="a"), Row(keys="b", value=b"2"), {"value": b"3"}, (None, b"4"), Row(value=b"5", keys="e"),
    ]  # fmt: skip
    found = []
    for row in rows:
        try:
            message = to_message(row)
        except BadRow:
            found.append(None)
        else:
            found.append((message.body, message.keys))
    assert found == [(b"1", ("a",)), (b"2", ("b",)), (b"3", ()), None, (b"5", ("e",))]


def test_a_dict_may_leave_out_what_is_null() -> None:
    assert message_of({"value": b"x"}, columns={"keys": "id", "tags": "kind"}).wire_properties == {"WAIT": "true"}
    error = bad_row({"keys": "AA-1"})
    assert error.reason.startswith("there is no column 'value' for the value; the columns are 'keys'")
    assert error.skippable


def test_a_dict_without_a_topic_goes_where_the_sink_says() -> None:
    row = {"value": b"x"}
    assert message_of(row, topic="Others", columns={"topic": "to"}).topic == "Others"
    assert "no column 'to' for the topic" in bad_row(row, topic=None, columns={"topic": "to"}).reason


def test_a_row_may_have_fewer_values_than_columns() -> None:
    """PySpark lets a class of rows be called with too few values."""
    error = bad_row(Row.of(["value", "keys"], [b"x"]))
    assert (error.reason, error.skippable) == ("the row has 1 values for its 2 columns: fill it up with nulls", True)


def test_dicts_of_many_shapes_are_all_read() -> None:
    to_message = RowMapping(topic="Orders", columns={"keys": "id"}).to_message()
    for _ in range(2):
        for number in range(250):
            row = {f"other-{number}": None, "value": b"%d" % number} | ({"id": number} if number % 2 else {})
            message = to_message(row)
            assert (message.body, message.keys) == (b"%d" % number, (str(number),) if number % 2 else ())


# --- functions ----------------------------------------------------------------------------------------


def test_a_function_makes_messages_and_leaves_rows_out() -> None:
    to_message = RowMapping(function=lambda row: Message("Orders", row["v"]) if row["v"] else None).to_message()
    assert to_message({"v": b"paid"}).body == b"paid"
    assert to_message({"v": b""}) is None


def test_a_function_that_fails_is_no_bad_row_to_skip() -> None:
    error = bad_row({"v": "a secret"}, topic=None, function=lambda row: int(row["v"]))
    assert (error.reason, error.skippable) == ("to_message failed with ValueError: see the cause", False)
    assert isinstance(error.__cause__, ValueError)


def test_a_message_that_a_function_cannot_make_is_a_bad_row() -> None:
    error = bad_row({}, topic=None, function=lambda row: Message("Orders", b""))
    assert (error.reason, error.skippable) == (
        "the body is empty: RocketMQ refuses messages without a body",
        True,
    )


def test_a_function_returns_a_message_or_none() -> None:
    error = bad_row({}, topic=None, function=lambda row: (row, 1))
    assert (error.reason, error.skippable) == (
        "to_message returned a tuple: return a Message, or None to skip the row",
        False,
    )


def test_a_message_that_is_filled_in_anew_for_every_row_is_refused() -> None:
    message = Message("Orders", b"x")

    def fill(row: dict[str, bytes]) -> Message:
        message.body = row["v"]
        return message

    to_message = RowMapping(function=fill).to_message()
    assert to_message({"v": b"one"}) is message
    with pytest.raises(BadRow, match="make a new one for every row") as caught:
        to_message({"v": b"two"})
    assert not caught.value.skippable


def test_messages_that_are_filled_in_by_turns_are_refused() -> None:
    messages = [Message("Orders", b"x"), Message("Orders", b"y"), Message("Orders", b"z")]

    def fill(row: dict[str, bytes]) -> Message:
        message = messages[len(row["v"]) % 3]
        message.body = row["v"]
        return message

    to_message = RowMapping(function=fill).to_message()
    for size in (1, 2, 3):
        to_message({"v": b"x" * size})
    with pytest.raises(BadRow, match="the Message of an earlier row again"):
        to_message({"v": b"xxxx"})


# --- the mapping itself -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"columns": {"body": "b"}}, "a message has no part 'body'; columns can give topic, value, tags, keys,"),
        ({"columns": {"value": None}}, "a message needs a value"),
        ({"topic": None, "columns": {"topic": None}}, "a message needs a topic"),
        ({"columns": {"keys": "*"}}, r"the whole row \(\*\) can be the value, not the keys"),
        ({"columns": {"keys": ["a", "b"]}}, r"the column of the keys is \['a', 'b'\]: give its name, or its position"),
        ({"columns": {"keys": True}}, "the column of the keys is True"),
        ({"value_format": "xml"}, "xml"),
        ({"function": 7}, "to_message is of the type int: give a function of a row"),
        ({"columns": "payload"}, "columns is of the type str: give parts of a message and their columns"),
        ({"columns": ["payload", "id"]}, "columns is of the type list"),
        ({"function": len, "columns": {"keys": "a"}}, "leave topic, columns and value_format out"),
        ({"function": len, "topic": "Orders"}, "leave topic, columns and value_format out"),
        ({"function": len, "value_format": "json"}, "leave topic, columns and value_format out"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_at_once(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        RowMapping(**{"topic": "Orders", **settings} if "function" not in settings else settings)


@pytest.mark.parametrize("value_format", ["json", Doubled()])
def test_a_mapping_travels(value_format: Any) -> None:
    columns = {"value": "v"}
    mapping = RowMapping(topic="Orders", columns=columns, value_format=value_format)
    columns["value"] = "changed later"
    again = pickle.loads(pickle.dumps(mapping))
    assert (again.topic, again.columns) == ("Orders", {"value": "v"})
    assert again.to_message()(Row(v=b"ab" if value_format != "json" else 1)).topic == "Orders"


def test_the_error_of_a_bad_row_travels() -> None:
    error = bad_row(Row(value=None, keys="AA-1"))
    again = pickle.loads(pickle.dumps(error))
    assert (again.reason, again.keys, again.skippable) == (error.reason, ("AA-1",), True)
