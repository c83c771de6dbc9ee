"""What may stand in a column, and what becomes of it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy import ConfigError, Message
from rocketpy.errors import SerializationError
from rocketpy.message import RESERVED_PROPERTIES
from rocketpy.spark.columns import FIELDS, PUTS, key_texts
from rocketpy.spark.rows import BadRow, RowMapping
from tests.serialization.rows import Row
from tests.strategies import property_maps, texts, user_properties


def put(field: str, value: object) -> dict[str, str]:
    properties: dict[str, str] = {}
    PUTS[field](properties, value)
    return properties


TEXTS = [
    ("tags", "TAGS", "the tag"),
    ("sharding_key", "__SHARDINGKEY", "the sharding key"),
    ("keys", "KEYS", "the key"),
]
SINGLE = [
    ("AA-1", "AA-1"), ("zażółć", "zażółć"), ("\u200b", "\u200b"), (17, "17"), (-(2**70), str(-(2**70))), (True, "true"),
    (2.5, "2.5"), (Decimal("1.50"), "1.50"), (date(2013, 1, 2), "2013-01-02"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "name", "_what"), TEXTS)
@pytest.mark.parametrize(("value", "text"), SINGLE)
def test_text_may_be_any_single_value(field: str, name: str, _what: str, value: object, text: str) -> None:
    assert put(field, value) == {name: text}


@pytest.mark.parametrize("field", ["tags", "sharding_key", "keys"])
def test_empty_text_stands_for_nothing(field: str) -> None:
    assert put(field, "") == {}


@pytest.mark.parametrize(("field", "_name", "what"), TEXTS)
@pytest.mark.parametrize("value", [b"AA-1", bytearray(b"AA-1"), {"a": 1}, Row(a=1), object()])
def test_text_is_no_other_value(field: str, _name: str, what: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        put(field, value)
    assert str(caught.value) == f"{what} is of the type {type(value).__name__}: cast the column to a string"


@pytest.mark.parametrize(("field", "_name", "what"), TEXTS)
def test_text_that_a_property_cannot_carry_is_refused(field: str, _name: str, what: str) -> None:
    for bad in ("a\x01b", "\x02", "a\ud800"):
        with pytest.raises(ConfigError, match=f"{what} contains a control character"):
            put(field, bad)
    for blank in (" ", "\t\n"):
        with pytest.raises(ConfigError, match=f"{what} is blank"):
            put(field, blank)


# --- keys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["AA-1", "AA-2"], "AA-1 AA-2"),
        (("AA-1",), "AA-1"),
        ([17, None, "", "AA-1"], "17 AA-1"),
        ([], None),
        ([None], None),
        ("AA-1 AA-2", "AA-1 AA-2"),
        (["tab\tinside"], "tab\tinside"),
    ],
)
def test_keys_are_an_array_or_one_text_of_several(value: object, text: str | None) -> None:
    assert put("keys", value) == ({} if text is None else {"KEYS": text})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (["a b"], "the key 'a b' contains a space, which separates keys: it would become several"),
        (["a", " "], "the key is blank: give text, or null for none"),
        ([["a"]], "the key is of the type list: cast the column to a string"),
        (Row(a="x", b="y"), "the key is of the type Row: cast the column to a string"),
    ],
)
def test_keys_that_would_not_be_found_again_are_refused(value: object, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        put("keys", value)
    assert str(caught.value) == reason


@pytest.mark.parametrize("field", ["tags", "keys", "sharding_key", "properties"])
def test_other_characters_that_cannot_be_printed_are_text(field: str) -> None:
    text = "a\tb\u00a0\u200b\U000e0001"
    assert text in put(field, {"name": text} if field == "properties" else [text] if field == "keys" else text).values()


@given(st.lists(texts().filter(lambda text: " " not in text)))
def test_keys_come_back_as_they_were(keys: list[str]) -> None:
    message = RowMapping(topic="Orders").to_message()({"value": b"x", "keys": keys})
    assert message is not None
    assert message.keys == tuple(keys)
    assert key_texts(keys) == tuple(keys)


# --- properties ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [{"carrier": "UA", "year": 2013}, Row(carrier="UA", year=2013)], ids=["a map", "a struct"]
)
def test_properties_are_a_map_or_a_struct(value: object) -> None:
    assert put("properties", value) == {"carrier": "UA", "year": "2013"}


def test_properties_that_are_null_or_empty_are_left_out() -> None:
    assert put("properties", {"a": None, "b": "", "c": False}) == {"c": "false"}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("a=b", "the properties are of the type str: give a map or a struct"),
        (["a"], "the properties are of the type list: give a map or a struct"),
        (("a", "b"), "the properties are of the type tuple: give a map or a struct"),
        ({1: "a"}, "a name of a property is of the type int: give strings"),
        ({"KEYS": "a"}, "the property name 'KEYS' is used by RocketMQ itself: choose another"),
        ({"": "a"}, "the property name '' is blank or cannot be carried: choose another"),
        ({"a\x01": "a"}, "the property name 'a\\x01' is blank or cannot be carried: choose another"),
        ({"a": "\x02"}, "the property 'a' contains a control character that separates properties (\\x01 or \\x02), or "
                        "half of a surrogate pair: remove it"),
        ({"a": [1]}, "the property 'a' is of the type list: cast the column to a string"),
    ],
)  # fmt: skip
def test_properties_that_cannot_be_carried_are_refused(value: object, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        put("properties", value)
    assert str(caught.value) == reason


@pytest.mark.slow
@given(user_properties())
def test_properties_are_what_a_message_would_have(properties: dict[str, str]) -> None:
    message = RowMapping(topic="Orders").to_message()({"value": b"x", "properties": properties})
    assert message is not None
    assert message.wire_properties == Message("Orders", b"x", properties=properties).wire_properties


@pytest.mark.slow
@given(property_maps())
def test_no_property_takes_a_name_of_rocketmq(properties: dict[str, str]) -> None:
    try:
        found = put("properties", properties)
    except ConfigError:
        found = {}
    assert not RESERVED_PROPERTIES & found.keys()


def test_names_seen_are_not_kept_without_end() -> None:
    for number in range(3_000):
        assert put("properties", {f"name-{number}": "x"}) == {f"name-{number}": "x"}


# --- when and how -------------------------------------------------------------------------------------

MOMENT = datetime(2026, 11, 22, 8, 30, 0, 123_000, tzinfo=UTC)
MOMENT_MS = 1_795_336_200_123


@pytest.mark.parametrize(
    "value",
    [MOMENT, MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30))), MOMENT.astimezone().replace(tzinfo=None),
     MOMENT_MS],
    ids=["aware", "elsewhere", "naive", "milliseconds"],
)  # fmt: skip
def test_a_moment_is_the_same_in_every_form(value: object) -> None:
    assert put("deliver_at", value) == {"TIMER_DELIVER_MS": str(MOMENT_MS)}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (date(2026, 1, 1), "deliver_at is of the type date: cast the date to a timestamp, or milliseconds since 1970"),
        ("2026-01-01", "deliver_at is of the type str: give a timestamp, or milliseconds since 1970"),
        (1.5, "deliver_at is of the type float: give a timestamp, or milliseconds since 1970"),
        (True, "deliver_at is of the type bool: give a timestamp, or milliseconds since 1970"),
        (-1, "deliver_at is before 1970, or beyond what RocketMQ can express"),
        (MOMENT_MS // 1000, "deliver_at looks like seconds: give a timestamp, or milliseconds since 1970"),
        (2**63, "deliver_at is before 1970, or beyond what RocketMQ can express"),
        (datetime(1960, 1, 1, tzinfo=UTC), "deliver_at is before 1970, or beyond what RocketMQ can express"),
    ],
)
def test_a_moment_that_is_none_is_refused(value: object, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        put("deliver_at", value)
    assert str(caught.value) == reason


@pytest.mark.parametrize("value", [0, 1_000_000_000_000])
def test_a_moment_may_have_passed(value: int) -> None:
    assert put("deliver_at", value) == {"TIMER_DELIVER_MS": str(value)}
    early = datetime(1970, 1, 2, tzinfo=UTC) + timedelta(milliseconds=value)
    assert put("deliver_at", early) == {"TIMER_DELIVER_MS": str(value + 86_400_000)}


def test_a_level_is_a_whole_number() -> None:
    assert put("delay_level", 3) == {"DELAY": "3"}
    assert put("delay_level", 0) == {}
    assert put("delay_level", 64) == {"DELAY": "64"}
    for bad in (-1, 65, 2**31):
        with pytest.raises(ConfigError, match=f"the delay level is {bad}: give a level that the brokers have, 1 to 18"):
            put("delay_level", bad)
    for bad in (True, 1.0, "3"):
        with pytest.raises(ConfigError, match=f"the delay level is of the type {type(bad).__name__}"):
            put("delay_level", bad)


def test_a_row_says_once_when_it_is_due() -> None:
    to_message = RowMapping(topic="Orders").to_message()
    row = {"value": b"x", "delay_level": 3, "deliver_at": MOMENT}
    with pytest.raises(BadRow, match="both delay_level and deliver_at say when"):
        to_message(row)
    assert to_message({**row, "delay_level": 0}).wire_properties["TIMER_DELIVER_MS"] == str(MOMENT_MS)
    assert to_message({**row, "deliver_at": None}).delay_level == 3


def test_waiting_for_the_store_is_a_boolean() -> None:
    assert put("wait_store_ok", False) == {"WAIT": "false"}
    assert put("wait_store_ok", True) == {"WAIT": "true"}
    for bad in (0, "false"):
        with pytest.raises(ConfigError, match=f"wait_store_ok is of the type {type(bad).__name__}: give a boolean"):
            put("wait_store_ok", bad)


# --- anything at all ----------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.decimals() | st.datetimes()
    | st.dates() | st.timedeltas(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
    | st.tuples(inner, inner) | st.builds(lambda each: Row(a=each), inner),
    max_leaves=5,
)  # fmt: skip


@pytest.mark.slow
@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, ANYTHING)),
    st.sampled_from(["binary", "string", "json", "msgpack"]),
)
def test_whatever_stands_in_a_row_it_is_a_message_or_a_bad_row(row: dict[str, Any], value_format: str) -> None:
    to_message = RowMapping(topic="Orders", value_format=value_format).to_message()
    try:
        message = to_message(row)
    except BadRow as error:
        blamed = error
    else:
        assert message is not None
        assert type(message.body) is bytes
        assert message.body
        assert all(type(text) is str and text for pair in message.wire_properties.items() for text in pair)
        return
    assert isinstance(blamed.__cause__, ConfigError | SerializationError)
    assert blamed.skippable
