"""Reading stored messages: round trips, damage, laziness."""

from __future__ import annotations

import pickle
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.errors import MessageDecodeError
from rocketpy.message import MessageExt, MessageQueue
from rocketpy.wire.compression import CompressionType, compress, compression_flag
from rocketpy.wire.hosts import format_address, unpack_host
from rocketpy.wire.message_codec import decode_messages, decode_record
from rocketpy.wire.properties import decode_properties
from rocketpy.wire.record import BLANK_MAGIC, MAGIC_V2, encode_blank, encode_record
from tests.strategies import record_arguments
from tests.tables import Table
from tests.vectors import java_cases
from tests.wire.test_record import PLAIN

HEAD = 88
"""Bytes before the body of a record with IPv4 hosts."""


def record(**changes: Any) -> bytes:
    return encode_record(**{**PLAIN, **changes})


def check_against(message: MessageExt, arguments: dict[str, Any]) -> None:
    assert message.topic == arguments["topic"].decode()
    assert message.body == arguments["body"]
    assert message.wire_properties == decode_properties(arguments["properties"].decode())
    assert message.born_host == format_address(*unpack_host(arguments["born_host"]))
    assert message.store_host == format_address(*unpack_host(arguments["store_host"]))
    assert message.commit_log_offset == arguments["physical_offset"]
    for name in (
        "queue_id", "flag", "queue_offset", "sys_flag", "born_timestamp", "store_timestamp", "reconsume_times",
        "prepared_transaction_offset",
    ):  # fmt: skip
        assert getattr(message, name) == arguments[name]


@given(record_arguments())
def test_P13_a_record_survives_the_way_there_and_back(arguments: dict[str, Any]) -> None:
    encoded = encode_record(**arguments)
    message = decode_record(encoded)
    check_against(message, arguments)
    assert message.store_size == len(encoded)


@pytest.mark.slow
@given(st.lists(record_arguments(), max_size=5))
def test_P13_a_row_of_records_is_decoded_in_order(rows: list[dict[str, Any]]) -> None:
    found = decode_messages(b"".join(encode_record(**row) for row in rows), broker_name="broker-a")
    assert len(found) == len(rows)
    for message, row in zip(found, rows, strict=True):
        check_against(message, row)
        assert message.broker_name == "broker-a"
        assert message.queue == MessageQueue(message.topic, "broker-a", row["queue_id"])


def test_P13_the_message_of_java_s_decoder() -> None:
    ((encoded, expected),) = java_cases("message_decode")
    message = decode_record(bytes.fromhex(encoded))
    ours = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "flag": message.flag,
        "queueOffset": message.queue_offset,
        "physicalOffset": message.commit_log_offset,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
        "bodyCRC": message.body_crc,
        "tags": message.tags,
        "body": message.body.decode(),
        "msgId": message.message_id,
        "storeSize": message.store_size,
    }
    assert ours == {name: expected[name] for name in ours}


def test_the_unique_id_is_the_message_id_where_there_is_one() -> None:
    message = decode_record(record(properties=b"UNIQ_KEY\x01ABC\x02KEYS\x01k1  k2 \x02"))
    assert message.message_id == "ABC"
    assert message.offset_message_id == "7F00000100002A9F0000000000000003"
    assert message.keys == ("k1", "k2")
    assert message.tags is None


def test_an_empty_answer_holds_no_message() -> None:
    assert decode_messages(b"") == []


def test_text_that_is_not_utf8_is_read_as_java_reads_it() -> None:
    message = decode_record(record(topic=b"T\xff", properties=b"a\xff\x01b\xfe\x02TAGS\x01x\x02"))
    assert message.topic == "T\ufffd"
    assert message.wire_properties == {"a\ufffd": "b\ufffd", "TAGS": "x"}


# --- laziness ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(CompressionType))
def test_a_packed_body_is_unpacked_once_and_on_first_use(kind: CompressionType) -> None:
    body = b"hello " * 1000
    packed = compress(body, kind)
    message = decode_record(record(body=packed, sys_flag=compression_flag(kind)))
    assert message.store_size < len(body)
    assert message.body == body
    assert message.body is message.body
    assert message.sys_flag == compression_flag(kind)


def test_properties_are_taken_apart_once_and_can_be_changed() -> None:
    message = decode_record(record())
    message.wire_properties["added"] = "later"
    assert message.wire_properties == {"TAGS": "a", "added": "later"}


def test_topic_and_broker_name_can_be_set() -> None:
    message = decode_record(record(topic=b"%RETRY%g"))
    message.topic = "T"
    message.broker_name = "b"
    assert message.queue == ("T", "b", 1)


