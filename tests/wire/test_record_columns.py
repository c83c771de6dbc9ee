"""Records read into columns are what the other decoder makes messages of."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import MessageDecodeError
from rocketpy.wire.batch import encode_batch
from rocketpy.wire.compression import CompressionType, compress, compression_flag
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.properties import decode_properties
from rocketpy.wire.property_columns import common_properties
from rocketpy.wire.record import encode_record
from rocketpy.wire.record_columns import ColumnHead, RecordColumns, properties_of, read_columns
from rocketpy.wire.sysflag import INNER_BATCH, NEED_UNWRAP
from tests.strategies import record_arguments
from tests.wire.test_message_codec import record

EVERYTHING = (-(2**63), 2**63 - 1)


def columns_of(data: bytes, first: int = EVERYTHING[0], until: int = EVERYTHING[1]) -> RecordColumns:
    columns = RecordColumns()
    read_columns(data, columns, first, until)
    return columns


@pytest.mark.slow
@given(st.lists(record_arguments(), max_size=5))
def test_columns_are_what_messages_are(rows: list[dict[str, Any]]) -> None:
    rows = [row for row in rows if row["queue_offset"] < EVERYTHING[1]]
    data = b"".join(encode_record(**row) for row in rows)
    columns = columns_of(data)
    messages = decode_messages(data)
    assert columns.bodies == [message.body for message in messages]
    for head, row in zip(columns.heads, rows, strict=True):
        found = ColumnHead._make(head)
        assert found._asdict().items() >= {name: row[name] for name in ColumnHead._fields if name in row}.items()
        assert found.body_length == len(row["body"])
    assert list(map(properties_of, columns.properties)) == [message.wire_properties for message in messages]


@given(st.text(alphabet="ab\x01\x02", max_size=12) | st.text(max_size=20))
def test_properties_are_read_as_elsewhere(text: str) -> None:
    packed = text.encode("utf-8", "replace")
    assert properties_of(packed) == decode_properties(packed.decode("utf-8", "replace"))


names = st.sampled_from(["a", "b", "c", ""])
texts = st.sampled_from(["", "1", "2", "\x01", "a", "\x02b\x01c"])


@given(st.lists(st.lists(st.tuples(names, texts), max_size=4), max_size=4), st.booleans())
def test_common_properties_are_those_of_each(rows: list[list[tuple[str, str]]], ended: bool) -> None:
    packed = ["".join(f"{name}\x01{text}\x02" for name, text in row) for row in rows]
    if not ended:
        packed = [each[:-1] for each in packed]
    found = common_properties([each.encode() for each in packed])
    if found is not None:
        one_by_one = [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
        assert one_by_one == list(map(decode_properties, packed))


def test_properties_of_one_producer_are_common() -> None:
    rows = [f"UNIQ_KEY\x01{number}\x02TAGS\x01Größe\x02".encode() for number in range(3)]
    assert common_properties(rows) == {"UNIQ_KEY": ["0", "1", "2"], "TAGS": ["Größe"] * 3}
    assert common_properties([*rows, b"TAGS\x01a\x02"]) is None
    assert common_properties([]) is None


def test_of_a_name_that_comes_twice_the_last_value_counts() -> None:
    """Messages of a batch have their own WAIT and that of the batch."""
    rows = [f"WAIT\x01{number}\x02KEYS\x01k{number}\x02WAIT\x01true\x02".encode() for number in range(3)]
    assert common_properties(rows) == {"WAIT": ["true"] * 3, "KEYS": ["k0", "k1", "k2"]}
    assert common_properties([*rows, b"WAIT\x01a\x02KEYS\x01b\x02"]) is None


@pytest.mark.parametrize(
    "odd", [b"a\x01b\x01c\x02d\x02", b"a\x01b\x02c\x01d", b"a\x01b\x02c\x01\x02", b"a\x01b\x02d\x01e\x02", b""]
)
def test_a_message_with_other_separators_has_no_common_properties(odd: bytes) -> None:
    even = b"a\x01b\x02c\x01d\x02"
    assert common_properties([even, even]) == {"a": ["b", "b"], "c": ["d", "d"]}
    assert common_properties([even, odd]) is None
    assert common_properties([even, odd, even]) is None


@pytest.mark.parametrize(
    ("first", "until", "kept"), [(0, 10, [3, 4, 5]), (4, 5, [4]), (4, 10, [4, 5]), (0, 4, [3]), (6, 9, [])]
)
def test_only_offsets_of_the_range_are_taken(first: int, until: int, kept: list[int]) -> None:
    data = b"".join(record(queue_offset=offset) for offset in (3, 4, 5))
    assert [head[3] for head in columns_of(data, first, until).heads] == kept


def test_packed_bodies_are_unpacked() -> None:
    kind = CompressionType.ZLIB
    data = record(body=compress(b"x" * 1000, kind), sys_flag=compression_flag(kind), queue_offset=5)
    assert columns_of(data).bodies == [b"x" * 1000]
    assert columns_of(data, 6).bodies == []


def test_packed_bodies_are_unpacked_up_to_a_bound() -> None:
    kind = CompressionType.ZLIB
    packed = [
        record(body=compress(b"x" * 1000, kind), sys_flag=compression_flag(kind), queue_offset=offset)
        for offset in range(4)
    ]
    plain = record(body=b"plain", queue_offset=4)
    data = b"".join([*packed, plain])
    found, position = [], 0
    while position < len(data):
        columns = RecordColumns()
        position, taken = read_columns(data, columns, *EVERYTHING, position=position, most=1500)
        found.append([head[3] for head in columns.heads])
        assert taken == sum(map(len, columns.bodies))
    assert found == [[0, 1], [2, 3], [4]]
    assert read_columns(data, RecordColumns(), *EVERYTHING) == (len(data), 4005)


def test_batches_stored_whole_are_taken_apart() -> None:
    from rocketpy.message import Message

    body = encode_batch([Message("T", b"%d" % number, keys=[str(number)]) for number in range(4)])
    data = record(body=body, sys_flag=INNER_BATCH | NEED_UNWRAP, queue_offset=10)
    columns = columns_of(data, 11, 13)
    assert [head[3] for head in columns.heads] == [11, 12]
    assert columns.bodies == [b"1", b"2"]
    assert [properties_of(each)["KEYS"] for each in columns.properties] == ["1", "2"]


@pytest.mark.parametrize("at", [0, 4, 8, 84, 90])
def test_damage_is_found_and_what_is_before_it_is_kept(at: int) -> None:
    good, bad = record(queue_offset=1), bytearray(record(queue_offset=2, body=b"some body"))
    bad[at] ^= 0x15
    columns = RecordColumns()
    with pytest.raises(MessageDecodeError) as failed:
        read_columns(good + bytes(bad), columns, *EVERYTHING)
    assert len(columns) == 1
    assert failed.value.position == len(good)


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_read_as_elsewhere(data: bytes) -> None:
    try:
        expected = decode_messages(data)
    except MessageDecodeError:
        with pytest.raises(MessageDecodeError):
            columns_of(data)
    else:
        assert len(columns_of(data)) == len(expected)
