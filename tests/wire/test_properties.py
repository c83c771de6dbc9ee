"""The text of message properties, both ways."""

from __future__ import annotations

import itertools
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError
from rocketpy.message import RESERVED_PROPERTIES, Message, PropertyName
from rocketpy.wire.properties import (
    CRC_PROPERTY_SIZE,
    MAX_PROPERTIES_SIZE,
    decode_properties,
    delete_property,
    encode_crc_property,
    encode_properties,
    find_property,
)
from tests.pace import slowness
from tests.strategies import property_maps, texts
from tests.tables import Table
from tests.vectors import GOLDEN, java_cases, vector


def hex_text(value: str) -> str:
    return bytes.fromhex(value).decode()


@pytest.mark.parametrize(("properties", "encoded"), java_cases("properties_encode"), ids=str)
def test_P14_a_map_becomes_the_text_that_java_writes(properties: dict[str, str], encoded: str) -> None:
    # Java's order is that of its hash map, which means nothing: compare pair by pair.
    ours = encode_properties(properties).encode()
    assert sorted(ours.split(b"\x02")) == sorted(bytes.fromhex(encoded).split(b"\x02"))


def test_P14_pairs_stand_in_the_order_of_the_map() -> None:
    case = vector("properties_encoding")
    assert encode_properties(case["in"]).encode().hex() == case["hex"]


@pytest.mark.parametrize(("encoded", "properties"), java_cases("properties_decode"), ids=str)
def test_P14_text_becomes_the_map_that_java_reads(encoded: str, properties: dict[str, str]) -> None:
    assert decode_properties(hex_text(encoded)) == properties


@given(property_maps())
def test_P14_maps_survive_the_way_there_and_back(properties: dict[str, str]) -> None:
    text = encode_properties(properties)
    assert decode_properties(text) == properties
    assert encode_properties(properties, refuse_separators=True) == text


@given(property_maps())
def test_P14_the_last_separator_may_be_missing(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)[:-1]) == properties


@pytest.mark.parametrize(
    "properties",
    [
        {"color": "dark red", "price": "12.50 EUR", "a_b-c.d": "x=y&z"},
        {"颜色": "深红", "城市": "杭州市西湖区", "mixed 混合": "value 值"},
        {"emoji 😀": "🚀🚀", "tab\tname": "line\nbreak"},
    ],
    ids=["english", "chinese", "other"],
)
def test_S9_user_properties_arrive_equal(properties: dict[str, str]) -> None:
    message = Message("T", b"x", properties=properties)
    arrived = decode_properties(encode_properties(message.wire_properties, refuse_separators=True).encode().decode())
    assert {name: value for name, value in arrived.items() if name in properties} == properties


HOSTILE = [
    "", "\x01", "\x02", "\x01\x01", "\x02\x02", "a", "ab", "a\x01", "\x01a", "\x01a\x02", "a\x01\x02", "ab\x02cd\x02",
    "\x02" * 20_000, "\x01" * 20_000, "a\x01b\x02" * 8_000, "\x00\x01\x00\x02", "a\x01b\x01c\x02",
    "REAL_TOPIC\x01x\x02",
    "TRAN_MSG\x01true\x02PGROUP\x01g\x02", "DELAY\x01-99999999999999999999999\x02", "TIMER_DELAY_MS\x01soon\x02",
    "INNER_MULTI_DISPATCH\x01../../etc,%LMQ%x\x02", "__CRC32#\x010000000000\x02", "\ufffd\x01\u202e\x02",
]  # fmt: skip


def test_threat_M6_odd_property_text_is_read_without_an_error() -> None:
    with Table() as table:
        for text in HOSTILE:
            with table.row(f"{text!a:.30}"):
                found = decode_properties(text)
                assert all(name and value for name, value in found.items())
                assert all("\x01" not in name and "\x02" not in name + value for name, value in found.items())


@given(st.text("\x01\x02ab", max_size=60) | st.text(max_size=60))
def test_threat_M6_any_text_is_read_as_java_reads_it(text: str) -> None:
    expected = {}
    for pair in text.split("\x02"):
        name, found, value = pair.partition("\x01")
        if found and name and value:
            expected[name] = value
    assert decode_properties(text) == expected


_PIECES = st.sampled_from(["a\x01\x02", "a\x01\x02", "a\x01b\x02", "ab\x01\x02", "b\x01a\x01\x02", "a", "\x01", "\x02"])