def test_a_message_can_be_pickled_used_or_not() -> None:
    packed = compress(b"hello " * 1000)
    message = decode_record(record(body=packed, sys_flag=1))
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(message))
        assert (copy.topic, copy.body, copy.wire_properties) == (message.topic, message.body, message.wire_properties)


def test_the_short_form_never_shows_the_body() -> None:
    message = decode_record(record(body=b"secret"), broker_name="b")
    assert str(message) == "<MessageExt 7F00000100002A9F0000000000000003 of T@b:1+2>"


# --- damage ----------------------------------------------------------------------------------------------


def patched(encoded: bytes, at: int, layout: str, value: int) -> bytes:
    changed = bytearray(encoded)
    struct.pack_into(layout, changed, at, value)
    return bytes(changed)


GOOD = record()
BROKEN = {
    "total 0": patched(GOOD, 0, ">i", 0),
    "total negative": patched(GOOD, 0, ">i", -1),
    "total smallest int": patched(GOOD, 0, ">i", -(2**31)),
    "total one less": patched(GOOD, 0, ">i", len(GOOD) - 1),
    "total one more": patched(GOOD, 0, ">i", len(GOOD) + 1),
    "total beyond the data": patched(GOOD, 0, ">i", 2**31 - 1),
    "total of a head": patched(GOOD, 0, ">i", HEAD),
    "body negative": patched(GOOD, HEAD - 4, ">i", -1),
    "body smallest int": patched(GOOD, HEAD - 4, ">i", -(2**31)),
    "body one more": patched(GOOD, HEAD - 4, ">i", 3),
    "body one less": patched(GOOD, HEAD - 4, ">i", 1),
    "body beyond the data": patched(GOOD, HEAD - 4, ">i", 2**31 - 1),
    "topic longer": patched(GOOD, HEAD + 2, ">B", 2),
    "topic beyond the record": patched(GOOD, HEAD + 2, ">B", 255),
    "topic beyond the record, v2": patched(patched(GOOD, 4, ">i", MAGIC_V2), HEAD + 2, ">H", 0xFFFF),
    "properties longer": patched(GOOD, HEAD + 4, ">H", 8),
    "properties shorter": patched(GOOD, HEAD + 4, ">H", 6),
    "properties negative": patched(GOOD, HEAD + 4, ">h", -1),
    "born host of 20 bytes": patched(GOOD, 36, ">i", 0x10),
    "both hosts of 20 bytes": patched(GOOD, 36, ">i", 0x30),
}


@pytest.mark.parametrize("damaged", BROKEN.values(), ids=BROKEN)
def test_threat_M1_lengths_that_do_not_add_up_end_the_answer(damaged: bytes) -> None:
    with pytest.raises(MessageDecodeError) as caught:
        decode_messages(GOOD + GOOD + damaged + GOOD)
    # Where the record claims more than its bytes it runs into the good one after it, and is refused all the same.
    assert [message.body for message in caught.value.decoded] == [b"hi", b"hi"]
    assert caught.value.position == 2 * len(GOOD)


def test_threat_M1_properties_over_32767_bytes_are_no_record() -> None:
    body = b"x" * 2
    properties = bytes(40_000)
    total = HEAD + len(body) + 2 + 2 + len(properties)
    encoded = GOOD[:HEAD] + body + b"\x01T" + struct.pack(">H", len(properties)) + properties
    with pytest.raises(MessageDecodeError, match="do not add up"):
        decode_record(patched(encoded, 0, ">i", total), check_crc=False)


def test_threat_M1_a_cut_record_is_an_error_and_the_ones_before_it_are_good() -> None:
    with Table() as table:
        for cut in range(len(GOOD)):
            with table.row(cut):
                if cut == 0:
                    assert len(decode_messages(GOOD)) == 1
                    continue
                with pytest.raises(MessageDecodeError) as caught:
                    decode_messages(GOOD + GOOD[:cut])
                assert len(caught.value.decoded) == 1


@pytest.mark.parametrize("magic", [0, 1, -1, 0x7FFFFFFF, -626843480, -626843478])
def test_threat_M2_a_wrong_magic_number_ends_the_answer(magic: int) -> None:
    with pytest.raises(MessageDecodeError, match=f"unknown magic number 0x{magic & 0xFFFFFFFF:08x}") as caught:
        decode_messages(GOOD + patched(GOOD, 4, ">i", magic) + GOOD)
    assert len(caught.value.decoded) == 1


def test_threat_M2_filler_between_records_is_no_message() -> None:
    with pytest.raises(MessageDecodeError, match="filler"):
        decode_messages(GOOD + patched(GOOD, 4, ">i", BLANK_MAGIC) + GOOD)
    with pytest.raises(MessageDecodeError):
        decode_messages(GOOD + encode_blank(8) + GOOD)


