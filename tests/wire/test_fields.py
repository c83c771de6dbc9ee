"""The way to declare a custom header: what every declaration can rely on."""

from __future__ import annotations

from enum import Enum
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError
from rocketpy.wire.fields import (
    HeaderFieldError,
    boolean,
    camel_case,
    choice,
    float64,
    header,
    int32,
    int64,
    text,
)
from rocketpy.wire.headers.common import TopicQueueHeader
from rocketpy.wire.headers.offset import QueryConsumerOffsetRequestHeader
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.headers.route import GetRouteInfoRequestHeader
from rocketpy.wire.headers.send import SendMessageRequestHeader
from tests.tables import Table
from tests.wire.golden import header_classes
from tests.wire.strategies import INT32, INT64, TEXT, read


class Side(Enum):
    LOWER = "LOWER"
    UPPER = "UPPER"


@header(1, 2)
class Everything(TopicQueueHeader):
    topic: str = text()
    queue_id: int = int32()
    offset: int = int64()
    is_force: bool = boolean()
    rate: float | None = float64(default=None)
    side: Side | None = choice(Side, default=None)
    client_id: str | None = text(default=None, name="clientID")
    count: int = int32(default=-1)


EXT = {"topic": "T", "queueId": "3", "offset": "-5", "isForce": "true"}


def test_P5_everything_travels_as_text_under_its_name() -> None:
    made = Everything(
        topic="T",
        queue_id=3,
        offset=2**62,
        is_force=False,
        rate=0.5,
        side=Side.UPPER,
        client_id="c",
        bname="b",
        lo=True,
    )
    ext = {
        "topic": "T",
        "queueId": "3",
        "offset": "4611686018427387904",
        "isForce": "false",
        "rate": "0.5",
        "side": "UPPER",
        "clientID": "c",
        "count": "-1",
        "bname": "b",
        "lo": "true",
    }
    assert made.to_ext() == ext
    assert Everything.from_ext(ext) == made
    assert (Everything.codes, Everything.is_answer) == ((1, 2), False)


def test_P5_inherited_fields_are_fields() -> None:
    names = [field.name for field in Everything.wire_fields]
    assert names[:5] == ["ns", "nsd", "bname", "oway", "lo"]
    found = Everything.from_ext(EXT | {"ns": "n", "nsd": "true", "oway": "false", "unknown": "x"})
    assert (found.ns, found.nsd, found.oway, found.lo) == ("n", True, False, None)


@pytest.mark.parametrize("missing", EXT)
def test_P5_required_fields(missing: str) -> None:
    """Missing is an error when we write, and a typed one when we read: the connection is not to blame."""
    with pytest.raises(HeaderFieldError, match=f"Everything: the field {missing} is missing") as caught:
        Everything.from_ext({key: value for key, value in EXT.items() if key != missing})
    assert caught.value.field == missing
    attribute = {"queueId": "queue_id", "isForce": "is_force"}.get(missing, missing)
    with pytest.raises(LocalProtocolError, match=f"Everything needs {attribute}"):
        attrs.evolve(Everything.from_ext(EXT), **{attribute: None}).to_ext()


def test_P5_where_apache_answers_without_a_field_so_can_we() -> None:
    found = GetRouteInfoRequestHeader.from_ext({})
    assert found.topic == ""
    with pytest.raises(LocalProtocolError, match="topic"):
        GetRouteInfoRequestHeader(topic=None).to_ext()  # type: ignore[arg-type]  # what a caller without mypy does


def test_P5_every_declared_header() -> None:
    """There and back with every field, and with the required ones only."""
    with Table() as table:
        for kind in sorted({*header_classes().values()}, key=lambda kind: kind.__name__):
            with table.row(kind.__name__):
                samples: dict[str, Any] = {"text": "x", "int32": 7, "int64": 2**40, "boolean": True, "float64": 0.5}
                values = {field.attribute: samples[field.kind] for field in kind.wire_fields if field.kind in samples}
                least = {field.attribute: values[field.attribute] for field in kind.wire_fields if field.required}
                for given_ in (values, least):
                    made = kind(**given_)
                    assert kind.from_ext(made.to_ext()) == made
                    assert kind.from_short_ext(made.to_short_ext()) == made
                names = [field.name for field in kind.wire_fields]
                assert len(set(names)) == len(names)


SENDS = st.builds(
    SendMessageRequestHeader,
    producer_group=TEXT,
    topic=TEXT,
    default_topic=TEXT,
    default_topic_queue_nums=INT32,
    queue_id=INT32,
    sys_flag=INT32,
    born_timestamp=INT64,
    flag=INT32,
    properties=st.none() | TEXT,
    reconsume_times=st.none() | INT32,
    unit_mode=st.none() | st.booleans(),
    batch=st.none() | st.booleans(),
    max_reconsume_times=st.none() | INT32,
    bname=st.none() | TEXT,
)


