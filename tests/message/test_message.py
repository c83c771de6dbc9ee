"""Message, MessageExt and MessageQueue as user code sees them."""

from __future__ import annotations

import copy
import pickle
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given

from rocketpy.errors import ConfigError, SerializationError
from rocketpy.message import RESERVED_PROPERTIES, Message, MessageExt, MessageQueue, PropertyName
from rocketpy.seams import wall_clock
from tests.strategies import user_properties
from tests.tables import Table


def test_a_plain_message() -> None:
    message = Message("T", b"body")
    assert (message.topic, message.body, message.flag) == ("T", b"body", 0)
    assert message.wire_properties == {"WAIT": "true"}
    assert (message.tags, message.keys, message.sharding_key, message.delay_level) == (None, (), None, 0)
    assert message.wait_store_ok


def test_everything_beside_the_body_is_a_property_on_the_wire() -> None:
    message = Message(
        "T",
        b"x",
        tags="t",
        keys=["k1", "k2"],
        properties={"a": "b"},
        sharding_key="s",
        delay_level=3,
        wait_store_ok=False,
    )
    assert message.wire_properties == {
        "WAIT": "false",
        "TAGS": "t",
        "KEYS": "k1 k2",
        "__SHARDINGKEY": "s",
        "DELAY": "3",
        "a": "b",
    }
    assert (message.tags, message.keys, message.sharding_key, message.delay_level) == ("t", ("k1", "k2"), "s", 3)
    assert not message.wait_store_ok


def test_one_key_may_be_given_as_text() -> None:
    assert Message("T", b"x", keys="42").keys == ("42",)


@pytest.mark.parametrize("keys", ["42 43", "42\t43", " 42", "42\n"])
def test_keys_with_white_space_are_refused_with_the_list_form_as_advice(keys: str) -> None:
    """Java joins keys by a blank, and a broker takes them apart there."""
    parts = re.escape(repr(keys.split()))
    with pytest.raises(ConfigError, match=rf"separates keys by spaces: give a list, keys={parts}"):
        Message("T", b"x", keys=keys)
    with pytest.raises(ConfigError, match=rf"contains a space.*keys={parts}, or write it without"):
        Message("T", b"x", keys=["1", keys])


def test_bytes_in_other_clothes_are_copied() -> None:
    data = bytearray(b"abc")
    messages = [Message("T", data), Message("T", memoryview(data))]  # type: ignore[arg-type]
    data[0] = 0
    assert [message.body for message in messages] == [b"abc", b"abc"]
    assert all(type(message.body) is bytes for message in messages)


def test_a_body_of_text_is_encoded_as_utf_8() -> None:
    message = Message("T", "grüße")
    assert message.body == message.value == "grüße".encode()
    assert type(message.body) is bytes
    assert not message.has_value
    for text in ("text", ""):
        with pytest.raises(ConfigError, match="both a body and a value"):
            Message("T", text, value=1)


@pytest.mark.parametrize(
    ("body", "advice"),
    [("a\ud800b", r"a lone surrogate at 1, '\\ud800', which UTF-8 cannot express"), ("", "empty"), (b"", "empty"),
     (bytearray(), "empty"), (None, "bytes or a str.*serializer"), (5, "int")],
    ids=repr,
)  # fmt: skip
def test_a_body_that_is_no_bytes_is_refused_with_advice(body: Any, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        Message("T", body)


@pytest.mark.parametrize("topic", ["", None, 5, b"T"])
def test_a_topic_is_text(topic: Any) -> None:
    with pytest.raises(ConfigError, match="topic"):
        Message(topic, b"x")


@pytest.mark.parametrize("wrong", ["no", "false", 0, None])
def test_wait_store_ok_is_true_or_false(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=f"wait_store_ok must be True or False, not {wrong!r}"):
        Message("T", b"x", wait_store_ok=wrong)


@given(user_properties())
def test_P16_user_properties_are_kept(properties: dict[str, str]) -> None:
    message = Message("T", b"x", properties=properties)
    assert message.properties == properties
    assert message.wire_properties == {"WAIT": "true", **properties}


def test_P16_reserved_names_are_refused() -> None:
    with Table() as table:
        for name in sorted(RESERVED_PROPERTIES):
            with table.row(name):
                with pytest.raises(ConfigError, match=f"'{name}' is used by RocketMQ itself"):
                    Message("T", b"x", properties={name: "v"})


def test_P16_the_reserved_names_are_java_s_and_what_nobody_has_to_set() -> None:
    free = {str(name) for name in vars(PropertyName).values()} - RESERVED_PROPERTIES
    assert len(RESERVED_PROPERTIES) == 51 + 7
    assert free >= {"CHECK_IMMUNITY_TIME_IN_SECONDS", "INNER_MULTI_DISPATCH", "TRACE_CONTEXT"}, "programs set these"
    assert not free & {"__SHARDINGKEY", "__transactionId__", "TRANSACTION_CHECK_TIMES", "INNER_NUM", "INNER_BASE"}


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("TAGS", "tags"), ("KEYS", "keys"), ("__SHARDINGKEY", "sharding_key"), ("DELAY", "delay_level"),
        ("TIMER_DELAY_MS", "delay"), ("TIMER_DELIVER_MS", "deliver_at"), ("WAIT", "wait_store_ok"),
    ],
)  # fmt: skip
def test_P16_a_reserved_name_that_an_argument_sets_is_refused_with_it(name: str, argument: str) -> None:
    with pytest.raises(
        ConfigError, match=f"'{name}' is used by RocketMQ itself: make the message with {argument}= instead"
    ):
        Message("T", b"x", properties={name: "v"})


