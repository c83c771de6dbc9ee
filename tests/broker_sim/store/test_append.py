"""What a put takes and refuses, alone and as a batch, and where records go at the end of a file."""

from __future__ import annotations

import pytest

from rocketpy.wire.batch_columns import BatchItem, columns_of
from rocketpy.wire.message_codec import decode_messages, decode_record
from rocketpy.wire.sysflag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.put_result import PutMessageStatus
from tests.broker_sim.store.helpers import HOST, HOST_V6, bodies, message, open_store, put_all, read_queue

ILLEGAL = PutMessageStatus.MESSAGE_ILLEGAL
LIMIT = {"max_message_size": 1000, "mapped_file_size_commit_log": 1 << 18}


def batch(*items: bytes, own: bytes = b"", **fields):
    return message(b"", batch=[BatchItem(n, item, own) for n, item in enumerate(items)], **fields)


# --- batches


def test_B3_a_batch_is_stored_in_order_with_consecutive_offsets():
    store = open_store()
    put_all(store, [message(), message(queue_id=1)])
    result = store.put_batch(batch(b"a", b"b", b"c", own=b"KEYS\x01k\x02"))
    assert result.status is PutMessageStatus.PUT_OK
    assert result.queue_offset == 1
    store.commit_pending()
    store.reput()
    found = read_queue(store)[1:]
    assert [(each.body, each.queue_offset, each.flag) for each in found] == [(b"a", 1, 0), (b"b", 2, 1), (b"c", 3, 2)]
    assert [each.offset_message_id for each in found] == result.offset_message_id.split(",")
    assert [each.commit_log_offset for each in found] == list(result.offsets)
    assert {each.store_timestamp for each in found} == {result.store_timestamp}
    assert result.size == sum(each.store_size for each in found)
    assert put_all(store, [message()])[0].queue_offset == 4


@pytest.mark.parametrize(
    ("own", "added", "stored"),
    [
        (b"KEYS\x01k\x02", "CLUSTER\x01c\x02", {"KEYS": "k", "CLUSTER": "c"}),
        (b"KEYS\x01k", "CLUSTER\x01c\x02", {"KEYS": "k", "CLUSTER": "c"}),
        (b"", "CLUSTER\x01c\x02", {"CLUSTER": "c"}),
        (b"KEYS\x01k\x02", "", {"KEYS": "k"}),
    ],
)
@pytest.mark.parametrize("with_crc", [False, True])
def test_B3_properties_of_the_broker_go_to_every_item(own, added, stored, with_crc):
    store = open_store(enabled_append_prop_crc=with_crc)
    store.put_batch(batch(b"a", b"b", own=own, properties=added))
    store.commit_pending()
    store.reput()
    for each in read_queue(store):
        properties = dict(each.wire_properties)
        assert ("__CRC32#" in properties) is with_crc
        properties.pop("__CRC32#", None)
        assert properties == stored


def test_B3_tags_of_some_items_are_found_by_a_filter():
    store = open_store()
    store.put_batch(message(b"", batch=[BatchItem(0, b"x", text) for text in (b"", b"TAGS\x01A\x02", b"")]))
    store.commit_pending()
    store.reput()
    result = store.reads.get("Orders", 0, 0, 32, match={ord("A")}.__contains__)
    assert [each.queue_offset for each in decode_messages(result.records)] == [1]


@pytest.mark.parametrize("added", ["", "CLUSTER\x01c\x02"])
@pytest.mark.parametrize("alike", [False, True])
def test_B3_tags_of_the_items_are_found_by_a_filter(alike, added):
    store = open_store()
    items = columns_of([BatchItem(0, tag, b"TAGS\x01%b\x02" % tag) for tag in (b"A", b"B", b"A")])
    items.have_same_names = alike
    store.put_batch(message(b"", batch=items, properties=added))
    store.commit_pending()
    store.reput()
    result = store.reads.get("Orders", 0, 0, 32, match={ord("A")}.__contains__)
    assert [each.queue_offset for each in decode_messages(result.records)] == [0, 2]


