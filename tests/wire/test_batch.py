"""Batches: the rules, the body, batches stored whole."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import ConfigError, LocalProtocolError, MessageDecodeError
from rocketpy.message import Message
from rocketpy.wire.batch import BatchItem, batch_item_size, check_batch, decode_batch, encode_batch
from rocketpy.wire.inner_batch import is_inner_batch, unwrap_inner_batch
from rocketpy.wire.message_codec import decode_record
from rocketpy.wire.properties import decode_properties
from rocketpy.wire.record import encode_record
from rocketpy.wire.sysflag import INNER_BATCH, NEED_UNWRAP
from tests.strategies import messages
from tests.tables import Table
from tests.vectors import java_cases
from tests.wire.test_record import PLAIN


def test_B1_messages_of_one_topic_and_one_wait_flag_may_travel_together() -> None:
    check_batch([Message("T", b"a", tags="x"), Message("T", b"b", keys=["k"])])
    check_batch([Message("T", b"a", wait_store_ok=False)] * 3)


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        ([], "at least one"),
        ([Message("T", b"a"), Message("U", b"b")], "one topic, this one to T and U"),
        ([Message("T", b"a"), Message("T", b"b", wait_store_ok=False)], "wait_store_ok"),
        ([Message("T", b"a"), Message("T", b"b", delay_level=1)], "delayed"),
        ([Message("T", b"a", delay=1.5)], "delayed"),
        ([Message("T", b"a", deliver_at=datetime(2030, 1, 1, tzinfo=UTC))], "delayed"),
        ([Message("%RETRY%g", b"a")], "retry topic"),
        ([Message("T", b"a"), Message("%RETRY%g", b"a")], "one topic"),
    ],
    ids=["none", "topics", "wait", "level", "delay", "time", "retry", "retry second"],
)
def test_B1_other_messages_may_not(batch: list[Message], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_batch(batch)


def test_the_body_is_the_one_that_java_writes() -> None:
    ((java, encoded),) = java_cases("batch_encode")
    batch = []
    for item in java["items"]:
        message = Message("T", item["body"].encode())
        message.flag = item["flag"]
        message.wire_properties = dict(item["properties"])
        batch.append(message)
    assert encode_batch(batch).hex() == encoded


@given(st.lists(messages("T"), max_size=5))
def test_batches_survive_the_way_there_and_back(batch: list[Message]) -> None:
    data = encode_batch(batch)
    assert len(data) == sum(map(batch_item_size, batch))
    items = decode_batch(data)
    assert [item.body for item in items] == [message.body for message in batch]
    assert [decode_properties(item.properties.decode()) for item in items] == [m.wire_properties for m in batch]


@given(st.lists(messages("T"), max_size=5))
def test_unique_ids_are_put_after_the_properties_of_messages_without_one(batch: list[Message]) -> None:
    ids = [f"{number:032X}" for number in range(len(batch))]
    whole = []
    for message, new in zip(batch, ids, strict=True):
        named = Message("T", message.body)
        named.flag = message.flag
        named.wire_properties = {**message.wire_properties, "UNIQ_KEY": message.wire_properties.get("UNIQ_KEY", new)}
        whole.append(named)
    assert encode_batch(batch, ids) == encode_batch(whole)


def test_messages_with_and_without_an_id_and_with_equal_properties_may_be_mixed() -> None:
    batch = [Message("T", b"%d" % number * number) for number in range(1, 7)]
    batch[1].wire_properties["UNIQ_KEY"] = batch[2].wire_properties["UNIQ_KEY"] = "mine"
    items = decode_batch(encode_batch(batch, "abcdef"))
    assert [item.body for item in items] == [message.body for message in batch]
    assert [decode_properties(item.properties.decode())["UNIQ_KEY"] for item in items] == [
        *("a", "mine", "mine", "d", "e", "f")
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"flag": 2**31},
        {"wire_properties": {"p": "x" * 32_767}},
        {"wire_properties": {"p": "\ud800"}},
        {"wire_properties": {"p": "\x02"}},
        {"wire_properties": {"p\x02": "v", "\x01q": "w"}},
    ],
    ids=["flag", "properties", "surrogate", "separator", "separators in names"],
)
def test_threat_M7_what_a_batch_cannot_carry_is_refused(change: dict[str, Any]) -> None:
    message = Message("T", b"a")
    for name, value in change.items():
        setattr(message, name, value)
    with pytest.raises(LocalProtocolError):
        encode_batch([message])


def test_names_are_taken_as_they_are_and_values_of_none_are_left_out() -> None:
    batch = [Message("T", b"a") for _ in range(4)]
    odd: list[dict[str, Any]] = [{"100%": "1", "%s": "%d"}, {"p": None, "q": "v"}, {"p": "v", "q": None}, {"p": "v"}]
    for message, properties in zip(batch, odd, strict=True):
        message.wire_properties = properties
    texts = [item.properties for item in decode_batch(encode_batch(batch, "wxyz"))]
    assert texts == [
        b"100%\x011\x02%s\x01%d\x02UNIQ_KEY\x01w\x02",
        b"q\x01v\x02UNIQ_KEY\x01x\x02",
        b"p\x01v\x02UNIQ_KEY\x01y\x02",
        b"p\x01v\x02UNIQ_KEY\x01z\x02",
    ]


ITEM = encode_batch([Message("T", b"body")])


def test_threat_M1_lengths_of_items_must_add_up() -> None:
    rows = [
        (0, ">i", 0), (0, ">i", -1), (0, ">i", 21), (0, ">i", len(ITEM) - 1), (0, ">i", len(ITEM) + 1),
        (0, ">i", 2**31 - 1),
        (16, ">i", -1), (16, ">i", 3), (16, ">i", 5), (16, ">i", 2**31 - 1), (16, ">i", -(2**31)),
        (24, ">h", -1), (24, ">h", 0), (24, ">h", 32767),
    ]  # fmt: skip
    with Table() as table:
        for at, layout, value in rows:
            with table.row(f"{value} at {at}"):
                damaged = bytearray(ITEM)
                struct.pack_into(layout, damaged, at, value)
                with pytest.raises(MessageDecodeError, match="item 1 of a batch"):
                    decode_batch(ITEM + bytes(damaged))


@pytest.mark.parametrize("size", [32767, 32768, 65535])
def test_threat_F6_properties_of_a_negative_length_are_an_error(size: int) -> None:
    item = struct.pack(">iiiiibH", 23 + size, 0, 0, 0, 1, 0, size) + b"p" * size
    if size <= 32767:
        assert len(decode_batch(item)[0].properties) == size
    else:
        with pytest.raises(MessageDecodeError, match="item 0 of a batch"):
            decode_batch(item)


def test_an_item_may_have_neither_a_body_nor_properties() -> None:
    bare = struct.pack(">iiiiih", 22, 0, 0, 7, 0, 0)
    assert decode_batch(bare + ITEM + bare) == [BatchItem(7, b"", b""), *decode_batch(ITEM), BatchItem(7, b"", b"")]


def test_threat_M1_a_cut_batch_is_an_error() -> None:
    with Table() as table:
        for cut in range(1, len(ITEM)):
            with table.row(cut):
                with pytest.raises(MessageDecodeError):
                    decode_batch(ITEM + ITEM[:cut])


@given(st.binary(max_size=200))
def test_any_bytes_are_items_or_a_decode_error(data: bytes) -> None:
    try:
        items = decode_batch(data)
    except MessageDecodeError:
        return
    assert all(isinstance(item, BatchItem) for item in items)


def test_a_batch_stored_whole_is_taken_apart() -> None:
    body = encode_batch([Message("T", b"one", tags="a"), Message("T", b"two", keys="k")])
    whole = decode_record(
        encode_record(**{**PLAIN, "body": body, "sys_flag": INNER_BATCH | NEED_UNWRAP, "queue_offset": 40}),
        broker_name="b",
    )
    assert is_inner_batch(whole)
    first, second = unwrap_inner_batch(whole)
    assert [first.body, second.body] == [b"one", b"two"]
    assert [first.queue_offset, second.queue_offset] == [40, 41]
    assert (first.tags, second.keys) == ("a", ("k",))
    for message in (first, second):
        assert message.queue == whole.queue
        assert message.born_host == whole.born_host
        assert message.commit_log_offset == whole.commit_log_offset


@pytest.mark.parametrize("flag", [0, INNER_BATCH, NEED_UNWRAP])
def test_other_messages_are_no_inner_batch(flag: int) -> None:
    assert not is_inner_batch(decode_record(encode_record(**{**PLAIN, "sys_flag": flag})))


def test_an_inner_batch_that_is_none_is_a_decode_error() -> None:
    whole = decode_record(encode_record(**{**PLAIN, "sys_flag": INNER_BATCH | NEED_UNWRAP}))
    with pytest.raises(MessageDecodeError):
        unwrap_inner_batch(whole)


VALUE = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1, max_size=9)


@given(
    st.dictionaries(st.sampled_from(["A", "%s", "KEYS", "UNIQ_KEY", "Größe"]), st.none(), min_size=1),
    st.lists(st.lists(st.one_of(VALUE, st.just("same")), min_size=5, max_size=5), min_size=2, max_size=6),
    st.booleans(),
)
def test_messages_that_differ_in_values_are_encoded_as_one_after_the_other(names, values, named):
    batch = []
    for number, each in enumerate(values):
        message = Message("T", b"%d" % number * (number + 1))
        message.flag = number
        message.wire_properties = dict(zip(names, each, strict=False))
        batch.append(message)
    ids = [f"{number:032X}" for number in range(len(batch))] if named else None
    each_alone = b"".join(encode_batch([message], ids and [ids[at]]) for at, message in enumerate(batch))
    assert encode_batch(batch, ids) == each_alone


def test_a_value_that_is_none_is_left_out_wherever_it_stands() -> None:
    batch = [Message("T", b"x", keys=f"k{number}") for number in range(3)]
    batch[1].wire_properties["KEYS"] = None  # type: ignore[assignment]  # nothing keeps users from it
    found = [decode_properties(item.properties.decode()) for item in decode_batch(encode_batch(batch))]
    assert [each.get("KEYS") for each in found] == ["k0", None, "k2"]


@pytest.mark.parametrize("value", ["x" * 32_767, "\ud800", "\x02", "a\x01b\x02c"])
def test_a_message_at_fault_is_told_as_if_it_were_alone(value: str) -> None:
    batch = [Message("T", b"x", keys=f"k{number}") for number in range(5)]
    batch[3].wire_properties["KEYS"] = value
    with pytest.raises(LocalProtocolError) as alone:
        encode_batch([batch[3]], ["id"])
    with pytest.raises(LocalProtocolError) as among_others:
        encode_batch(batch, ["id"] * 5)
    assert str(among_others.value) == str(alone.value)