@pytest.mark.parametrize("bad", [None, "", " ", "\t\n", 5, b"x"], ids=repr)
def test_P16_names_and_values_are_text_that_is_not_blank(bad: Any) -> None:
    with pytest.raises(ConfigError, match="property"):
        Message("T", b"x", properties={"name": bad})
    with pytest.raises(ConfigError, match="property name"):
        Message("T", b"x", properties={bad: "value"})


@pytest.mark.parametrize("bad", [[("a", "b")], {"a"}, 5, "a=b", True], ids=repr)
def test_P16_properties_are_a_dict(bad: Any) -> None:
    says = f"^the properties are of type {type(bad).__name__}: they must be a dict of str to str$"
    with pytest.raises(ConfigError, match=says):
        Message("T", b"x", properties=bad)


@pytest.mark.parametrize(
    "arguments",
    [
        {"properties": {"a\x01": "b"}},
        {"properties": {"a": "b\x02TAGS\x01forged"}},
        {"tags": "a\x02"},
        {"keys": ["k\x01"]},
        {"keys": "k\x01"},
        {"sharding_key": "s\x02"},
    ],
    ids=str,
)
def test_threat_M7_separators_are_refused_everywhere(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="control character"):
        Message("T", b"x", **arguments)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"keys": ["order 1"]}, "contains a space"),
        ({"keys": [""]}, "a key is empty"),
        ({"keys": [5]}, "a key is of type int"),
        ({"keys": {"a": 1}}, "keys is of type dict: give a list of str"),
        ({"keys": 5}, "keys is of type int: give a list of str"),
        ({"tags": 5}, "tags is of type int"),
        ({"sharding_key": ""}, "sharding_key is empty"),
        ({"sharding_key": 7}, "sharding_key is of type int"),
        ({"delay_level": -1}, "delay_level is -1"),
        ({"delay_level": "3"}, "delay_level is '3'"),
        ({"delay_level": True}, "delay_level is True"),
        ({"delay_level": 65}, "delay_level is 65: give a level that the brokers have, 1 to 18 as a rule"),
        ({"delay_level": 600}, "a level is not a number of seconds: delay= takes those"),
        ({"delay_level": 1 << 31}, "delay_level is 2147483648"),
        ({"delay": -1}, "delay is -1"),
        ({"delay": float("nan")}, "delay is nan"),
        ({"delay": float("inf")}, "delay is inf"),
        ({"delay": "1"}, "delay is '1'"),
        ({"delay": True}, "delay is True"),
        ({"delay": timedelta(seconds=-1)}, "delay is"),
        ({"deliver_at": -1}, "deliver_at is -1"),
        ({"deliver_at": 1.5}, "deliver_at is 1.5"),
        ({"deliver_at": False}, "deliver_at is False"),
        ({"deliver_at": datetime(2030, 1, 1)}, "no time zone"),  # noqa: DTZ001
        ({"deliver_at": 1_700_000_000}, "is 1700000000, which looks like seconds: give milliseconds"),
        ({"deliver_at": 1_700_000_000_000}, "in milliseconds since 1970 if it is a number"),
        ({"deliver_at": datetime(2001, 1, 1, tzinfo=UTC)}, "s ago: give a time in the future"),
        ({"deliver_at": 2**63}, "more than RocketMQ can express"),
        ({"delay": 1e300}, "more than RocketMQ can express"),
        ({"delay": 1e308}, "more than RocketMQ can express"),
        ({"delay": 1, "delay_level": 1}, "one of delay_level, delay and deliver_at"),
        ({"delay": 1, "deliver_at": 5}, "one of delay_level, delay and deliver_at"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Message("T", b"x", **arguments)


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        ({"delay": 1.5}, "TIMER_DELAY_MS", "1500"),
        ({"delay": 0}, "TIMER_DELAY_MS", "0"),
        ({"delay": timedelta(minutes=1)}, "TIMER_DELAY_MS", "60000"),
        ({"deliver_at": 4_102_444_800_123}, "TIMER_DELIVER_MS", "4102444800123"),
        ({"deliver_at": datetime(2100, 1, 1, tzinfo=UTC)}, "TIMER_DELIVER_MS", "4102444800000"),
        ({"delay_level": 18}, "DELAY", "18"),
        ({"delay_level": 64}, "DELAY", "64"),
    ],
    ids=str,
)
def test_delays(arguments: dict[str, Any], name: str, value: str) -> None:
    assert Message("T", b"x", **arguments).wire_properties == {"WAIT": "true", name: value}