@given(
    st.text("\x01\x02ab", max_size=40) | st.lists(_PIECES, max_size=20).map("".join),
    st.sampled_from(["a", "ab", "b", "aa"]),
)
def test_one_property_is_found_as_the_map_has_it(text: str, name: str) -> None:
    expected = decode_properties(text).get(name)
    found = find_property(text.encode(), name.encode())
    assert (found and found.decode()) == expected


@given(property_maps(), texts())
def test_any_property_is_found(properties: dict[str, str], other: str) -> None:
    data = encode_properties(properties).encode()
    for name in (*properties, other):
        found = find_property(data, name.encode())
        assert (found and found.decode()) == properties.get(name)


def test_threat_M6_many_empty_pairs_are_searched_in_linear_time() -> None:
    assert find_property(b"a\x01\x02" * 500_000, b"a") is None
    assert find_property(b"a\x01b\x02" + b"a\x01\x02" * 500_000, b"a") == b"b"


def test_threat_M6_as_many_empty_pairs_as_a_message_may_have_take_a_tenth_of_a_millisecond() -> None:
    data = b"a\x01b\x02" + b"a\x01\x02" * (MAX_PROPERTIES_SIZE // 3 - 2)
    best = 9.9
    for _ in range(20):
        began = time.thread_time()
        assert find_property(data, b"a") == b"b"
        best = min(best, time.thread_time() - began)
    assert best / slowness() < 0.0006  # a step in Python for each of them would take two milliseconds


def test_threat_M7_a_sender_refuses_separators() -> None:
    odd_ones = [("n\x01", "v"), ("n\x02", "v"), ("n", "v\x01"), ("n", "v\x02w\x01x"), ("n", "\x01\x02")]
    encoders = [Message("T", b"x", properties={"a": "b"}).wire_properties, {"a": "b", "c": "d"}]
    with Table() as table:
        for odd, encoder in itertools.product(odd_ones, encoders):
            with table.row(f"{odd!a} beside {encoder!a}"):
                with pytest.raises(LocalProtocolError, match="separate properties"):
                    encode_properties({**encoder, odd[0]: odd[1]}, refuse_separators=True)


@given(st.dictionaries(st.text("\x01\x02ab", max_size=4), st.text("\x01\x02ab", max_size=4), max_size=4))
def test_threat_M7_no_map_is_sent_that_would_be_read_as_another(properties: dict[str, str]) -> None:
    try:
        text = encode_properties(properties, refuse_separators=True)
    except LocalProtocolError:
        return
    assert decode_properties(text) == {name: value for name, value in properties.items() if name and value}


def test_threat_M7_a_broker_takes_them_as_separators() -> None:
    assert decode_properties("n\x01v\x02TAGS\x01forged\x02") == {"n": "v", "TAGS": "forged"}


def test_a_property_is_deleted_as_in_java() -> None:
    with Table() as table:
        for given_text, left in java_cases("properties_delete"):
            with table.row(given_text):
                assert delete_property(hex_text(given_text["hex"]), given_text["name"]) == hex_text(left)


@given(property_maps(), texts(), texts())
def test_a_property_is_deleted(properties: dict[str, str], name: str, value: str) -> None:
    text = encode_properties({**properties, name: value})
    assert decode_properties(text) == {**properties, name: value}
    properties.pop(name, None)
    assert decode_properties(delete_property(text, name)) == properties


def test_what_has_no_last_separator_gets_none_by_deleting() -> None:
    assert delete_property("a\x01b\x02c\x01d", "a") == "c\x01d"


def test_the_crc_property_has_its_lowest_digit_first() -> None:
    with Table() as table:
        for crc, encoded in java_cases("prop_crc_text"):
            with table.row(crc):
                assert encode_crc_property(crc).hex() == encoded
                assert len(encode_crc_property(crc)) == CRC_PROPERTY_SIZE
                assert encode_crc_property(123).decode() == vector("prop_crc_field_for_crc_123")


def test_names_are_those_of_the_golden_messages() -> None:
    """Everything that Apache's brokers and clients put on a message has a name here, or came from the test's user."""
    known = {value for name, value in vars(PropertyName).items() if not name.startswith("_")}
    assert known > RESERVED_PROPERTIES
    seen: set[str] = set()
    for path in GOLDEN.glob("store/*/messages.jsonl"):
        for line in path.read_text("utf-8").splitlines():
            seen.update(json.loads(line).get("properties", ()))
    assert {name for name in seen - known if name.isupper() or name.startswith("__")} == set()