def test_B3_a_batch_that_does_not_fit_goes_to_the_next_file_as_a_whole():
    store = open_store()  # files of 4096 bytes
    first = put_all(store, [message(b"x" * 3000)])[0]
    result = store.put_batch(batch(b"a" * 300, b"b" * 300, b"c" * 300))
    assert next(iter(result.offsets)) == result.physical_offset == 4096
    assert store.reads.read(first.size, 8) is None
    store.commit_pending()
    store.reput()
    filler = store.reads.read(first.size, 8)
    assert filler == (4096 - first.size).to_bytes(4, "big") + bytes.fromhex("cbd43194")
    assert [body[:1] for body in bodies(store)] == [b"x", b"a", b"b", b"c"]


def test_B3_a_batch_larger_than_a_file_is_refused():
    store = open_store()
    assert store.put_batch(batch(*[b"x" * 500] * 10)).status is ILLEGAL
    assert put_all(store, [message()])[0].queue_offset == 0


@pytest.mark.parametrize("born", [HOST, HOST_V6])
@pytest.mark.parametrize("stored", [HOST, HOST_V6])
def test_B3_ipv6_hosts(born, stored):
    store = open_store()
    fields = {"born_host": born, "store_host": stored}
    results = [store.put_batch(batch(b"a", b"b", **fields)), store.put(message(b"c", **fields))]
    store.commit_pending()
    store.reput()
    for each in read_queue(store):
        assert each.born_host == ("127.0.0.1:10911" if born == HOST else "[::1]:10911")
        assert each.store_host == ("127.0.0.1:10911" if stored == HOST else "[::1]:10911")
        assert each.sys_flag == 0x10 * (born == HOST_V6) + 0x20 * (stored == HOST_V6)
    assert len(results[1].offset_message_id) == (32 if stored == HOST else 56)
    assert results[1].offset_message_id == read_queue(store)[2].offset_message_id


def test_B3_ST9_size_limits_of_a_batch():
    store = open_store(**LIMIT)
    assert store.put_batch(batch(b"x" * 478, b"x" * 478)).status is PutMessageStatus.PUT_OK
    assert store.put_batch(batch(b"x" * 478, b"x" * 479)).status is ILLEGAL
    assert store.put_batch(batch(b"x", own=b"p" * 978)).status is ILLEGAL
    assert store.put_batch(batch()).status is ILLEGAL
    store.commit_pending()
    store.reput()
    assert store.reads.max_offset("Orders", 0) == 2


# --- single messages


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"body": b"x" * 1000}, PutMessageStatus.PUT_OK),
        ({"body": b"x" * 1001}, ILLEGAL),
        ({"properties": "p" * 32_767}, PutMessageStatus.PUT_OK),
        ({"properties": "p" * 32_768}, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
        ({"properties": "é" * 16_384}, PutMessageStatus.PROPERTIES_SIZE_EXCEEDED),
        ({"queue_id": -1}, ILLEGAL),
        ({"queue_id": 2**31}, ILLEGAL),
        ({"flag": 2**31}, ILLEGAL),
        ({"born_host": b"short"}, ILLEGAL),
        ({"topic": "t" * 127}, PutMessageStatus.PUT_OK),
        ({"topic": "t" * 128}, ILLEGAL),
        ({"topic": "%RETRY%" + "g" * 248}, PutMessageStatus.PUT_OK),
        ({"topic": "%RETRY%" + "g" * 249}, ILLEGAL),
        ({"topic": "%DLQ%" + "g" * 123}, ILLEGAL),
    ],
)
def test_ST9_K4_what_a_put_takes(fields, status):
    store = open_store(**LIMIT)
    assert store.put(message(**{"body": b"b", **fields})).status is status
    following = put_all(store, [message(b"next", topic="Next")])[0]
    assert decode_record(store.reads.read(following.physical_offset)).body == b"next"
    assert store.reads.max_offset("Next", 0) == 1


def test_long_retry_topics_need_the_second_version_of_records():
    store = open_store(auto_message_version_on_topic_len=False)
    assert store.put(message(topic="%RETRY%" + "g" * 120)).status is PutMessageStatus.PUT_OK
    assert store.put(message(topic="%RETRY%" + "g" * 121)).status is ILLEGAL