def test_DL3_a_moment_that_has_just_passed_is_now() -> None:
    with wall_clock(lambda: 1_800_000_000_000):
        assert Message("T", b"x", deliver_at=1_799_999_999_000).system_properties["TIMER_DELIVER_MS"] == "1799999999000"
        with pytest.raises(ConfigError, match=r"was 1\.001 s ago"):
            Message("T", b"x", deliver_at=1_799_999_998_999)


def test_the_short_form_of_a_message_never_shows_the_body() -> None:
    assert repr(Message("T", b"secret", tags="a", keys=["k"])) == "<Message to T, 6 bytes tags='a' keys=('k',)>"


def test_a_message_can_be_pickled() -> None:
    message = pickle.loads(pickle.dumps(Message("T", b"x", tags="a")))
    assert (message.topic, message.body, message.tags) == ("T", b"x", "a")


# --- MessageExt ------------------------------------------------------------------------------------------


def test_a_message_for_testing_a_listener_is_made_by_hand() -> None:
    message = MessageExt(
        "T", b"x", tags="a", keys=["k1", "k2"], properties={"p": "q"}, queue_id=3, queue_offset=7, broker_name="b",
        reconsume_times=2, born_timestamp=10, store_timestamp=20,
    )  # fmt: skip
    assert (message.topic, message.body, message.tags, message.keys) == ("T", b"x", "a", ("k1", "k2"))
    assert message.wire_properties == {"p": "q", "TAGS": "a", "KEYS": "k1 k2"}
    assert message.queue == MessageQueue("T", "b", 3)
    assert (message.queue_offset, message.reconsume_times, message.born_timestamp, message.store_timestamp) == (
        7,
        2,
        10,
        20,
    )
    assert (message.born_host, message.store_host) == ("0.0.0.0:0", "0.0.0.0:0")
    assert message.message_id == message.offset_message_id == "0" * 32
    assert MessageExt("T", b"x", keys="k1 k2").keys == ("k1", "k2")


@pytest.mark.parametrize(("text", "level"), [("3", 3), ("", 0), ("x", 0), ("9" * 30, 0), ("-1", -1)])
def test_a_delay_level_that_is_no_number_is_none(text: str, level: int) -> None:
    assert MessageExt("T", b"x", properties={"DELAY": text}).delay_level == level


@pytest.mark.parametrize(("text", "wait"), [("true", True), ("TRUE", True), ("false", False), ("yes", False)])
def test_the_wait_flag_is_read_as_java_reads_it(text: str, wait: bool) -> None:
    assert MessageExt("T", b"x", properties={"WAIT": text}).wait_store_ok is wait


# --- MessageQueue ----------------------------------------------------------------------------------------


def test_queues_sort_by_topic_broker_and_number() -> None:
    queues = [
        MessageQueue("T", "b", 10),
        MessageQueue("T", "b", 9),
        MessageQueue("T", "a", 11),
        MessageQueue("S", "z", 1),
    ]
    assert [str(queue) for queue in sorted(queues)] == ["S@z:1", "T@a:11", "T@b:9", "T@b:10"]


# --- values -------------------------------------------------------------------------------------------


def test_a_value_takes_the_place_of_a_body() -> None:
    message = Message("T", value={"secret": 1}, tags="t")
    assert (message.body, message.value, message.has_value) == (b"", {"secret": 1}, True)
    assert repr(message) == "<Message to T, a value tags='t'>"
    for again in (pickle.loads(pickle.dumps(message)), copy.copy(message)):
        assert (again.value, again.wire_properties) == (message.value, message.wire_properties)
    none = Message("T", value=None)
    assert (none.value, none.has_value) == (None, True)
    plain = Message("T", b"x")
    assert (plain.value, plain.has_value, pickle.loads(pickle.dumps(plain)).has_value) == (b"x", False, False)
    with pytest.raises(ConfigError, match="both a body and a value: give only one"):
        Message("T", b"x", value=1)
    with pytest.raises(ConfigError, match="empty"):
        Message("T")


def test_the_value_of_what_was_received_follows_its_content_type() -> None:
    message = MessageExt("T", b'{"a":[1]}', properties={"contentType": "application/json"})
    assert message.value == {"a": [1]}
    assert message.value is message.value
    assert message.decode("string") == '{"a":[1]}'
    plain = MessageExt("T", b'{"a":[1]}')
    assert (plain.value, plain.decode("json")) == (b'{"a":[1]}', {"a": [1]})
    with pytest.raises(ConfigError, match="no value format 'yaml'"):
        plain.decode("yaml")
    assert MessageExt("T", value=None).value is None
    damaged = MessageExt("T", b"{", properties={"contentType": "application/json"}, queue_offset=7)
    for _ in range(2):
        with pytest.raises(SerializationError, match=r"the body of <MessageExt .*\+7> does not match its content type"):
            _ = damaged.value
