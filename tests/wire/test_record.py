"""Writing stored messages: the layout, its limits, patching, the CRC of the whole record."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, MessageDecodeError
from rocketpy.wire import record as layout
from rocketpy.wire.hosts import pack_host
from rocketpy.wire.message_codec import decode_record
from rocketpy.wire.properties import CRC_PROPERTY_SIZE, MAX_PROPERTIES_SIZE, encode_properties
from rocketpy.wire.record import encode_batch_records, encode_record, read_head, record_size
from rocketpy.wire.sysflag import BORN_HOST_V6
from tests.strategies import record_arguments
from tests.vectors import java_cases, raises, vector

HOST = pack_host("127.0.0.1", 10911)
PLAIN: dict[str, Any] = {
    "topic": b"T",
    "body": b"hi",
    "properties": b"TAGS\x01a\x02",
    "queue_id": 1,
    "flag": 0,
    "queue_offset": 2,
    "physical_offset": 3,
    "sys_flag": 0,
    "born_timestamp": 4,
    "born_host": pack_host("127.0.0.1", 1),
    "store_timestamp": 5,
    "store_host": HOST,
}


def hosts(text: str) -> list[bytes]:
    found = []
    for address in text.split():
        ip, _, port = address.rpartition(":")
        found.append(pack_host(ip.strip("[]"), int(port)))
    return found


@pytest.mark.parametrize(("message", "expected"), java_cases("message_encode"), ids=["v4", "v6", "no body", "long"])
def test_P13_records_are_those_of_java(message: dict[str, Any], expected: Any) -> None:
    if raises(expected):
        return  # Java's re-encoder writes version 1 only; ours writes what brokers store
    born, store = hosts(message["hosts"])
    record = encode_record(
        topic=message["topic"].encode(),
        body=b"hi"[: message["bodyLen"]],
        properties=encode_properties(message["properties"]).encode(),
        queue_id=message["queueId"],
        flag=message["flag"],
        queue_offset=message["queueOffset"],
        physical_offset=message["physicalOffset"],
        sys_flag=message["sysFlag"],
        born_timestamp=message["born"],
        born_host=born,
        store_timestamp=message["store"],
        store_host=store,
        reconsume_times=message["reconsume"],
        prepared_transaction_offset=message["prepared"],
        body_crc=0,  # Java wrote the one of its MessageExt, which nobody had set
    )
    assert record.hex() == expected


def test_P13_the_record_of_the_vectors() -> None:
    record = encode_record(**PLAIN)
    assert record.hex() == vector("message_v1_hex")
    assert len(record) == vector("message_v1_fixed_overhead_ipv4") + len(b"hi" + b"T" + b"TAGS\x01a\x02")
    magic = vector("magic")
    assert (
        magic["v1_int"],
        magic["v2_int"],
        magic["blank_int"],
    ) == (layout.MAGIC_V1, layout.MAGIC_V2, layout.BLANK_MAGIC)


@pytest.mark.parametrize(("text", "crc"), [*java_cases("crc32_masked"), *vector("crc32_31bit").items()])
def test_body_crc_has_31_bits(text: str, crc: int) -> None:
    assert layout.body_crc(text.encode()) == crc


@pytest.mark.slow
@given(record_arguments())
def test_P13_the_head_is_where_it_belongs(arguments: dict[str, Any]) -> None:
    record = encode_record(**arguments)
    head = read_head(b"before" + record, 6)
    assert head.total_size == len(record)
    assert len(record) == layout.record_size(
        arguments["topic"], arguments["body"], arguments["properties"], arguments["sys_flag"]
    )
    assert len(record) >= layout.MIN_RECORD_SIZE
    assert head.magic == (layout.MAGIC_V1 if len(arguments["topic"]) <= 127 else layout.MAGIC_V2)
    assert head.body_crc == layout.body_crc(arguments["body"])
    for name in set(head._fields) & set(arguments):
        assert getattr(head, name) == arguments[name]


@given(record_arguments())
def test_fields_are_patched_at_their_positions(arguments: dict[str, Any]) -> None:
    later = {"queue_id": 11, "queue_offset": 22, "physical_offset": 33, "store_timestamp": 44}
    record = bytearray(encode_record(**arguments))
    struct.pack_into(">i", record, layout.QUEUE_ID_AT, 11)
    struct.pack_into(">q", record, layout.QUEUE_OFFSET_AT, 22)
    struct.pack_into(">q", record, layout.PHYSICAL_OFFSET_AT, 33)
    struct.pack_into(">q", record, layout.store_timestamp_at(arguments["sys_flag"]), 44)
    assert bytes(record) == encode_record(**{**arguments, **later})
    assert struct.unpack_from(">iii", record, layout.MAGIC_AT)[:2] == read_head(bytes(record))[1:3]
    assert struct.unpack_from(">q", record, layout.BORN_TIMESTAMP_AT)[0] == arguments["born_timestamp"]
    assert record[layout.BORN_HOST_AT :].startswith(arguments["born_host"])
    assert layout.store_timestamp_at(0) == layout.STORE_TIMESTAMP_AT


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"topic": b"T" * 256}, "topic of 256 bytes"),
        ({"properties": b"p" * (MAX_PROPERTIES_SIZE + 1)}, "properties of 32768 bytes"),
        ({"born_host": bytes(20)}, "hosts of 20 and 8 bytes"),
        ({"store_host": bytes(20)}, "hosts of 8 and 20 bytes"),
        ({"sys_flag": 0x10}, "hosts of 8 and 8 bytes"),
        ({"sys_flag": 0x20, "born_host": bytes(20)}, "hosts of 20 and 8 bytes"),
        ({"sys_flag": 0x30, "born_host": bytes(8), "store_host": bytes(20)}, "hosts of 8 and 20 bytes"),
        ({"queue_id": 2**31}, "cannot be stored"),
        ({"queue_offset": 2**63}, "cannot be stored"),
        ({"store_timestamp": -(2**63) - 1}, "cannot be stored"),
        ({"reconsume_times": 2**31}, "cannot be stored"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(LocalProtocolError, match=reason):
        encode_record(**{**PLAIN, **change})


@pytest.mark.parametrize(("length", "version"), [(1, 1), (127, 1), (128, 2), (255, 2)])
def test_the_second_version_is_for_long_topics(length: int, version: int) -> None:
    record = encode_record(**{**PLAIN, "topic": b"t" * length})
    assert read_head(record).magic == {1: layout.MAGIC_V1, 2: layout.MAGIC_V2}[version]
    assert decode_record(record).topic == "t" * length


@given(record_arguments())
def test_a_record_can_end_with_its_own_crc(arguments: dict[str, Any]) -> None:
    plain = encode_record(**arguments)
    assert layout.has_valid_crc_property(plain) is None
    reserved = layout.reserve_crc_property(arguments["properties"])
    record = layout.fill_crc_property(encode_record(**{**arguments, "properties": reserved}))
    assert len(record) == len(plain) + CRC_PROPERTY_SIZE
    assert layout.has_valid_crc_property(record) is True
    message = decode_record(record)
    digits = message.wire_properties.pop("__CRC32#")
    assert int(digits[::-1]) == layout.body_crc(record[:-CRC_PROPERTY_SIZE])
    assert message.wire_properties == decode_record(plain).wire_properties
    for at in (0, len(record) // 2, len(record) - CRC_PROPERTY_SIZE - 1):
        damaged = bytearray(record)
        damaged[at] ^= 1
        assert layout.has_valid_crc_property(bytes(damaged)) is False


def test_a_missing_separator_goes_before_the_crc() -> None:
    assert layout.reserve_crc_property(b"a\x01b") == b"a\x01b\x02" + bytes(CRC_PROPERTY_SIZE)
    assert layout.reserve_crc_property(b"") == bytes(CRC_PROPERTY_SIZE)


def test_a_blank_says_how_much_of_the_file_it_fills() -> None:
    blank = layout.encode_blank(890)
    assert len(blank) == layout.BLANK_SIZE
    assert struct.unpack(">ii", blank) == (890, layout.BLANK_MAGIC)


@pytest.mark.parametrize("size", [0, 1, 39, 40, 87])
def test_a_head_that_is_not_whole_is_a_decode_error(size: int) -> None:
    with pytest.raises(MessageDecodeError, match=f"{size} bytes are too few") as caught:
        read_head(encode_record(**PLAIN)[:size])
    assert caught.value.position == 0


ITEMS = st.lists(st.tuples(st.integers(-1, 1), st.binary(max_size=40), st.binary(max_size=200)), min_size=1, max_size=4)
SAME_SIZES = st.lists(st.tuples(st.integers(-1, 1), st.binary(min_size=3, max_size=3), st.just(b"text")), min_size=1)


@given(ITEMS | SAME_SIZES)
def test_records_of_a_batch_are_those_of_messages_one_after_the_other(items: list[tuple[int, bytes, bytes]]) -> None:
    for born_host, sys_flag, topic in ((PLAIN["born_host"], 0, b"T"), (bytes(20), BORN_HOST_V6, b"T" * 200)):
        common = {**PLAIN, "born_host": born_host, "sys_flag": sys_flag, "topic": topic}
        expected: list[bytes] = []
        position = 1000
        for index, (flag, body, properties) in enumerate(items):
            own = {"flag": flag, "body": body, "properties": properties}
            place = {"queue_offset": 7 + index, "physical_offset": position}
            expected.append(encode_record(**{**common, **own, **place}))
            position += len(expected[-1])
        shared = {name: value for name, value in common.items() if name not in ("flag", "body")}
        flags, bodies, texts = zip(*items, strict=True)
        shared |= {"flags": flags, "properties": texts, "queue_offset": 7, "physical_offset": 1000}
        shared["sizes"] = [record_size(topic, body, properties, sys_flag) for _, body, properties in items]
        assert encode_batch_records(bodies, **shared) == expected


@pytest.mark.parametrize("change", [{"properties": [b"x" * 32768]}, {"born_host": b""}, {"queue_id": 1 << 31}])
def test_a_batch_that_does_not_fit_the_layout_is_refused(change: dict[str, Any]) -> None:
    shared = {name: value for name, value in PLAIN.items() if name not in ("flag", "body")}
    with pytest.raises(LocalProtocolError):
        encode_batch_records([b"hi"], **{**shared, "flags": [0], "properties": [b""], "sizes": [100], **change})
