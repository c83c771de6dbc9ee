"""Directories of Apache's brokers: opened with every message in its place, gone on with, and still in their format."""

from __future__ import annotations

import struct

import pytest

from rocketpy.wire.java_hash import tags_code
from rocketpy.wire.message_codec import decode_record
from rocketpy_broker_sim.store.put_result import GetMessageStatus
from tests.broker_sim.store.golden import NAMES, GoldenStore
from tests.broker_sim.store.helpers import bodies, message, put_all
from tests.broker_sim.store.listing import described, end_of_part, expected


@pytest.fixture(params=NAMES)
def golden(request, tmp_path) -> GoldenStore:
    return GoldenStore(request.param, tmp_path)


def consumable(row: dict) -> bool:
    return row["sysFlag"] & 0xC in (0, 8)


def check_messages(store, golden: GoldenStore) -> None:
    """Every message that the log still holds is there, by position and by queue, as its line tells of it."""
    for row in golden.messages:
        position, place = row["physicalOffset"], (row["topic"], row["queueId"], row["queueOffset"])
        if position < store.reads.log_start:
            assert store.reads.read(position) is None
            continue
        record = store.reads.read(position)
        assert described(record) == expected(row)
        if consumable(row):
            result = store.reads.get(*place, 1)
            assert (result.status, result.records) == (GetMessageStatus.FOUND, record)
            assert store.reads.store_time(*place) == row["storeTimestamp"]


def test_every_message_is_where_apache_put_it(golden):
    store = golden.open()
    assert store.written_position == golden.facts["commitlog_end"]
    assert len(golden.messages) == golden.facts["messages"]
    check_messages(store, golden)
    store.close()


def test_between_the_messages_stand_fillers_and_the_end(golden):
    size = golden.config.mapped_file_size_commit_log
    for row in golden.lines:
        if row["kind"] != "message":
            position = row["physicalOffset"]
            file = golden.root / "commitlog" / f"{position - position % size:020d}"
            assert end_of_part(file.read_bytes()[position % size :]) == {
                "kind": row["kind"],
                "size": row.get("size", 0),
            }


def test_the_ends_of_the_queues_agree(golden):
    store = golden.open()
    known = golden.queues()
    assert known
    for (topic, queue_id), ends in known.items():
        assert (store.reads.min_offset(topic, queue_id), store.reads.max_offset(topic, queue_id)) == ends
    store.close()


def test_reads_by_tag_find_what_the_messages_say(golden):
    store = golden.open()
    for topic, queue_id in golden.queues():
        rows = [row for row in golden.messages if (row["topic"], row["queueId"]) == (topic, queue_id)]
        if topic == "SCHEDULE_TOPIC_XXXX":
            continue
        for tag in {row["tags"] for row in rows if row.get("tags")}:
            wanted = [row["queueOffset"] for row in rows if row.get("tags") == tag]
            offset, found = 0, []
            while offset < store.reads.max_offset(topic, queue_id):
                result = store.reads.get(topic, queue_id, offset, 32, match={tags_code(tag)}.__contains__)
                at = 0
                while at < len(result.records):
                    each = decode_record(result.records, at)
                    found.append(each.queue_offset)
                    at += each.store_size
                offset = result.next_begin_offset
            assert found == wanted
    store.close()


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("sqlfilter")])
def test_queues_built_anew_from_the_log_equal_apaches(name, tmp_path):
    golden = GoldenStore(name, tmp_path)
    units = {path: path.read_bytes() for path in golden.root.glob("consumequeue/*/*/*")}
    for path in units:
        path.unlink()
    (golden.root / "abort").touch()
    (golden.root / "checkpoint").unlink()
    golden.open().close()
    for path, content in units.items():
        assert path.read_bytes() == content, path


def test_ours_goes_on_where_apache_stopped(golden):
    store = golden.open()
    end, ends = store.written_position, golden.queues()
    (topic, queue_id), (_, high) = next(iter(ends.items()))
    results = put_all(store, [message(b"n%d" % n * 200, topic=topic, queue_id=queue_id) for n in range(300)])
    assert results[0].queue_offset == high
    assert results[0].physical_offset >= end
    store.close()
    again = golden.open()
    check_messages(again, golden)
    assert bodies(again, topic, queue_id)[high:] == [b"n%d" % n * 200 for n in range(300)]
    again.close()


def test_the_format_stays_apaches(golden):
    before = {path.relative_to(golden.root) for path in golden.root.rglob("*")}
    store = golden.open()
    put_all(store, [message(b"x" * 500, topic="GS_OURS", queue_id=n % 2) for n in range(400)])
    store.close()
    log_size, queue_size = golden.config.mapped_file_size_commit_log, golden.config.mapped_file_size_consume_queue
    assert {path.stat().st_size for path in golden.root.glob("commitlog/*")} == {log_size}
    assert {path.stat().st_size for path in golden.root.glob("consumequeue/*/*/*")} == {queue_size}
    new = {path.relative_to(golden.root) for path in golden.root.rglob("*")} - before
    assert {path.parts[0] for path in new} <= {"commitlog", "consumequeue", "consumequeue_ext", "index", "queues.json"}
    assert not (golden.root / "abort").exists()
    assert (golden.root / "lock").read_bytes() == b"lock"
    checkpoint = (golden.root / "checkpoint").read_bytes()
    assert len(checkpoint) == 4096
    log_time, queue_time, index_time, master, confirmed = struct.unpack_from(">5q", checkpoint)
    assert log_time == queue_time >= max(row["storeTimestamp"] for row in golden.messages)
    assert (index_time, master, confirmed) == (golden.facts["checkpoint"]["indexMsgTimestamp"], 0, 0)