@pytest.mark.parametrize("topic", ["", ".", "..", "../up", "a/b", "a\\b", "a\0b", "/etc", "tö", "a b", "%RETRY%../g"])
def test_topics_that_would_leave_the_store_are_refused(topic):
    storage = MemoryStorage()
    store = open_store(storage)
    assert store.put(message(topic=topic)).status is ILLEGAL
    assert store.put_batch(batch(b"a", topic=topic)).status is ILLEGAL
    put_all(store, [message()])
    assert storage.list("consumequeue") == ["Orders"]


def test_ST9_limits_may_change_at_run_time():
    storage = MemoryStorage()
    store = open_store(storage)
    assert store.put(message(b"x" * 200)).status is PutMessageStatus.PUT_OK
    store.config.max_message_size = 100
    assert store.put(message(b"x" * 200)).status is ILLEGAL
    assert store.put_batch(batch(b"x" * 60, b"y" * 60)).status is ILLEGAL
    store.config.max_message_size = 200
    assert (
        store.put(message(b"x" * 200)).status
        is store.put_batch(batch(b"x" * 60, b"y" * 60)).status
        is PutMessageStatus.PUT_OK
    )


def test_a_record_leaves_at_least_eight_bytes_of_a_file():
    for room in range(110, 100, -1):  # 101 bytes are a record of this body and topic
        store = open_store()
        first = put_all(store, [message(b"x" * (4096 - 97 - room))])[0]
        assert first.size == 4096 - room
        second = put_all(store, [message(b"m000")])[0]
        assert second.physical_offset == (first.size if room >= 101 + 8 else 4096)


def test_prepared_and_rolled_back_transactions_take_no_offset():
    store = open_store()
    results = put_all(store, [message(sys_flag=flag) for flag in (0, 4, 12, 8, 0)])
    assert [result.queue_offset for result in results] == [0, 0, 0, 1, 2]
    assert [each.queue_offset for each in read_queue(store)] == [0, 1, 2]


def test_scheduled_messages_carry_their_time():
    store = open_store()
    results = put_all(
        store,
        [
            message(topic="SCHEDULE_TOPIC_XXXX", properties=f"DELAY\x01{level}\x02TAGS\x01A\x02", tags_code=7)
            for level in ("1", "3", "18", "99", "0", "x")
        ],
    )
    codes = []
    store.reads.get("SCHEDULE_TOPIC_XXXX", 0, 0, 32, match=lambda code: codes.append(code) is None)
    now = results[0].store_timestamp
    delays = [code - result.store_timestamp for code, result in zip(codes, results, strict=True)]
    assert delays[:4] == [1000, 10_000, 7_200_000, 7_200_000]
    assert codes[4:] == [65, 65]
    assert now > 0


def test_a_forged_checksum_is_not_taken_for_ours():
    storage = MemoryStorage()
    store = open_store(storage, enabled_append_prop_crc=True)
    forged = "KEYS\x01k\x02__CRC32#\x010000000000\x02"
    put_all(store, [message(b"a", properties=forged), message(b"b")])
    store.put_batch(message(b"", batch=[BatchItem(0, b"c", forged.encode())]))
    store.commit_pending()
    store.reput()
    again = open_store(storage.clone(), enabled_append_prop_crc=True, force_verify_prop_crc=True)
    assert bodies(again) == [b"a", b"b", b"c"]
    assert all(each.wire_properties["__CRC32#"] != "0000000000" for each in read_queue(again))


@pytest.mark.parametrize("flag", [TRANSACTION_PREPARED, TRANSACTION_COMMIT, TRANSACTION_ROLLBACK])
def test_a_batch_has_no_part_in_a_transaction(flag):
    store = open_store()
    assert store.put_batch(batch(b"a", b"b", sys_flag=flag)).status is ILLEGAL
    assert store.reads.max_offset("T", 0) == 0


def test_a_batch_that_cannot_be_encoded_leaves_nothing_behind():
    store = open_store()
    items = [BatchItem(0, b"a", b""), BatchItem(1 << 31, b"b", b"")]
    assert store.put_batch(message(b"", batch=items)).status is ILLEGAL
    result, after = put_all(store, [message(), message()])
    assert (result.physical_offset, result.queue_offset, after.queue_offset) == (0, 0, 1)
