"""Rows that become columns have the bytes of rows that become messages, and the same errors."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.client.preparing.outgoing import Preparer
from rocketpy.config import ProducerConfig
from rocketpy.errors import ConfigError, RowError
from rocketpy.message import RESERVED_PROPERTIES, Message
from rocketpy.producer import frames
from rocketpy.producer.chunks import chunks
from rocketpy.producer.frames import FrameBuilder, MessageFrame
from rocketpy.producer.send_many import frame_bounds
from rocketpy.results import SendManyResult
from rocketpy.spark import partition, provenance, rows
from rocketpy.spark.columns import PUTS
from rocketpy.spark.counts import Counts
from rocketpy.spark.partition import write_partition
from rocketpy.spark.rows import BadRow, RowMapping
from rocketpy.spark.settings import SinkConfig
from rocketpy.spark.task import Task
from rocketpy.wire.message_columns import MessageColumns
from rocketpy.wire.message_id import UniqueIds
from rocketpy.wire.properties import encode_properties
from tests.serialization.rows import Row
from tests.strategies import texts

PRODUCER = ProducerConfig(group="g", namesrv="ns:9876", max_message_size=4096)
COLUMNS = ("keys", "tags", "properties", "value")
ODD = st.sampled_from(["", " ", "a b", "a\x01", "\x02", "\ud800", "\n", b"bytes", 17, True, 2.5, None, {"a": 1}])
ANY_TEXT = st.none() | st.text("ab", max_size=3) | texts() | ODD
PROPERTY_NAMES = st.sampled_from(["carrier", "SPARK_APP", "SPARK_SEQ", "SPARK_PART", "SPARK_X", "KEYS", "", " ", "%s"])
MAPS = st.none() | st.dictionaries(PROPERTY_NAMES | texts(), ANY_TEXT, max_size=3) | st.just("text")
VALUES = st.binary(max_size=9) | st.sampled_from(
    [None, bytearray(b"x"), memoryview(b"y"), "text", b"z" * 1500, b"z" * 5000]
)
ROWS = st.tuples(ANY_TEXT | st.lists(ANY_TEXT, max_size=2), ANY_TEXT, MAPS, VALUES)


class ToMessages(RowMapping):
    """Makes a message of each row."""

    def to_encoded(self) -> Any:
        return self.to_message()


class Keeping:
    """A producer that keeps what it gets, in the place of those of the process."""

    def __init__(self) -> None:
        self.made: list[Message | MessageColumns] = []

    def use(self, config: ProducerConfig) -> AbstractContextManager[Keeping]:
        return nullcontext(self)

    def send_many(self, messages: Any, **settings: Any) -> SendManyResult:
        self.made = list(messages)
        return SendManyResult(sum(len(each) if isinstance(each, MessageColumns) else 1 for each in self.made), 0, 0, 0)


def written(given_rows: list[Any], config: SinkConfig, **how: Any) -> tuple[list[Message | MessageColumns], Counts]:
    """What `write_partition` gives to a producer, and the counts."""
    producer = Keeping()
    with mock.patch.object(partition, "producers", return_value=producer):
        counts = write_partition(given_rows, config, Task(app="a", partition=3), **how)
    return producer.made, counts


class Rows:
    """Some rows, written."""

    def __init__(self, given_rows: list[tuple[Any, ...]], *, by_messages: bool, **settings: Any) -> None:
        mapping = (ToMessages if by_messages else RowMapping)(topic="T")
        config = SinkConfig(mapping=mapping, producer=PRODUCER, **settings)
        self.made, counts = written([Row.of(list(COLUMNS), list(row)) for row in given_rows], config)
        self.left_out = counts.skipped

    def frames(self) -> list[bytes | None]:
        """The frames with more than one message as they travel; None for one that cannot be sent."""
        preparer = Preparer(PRODUCER, SameIds())
        count, largest = frame_bounds(PRODUCER, 5)
        bounds = SimpleNamespace(count=count, largest=largest, filled=preparer.filled)
        builder = FrameBuilder(count, largest, largest)
        found: list[MessageFrame] = []
        for chunk in chunks(self.made, bounds):
            whole = builder.whole(chunk, 0)
            found += [whole] if whole is not None else [frame for each in chunk for frame in builder.add(each, 0, None)]
        return [encoded(preparer, frame) for frame in (*found, *builder.rest())]


class SameIds(UniqueIds):
    def __init__(self) -> None:
        super().__init__(bytes(4), 1)

    def take(self, count: int) -> list[str]:
        return ["ID"] * count

    def next(self) -> str:
        return "ID"


def encoded(preparer: Preparer, frame: MessageFrame) -> tuple[bytes, str, str] | None:
    try:
        outgoing = preparer.batch(frame.messages, checked=True)
    except ConfigError:
        return None
    return outgoing.body, outgoing.properties, outgoing.message_id


def outcome(make: Any, row: tuple[Any, ...]) -> Any:
    try:
        made = make(Row.of(list(COLUMNS), list(row)))
    except BadRow as bad:
        return bad.reason, bad.keys, bad.skippable, type(bad.__cause__)
    return (made.body, encode_properties(made.wire_properties)) if isinstance(made, Message) else made


@pytest.mark.slow
@given(ROWS)
def test_a_row_is_encoded_as_its_message_would_be_or_fails_as_it_would(row: tuple[Any, ...]) -> None:
    mapping = RowMapping(topic="T")
    assert outcome(mapping.to_encoded(), row) == outcome(mapping.to_message(), row)


@pytest.mark.slow
@given(st.lists(ROWS, max_size=7), st.booleans())
def test_frames_are_the_same_whether_rows_become_columns_or_messages(given_rows: list[Any], marked: bool) -> None:
    settings: dict[str, Any] = {"bad_rows": "skip", "provenance": marked, "batch_size": 5}
    here, there = (Rows(given_rows, by_messages=each, **settings) for each in (False, True))
    assert here.left_out == there.left_out
    assert all(isinstance(each, MessageColumns) for each in here.made)
    assert flat(here.made) == flat(there.made)
    if all(row[3] is None or len(row[3]) < 1000 for row in given_rows):  # otherwise the chunks may end elsewhere
        assert here.frames() == there.frames()


def flat(made: list[Message | MessageColumns]) -> list[tuple[str, bytes, int, list[tuple[str, str]]]]:
    messages = [one for each in made for one in (each if isinstance(each, MessageColumns) else (each,))]
    return [(each.topic, each.body, each.flag, list(each.wire_properties.items())) for each in messages]


@pytest.mark.parametrize(
    ("column", "value", "name", "text"),
    [
        ("topic", "T", None, None), ("sharding_key", "UA", "__SHARDINGKEY", "UA"), ("delay_level", 3, "DELAY", "3"),
        ("deliver_at", 2**41, "TIMER_DELIVER_MS", str(2**41)), ("wait_store_ok", False, "WAIT", "false"),
    ],
)  # fmt: skip
def test_what_may_need_a_frame_of_its_own_stays_a_message(
    column: str, value: Any, name: str | None, text: str | None
) -> None:
    mapping = RowMapping(topic=None if column == "topic" else "T")
    made = mapping.to_encoded()(Row(**{"value": b"x", column: value}))
    assert isinstance(made, Message)
    assert name is None or made.wire_properties[name] == text
    assert isinstance(mapping.to_encoded()(Row(**{"value": b"x", column: None if column != "topic" else "T"})), Message)


def test_a_part_is_either_encoded_or_keeps_a_message() -> None:
    assert rows._SPECIAL | {"tags", "keys", "properties"} == {"topic", *PUTS}


def test_what_calls_for_a_frame_of_its_own_is_no_name_of_a_users_property() -> None:
    assert not frames._SPECIAL - RESERVED_PROPERTIES


def test_columns_are_as_large_as_a_frame_may_be() -> None:
    large = [("k", None, None, b"x" * 500)] * 20
    made = Rows(large, by_messages=False, batch_size=1024).made
    assert [(len(each), each.size) for each in made] == [(4, 2000)] * 5
    assert [len(each) for each in Rows(large[:7], by_messages=False, batch_size=3).made] == [3, 3, 1]


def test_rows_with_and_without_columns_for_it_keep_their_order() -> None:
    config = SinkConfig(mapping=RowMapping(topic="T"), producer=PRODUCER, provenance=True)
    several = [Row(value=b"1"), Row(value=b"2"), Row(value=b"3", sharding_key="s"), Row(value=b"4")]
    made, _ = written(several, config, before=10)
    assert [type(each) for each in made] == [MessageColumns, Message, MessageColumns]
    assert [dict(row[3])[provenance.ROW] for row in flat(made)] == ["11", "12", "13", "14"]


def test_a_property_with_a_name_of_the_provenance_is_replaced() -> None:
    marked = provenance.Provenance(app="a", partition=3).mark_encoded(
        ["WAIT\x01true\x02SPARK_SEQ\x017\x02SPARK_QID\x01q\x02p\x01v\x02", "WAIT\x01true\x02SPARK_X\x01x\x02"], [1, 2]
    )
    assert marked == [
        "WAIT\x01true\x02p\x01v\x02SPARK_APP\x01a\x02SPARK_PART\x013\x02SPARK_SEQ\x011\x02",
        "WAIT\x01true\x02SPARK_X\x01x\x02SPARK_APP\x01a\x02SPARK_PART\x013\x02SPARK_SEQ\x012\x02",
    ]


def test_plain_tuples_with_known_columns() -> None:
    config = SinkConfig(mapping=RowMapping(topic="T"), producer=PRODUCER)
    made, _ = written([(b"1", "a"), (b"2", None)], config, columns=["value", "keys"])
    assert flat(made) == [
        ("T", b"1", 0, [("WAIT", "true"), ("KEYS", "a")]), ("T", b"2", 0, [("WAIT", "true")]),
    ]  # fmt: skip
    with pytest.raises(RowError, match=r"row 1 of partition 3 \(keys 'a'\): the value is null"):
        written([(None, "a")], config, columns=["value", "keys"])
    with pytest.raises(ConfigError, match="there is no column 'value'"):
        written([(b"1",)], config, columns=["payload"])
