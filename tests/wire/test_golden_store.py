"""Every record of commit logs that Apache's brokers wrote, beside what Apache's own decoder made of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from rocketpy.message import MessageExt
from rocketpy.wire.hosts import pack_host, parse_address
from rocketpy.wire.message_codec import decode_messages, decode_record
from rocketpy.wire.properties import encode_properties
from rocketpy.wire.record import BLANK_MAGIC, MAGIC_V1, MAGIC_V2, encode_record, head_layout, read_head
from tests.golden_store import unpacked
from tests.vectors import GOLDEN

STORES = ["5.3.3-clean", "5.3.3-killed", "4.9.7-clean", "5.3.3-v2-topic", "5.3.3-sqlfilter"]


def records(store: str) -> list[dict[str, Any]]:
    lines = (GOLDEN / "store" / store / "messages.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def files(store: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((unpacked(store) / "commitlog").iterdir())}


def facts(message: MessageExt) -> dict[str, Any]:
    """What Apache's decoder said, in its names, from our message."""
    return {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "physicalOffset": message.commit_log_offset,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_timestamp,
        "bornHost": message.born_host,
        "storeTimestamp": message.store_timestamp,
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "bodyCRC": message.body_crc,
        "storeSize": message.store_size,
        "offsetMsgId": message.offset_message_id,
        "properties": message.wire_properties,
        "tags": message.tags,
        "keys": message.wire_properties.get("KEYS"),
        "uniqKey": message.wire_properties.get("UNIQ_KEY"),
        "bodyLength": len(message.body),
        "bodySha256": hashlib.sha256(message.body).hexdigest(),
    }


@pytest.mark.parametrize("store", STORES)
def test_P13_every_stored_message_is_what_java_says(store: str) -> None:
    logs = files(store)
    expected = [record for record in records(store) if record["kind"] == "message"]
    assert len(expected) >= 40
    for record in expected:
        ours = facts(decode_record(logs[record["file"]], record["positionInFile"]))
        assert ours == {name: record.get(name) for name in ours}


@pytest.mark.parametrize("store", STORES)
def test_P13_a_log_is_decoded_as_one_row_up_to_its_filler(store: str) -> None:
    expected = [record for record in records(store) if record["kind"] == "message"]
    for name, data in files(store).items():
        here = [record for record in expected if record["file"] == name]
        end = here[-1]["positionInFile"] + here[-1]["storeSize"] if here else 0
        found = decode_messages(data[:end], broker_name="golden-a")
        assert [message.commit_log_offset for message in found] == [record["physicalOffset"] for record in here]


@pytest.mark.parametrize("store", STORES)
def test_P13_records_written_again_are_the_same_bytes(store: str) -> None:
    logs = files(store)
    versions = set()
    for record in records(store):
        if record["kind"] != "message":
            continue
        data, at = logs[record["file"]], record["positionInFile"]
        message, head = decode_record(data, at), read_head(data, at)
        body_at = at + head_layout(head.sys_flag).size
        topic = message.topic.encode()
        length = 1 if head.magic == MAGIC_V1 else 2
        properties_at = body_at + head.body_length + length + len(topic) + 2
        written = encode_record(
            topic=topic,
            body=data[body_at : body_at + head.body_length],
            properties=data[properties_at : at + head.total_size],
            queue_id=message.queue_id,
            flag=message.flag,
            queue_offset=message.queue_offset,
            physical_offset=message.commit_log_offset,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            born_host=pack_host(*parse_address(message.born_host)),
            store_timestamp=message.store_timestamp,
            store_host=pack_host(*parse_address(message.store_host)),
            reconsume_times=message.reconsume_times,
            prepared_transaction_offset=message.prepared_transaction_offset,
        )
        assert written == data[at : at + head.total_size]
        assert len(encode_properties(message.wire_properties).encode()) <= at + head.total_size - properties_at + 1
        versions.add(head.magic)
    assert versions == ({MAGIC_V1, MAGIC_V2} if store == "5.3.3-v2-topic" else {MAGIC_V1})


@pytest.mark.parametrize("store", [store for store in STORES if store not in ("5.3.3-v2-topic", "5.3.3-sqlfilter")])
def test_fillers_are_recognised(store: str) -> None:
    logs = files(store)
    fillers = [record for record in records(store) if record["kind"] == "blank"]
    assert fillers
    for record in fillers:
        data = logs[record["file"]]
        at = record["physicalOffset"] - int(record["file"])
        head = read_head(data, at)
        assert (head.total_size, head.magic) == (record["size"], BLANK_MAGIC)
        assert at + head.total_size == len(data)