@pytest.mark.parametrize("at", range(HEAD, HEAD + 2))
def test_threat_M3_a_body_that_does_not_match_its_crc_is_not_handed_out(at: int) -> None:
    damaged = patched(GOOD, at, ">B", GOOD[at] ^ 0x20)
    with pytest.raises(MessageDecodeError, match="CRC") as caught:
        decode_messages(GOOD + damaged + GOOD)
    assert [message.body for message in caught.value.decoded] == [b"hi"]
    assert caught.value.position == len(GOOD)
    assert len(decode_messages(GOOD + damaged, check_crc=False)) == 2


def test_threat_M4_a_body_that_cannot_be_unpacked_spoils_one_message() -> None:
    bad = record(body=b"not packed", sys_flag=compression_flag(CompressionType.ZLIB))
    unknown = record(body=b"not packed", sys_flag=0x701)
    first, second, third, fourth = decode_messages(GOOD + bad + unknown + GOOD)
    assert first.body == fourth.body == b"hi"
    for message in (second, third):
        assert message.tags == "a"
        for _ in range(2):
            with pytest.raises(MessageDecodeError):
                _ = message.body


def test_threat_M5_the_limit_of_unpacking_is_the_caller_s() -> None:
    encoded = record(body=compress(bytes(100_000)), sys_flag=1)
    assert len(decode_record(encoded, limit=100_000).body) == 100_000
    (message,) = decode_messages(encoded, limit=99_999)
    with pytest.raises(MessageDecodeError, match="more than the limit of 99999 bytes"):
        _ = message.body


def test_threat_M6_forged_and_endless_properties_are_read() -> None:
    forged = b"REAL_TOPIC\x01x\x02TRAN_MSG\x01true\x02DELAY\x01" + b"9" * 400 + b"\x02\x02\x02\x01\x01novalue\x02"
    message = decode_record(record(properties=forged))
    assert message.wire_properties["REAL_TOPIC"] == "x"
    assert message.delay_level == 0
    many = decode_record(record(properties=b"a\x01b\x02" * 8_000))
    assert many.wire_properties == {"a": "b"}


@pytest.mark.parametrize("offset", [-1, -len(GOOD), len(GOOD), len(GOOD) + 1, 10**9])
def test_no_record_begins_outside_the_data(offset: int) -> None:
    with pytest.raises(MessageDecodeError):
        decode_record(GOOD, offset)


@given(st.binary(max_size=300))
def test_any_bytes_are_messages_or_a_decode_error(data: bytes) -> None:
    with suppress(MessageDecodeError):
        decode_messages(data)


@pytest.mark.slow
@given(st.lists(record_arguments(), min_size=1, max_size=3), st.data())
@example([PLAIN], None)
def test_flipped_and_cut_records_are_messages_or_a_decode_error(
    rows: list[dict[str, Any]], data: st.DataObject | None
) -> None:
    encoded = bytearray(b"".join(encode_record(**row) for row in rows))
    if data is not None:
        for at in data.draw(st.lists(st.integers(0, len(encoded) - 1), max_size=4)):
            encoded[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
        del encoded[data.draw(st.integers(0, len(encoded))) :]
    found, position = decode_as_far_as_possible(bytes(encoded))
    assert position == sum(message.store_size for message in found)
    for message in found:
        touch(message)


def decode_as_far_as_possible(data: bytes) -> tuple[Sequence[MessageExt], int | None]:
    """The good messages, and where the bad one begins (or the end of the data)."""
    try:
        return decode_messages(data), len(data)
    except MessageDecodeError as error:
        return error.decoded, error.position


def touch(message: MessageExt) -> None:
    """Use everything; only the body may fail, and only in its one way."""
    with suppress(MessageDecodeError):
        assert isinstance(message.body, bytes)
    assert isinstance(message.wire_properties, dict)
    assert isinstance(message.keys, tuple)
    assert message.message_id
    assert message.offset_message_id
    assert message.born_host
    assert message.store_host
    assert str(message)
    assert isinstance(message.delay_level, int)
    assert isinstance(message.wait_store_ok, bool)


@pytest.mark.slow
def test_hostile_answers_of_16_mib_take_bounded_time() -> None:
    """Every byte is looked at a bounded number of times, whatever the lengths say."""
    smallest = record(topic=b"", body=b"", properties=b"")
    rows = 16 * 1024 * 1024 // len(smallest)
    begin = time.process_time()
    assert len(decode_messages(smallest * rows)) == rows
    for damaged in BROKEN.values():
        with pytest.raises(MessageDecodeError):
            decode_messages(damaged * (4096 // len(damaged)) + bytes(1024 * 1024))
    assert time.process_time() - begin < 10