@given(SENDS)
def test_P6_short_form_equals_the_long_one(sent: SendMessageRequestHeader) -> None:
    short, long = sent.to_short_ext(), sent.to_ext()
    assert SendMessageRequestHeader.from_short_ext(short) == sent == SendMessageRequestHeader.from_ext(long)
    assert set(short) <= set("abcdefghijklmn")
    names = {field.short: field.name for field in SendMessageRequestHeader.wire_fields}
    assert {names[key]: value for key, value in short.items()} == long


def test_P6_letters() -> None:
    names = {field.short: field.name for field in SendMessageRequestHeader.wire_fields if field.short}
    assert [names[letter] for letter in "abcdefghijklmn"] == [
        *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp"),
        *("flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch", "bname"),
    ]


def test_P6_what_has_no_letter_keeps_its_name() -> None:
    ext = {"a": "g", "b": "t", "c": "d", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "ns": "inst", "nsd": "true"}
    found = SendMessageRequestHeader.from_short_ext(ext)
    assert (found.ns, found.nsd) == ("inst", True)
    assert found.to_short_ext() == ext


def test_threat_F13_what_is_no_number_counts_as_missing() -> None:
    rows = [
        *(
            "",
            " ",
            "x",
            "1.0",
            "1e3",
            "0x10",
            "1_0",
            " 5",
            "5 ",
            "\t5",
            "5\n",
            "+",
            "-",
            "--5",
            "٣",
            "５",
            "null",
            "true",
        ),
        *("2147483648", "-2147483649", "9223372036854775808", "9" * 21, "9" * 100_000),
    ]
    with Table() as table:
        for value in rows:
            with table.row(f"{value!a:.30}"):
                with pytest.raises(HeaderFieldError, match="queueId is not a valid int32"):
                    Everything.from_ext(EXT | {"queueId": value})
                assert Everything.from_ext(EXT | {"count": value}).count == -1


@pytest.mark.parametrize(("value", "number"), [("0", 0), ("-0", 0), ("+7", 7), ("007", 7), ("-2147483648", -(2**31))])
def test_threat_F13_what_java_reads_as_a_number(value: str, number: int) -> None:
    assert Everything.from_ext(EXT | {"queueId": value}).queue_id == number


def test_threat_F13_bounds_of_64_bits() -> None:
    assert Everything.from_ext(EXT | {"offset": str(-(2**63))}).offset == -(2**63)
    for value in (2**63, -(2**63) - 1):
        with pytest.raises(HeaderFieldError, match="int64"):
            Everything.from_ext(EXT | {"offset": str(value)})


@pytest.mark.parametrize("number", [-1, -(2**31), 2**31 - 1])
def test_threat_F13_negative_and_huge_numbers_reach_the_processor(number: int) -> None:
    """They fit their type: what they mean is for the processor to judge, which clamps counts and refuses the rest."""
    ext = {"consumerGroup": "g", "topic": "t", "queueId": str(number)}
    assert QueryConsumerOffsetRequestHeader.from_ext(ext).queue_id == number
    pull = PullMessageRequestHeader(
        consumer_group="g",
        topic="t",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=number,
        sys_flag=0,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
    )
    assert PullMessageRequestHeader.from_ext(pull.to_ext()).max_msg_nums == number


@pytest.mark.parametrize(
    ("value", "truth"), [("true", True), ("TRUE", True), ("false", False), ("1", False), ("", False)]
)
def test_truth_as_java_reads_it(value: str, truth: bool) -> None:
    assert Everything.from_ext(EXT | {"isForce": value}).is_force is truth


@pytest.mark.parametrize(("value", "side"), [("UPPER", Side.UPPER), ("lower", Side.LOWER), ("middle", None)])
def test_names_of_choices(value: str, side: Side | None) -> None:
    assert Everything.from_ext(EXT | {"side": value}).side == side


@pytest.mark.parametrize(("value", "rate"), [("0.5", 0.5), ("1E3", 1000.0), ("x", None), ("9" * 65, None)])
def test_floating_point(value: str, rate: float | None) -> None:
    assert Everything.from_ext(EXT | {"rate": value}).rate == rate


@given(st.dictionaries(st.sampled_from([field.name for field in Everything.wire_fields]), TEXT))
def test_any_fields_are_a_header_or_the_declared_error(ext: dict[str, str]) -> None:
    found = read(lambda: Everything.from_ext(EXT | ext))
    if found is not None:
        assert Everything.from_ext(found.to_ext()) == found


def test_names() -> None:
    assert [camel_case(name) for name in ("a", "queue_id", "body_crc32", "is_a_b")] == [
        "a",
        "queueId",
        "bodyCrc32",
        "isAB",
    ]
