"""Runs of messages: all that a run leaves in the store is what the same messages put one by one leave there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest

from rocketpy.seams import wall_clock
from rocketpy.wire.java_hash import tags_code
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from rocketpy_broker_sim.store.put_result import Arrival, MessageRun, PutMessageStatus
from tests.broker_sim.store.helpers import HOST, HOST_V6, message, open_store, put_all
from tests.broker_sim.store.index_helpers import FOREVER

NOW = 1_700_000_000_000
QUEUES = 3
ROWS = [
    (0, b"a", "TAGS\x01A\x02KEYS\x01k1 k2\x02"),
    (1, b"b" * 40, "KEYS\x01k1\x02TAGS\x01B\x02"),
    (0, b"c", "UNIQ_KEY\x01U1\x02"),
    (2, b"d" * 7, "xTAGS\x01A\x02"),
    (2, b"e", "TAGS\x01\x02UNIQ_KEY\x01U2\x02"),
    (0, b"f", "p\x01TAGS\x02TAGS\x01a tag whose hash is below zero\x02"),
    (0, b"g", "TAGS\x01B\x02TAGS\x01A\x02"),
    (1, b"h", ""),
    (0, b"i" * 90, "TAGS\x01A\x02KEYS\x01k3\x02UNIQ_KEY\x01U3"),
]
"""Queue, body and properties."""
TAGS = ("A", "B", "a tag whose hash is below zero", "TAGS")
KEYS = ("k1", "k2", "k3", "U1", "U2", "U3", "k")
COMMON = {"flag": 7, "sys_flag": 2, "reconsume_times": 3, "born_host": HOST, "store_host": HOST}


def run_of(rows: Sequence[tuple[int, bytes, str]] = ROWS, topic: str = "Orders", **changes: Any) -> MessageRun:
    queue_ids, bodies, texts = zip(*rows, strict=True)
    times = [NOW - number for number in range(len(rows))]
    return MessageRun(
        topic=topic,
        queue_ids=queue_ids,
        bodies=bodies,
        properties=[text.encode() for text in texts],
        born_timestamps=times,
        **{**COMMON, **changes},
    )


@attrs.frozen
class Places:
    """What a put says."""

    positions: Sequence[int]
    offsets: Sequence[int]
    end: int


def together(store: MessageStore, run: MessageRun) -> Places:
    placed = store.put_run(run)
    assert placed is not None
    return Places(list(placed.positions), list(placed.queue_offsets), placed.end)


def one_by_one(store: MessageStore, run: MessageRun) -> Places:
    columns = zip(run.queue_ids, run.bodies, run.properties, run.born_timestamps, strict=True)
    common = {name: getattr(run, name) for name in COMMON}
    results = [
        store.put(message(body, topic=run.topic, queue_id=queue_id, properties=text, born_timestamp=born, **common))
        for queue_id, body, text, born in columns
    ]
    assert {result.status for result in results} == {PutMessageStatus.PUT_OK}
    places = [result.physical_offset for result in results], [result.queue_offset for result in results]
    return Places(*places, results[-1].end)


@attrs.frozen
class Left:
    """What is there after a run, and other messages before and behind it."""

    places: Places
    arrivals: list[Arrival]
    filtered: dict[tuple[str, int], tuple[int, bytes]]
    with_key: dict[str, list[int]]
    files: dict[str, bytes]


Put = Callable[[MessageStore, MessageRun], Places]


def left_by(put: Put, run: MessageRun, **settings: Any) -> Left:
    storage, arrivals, now = MemoryStorage(), list[Arrival](), NOW
    with wall_clock(lambda: now):
        store = open_store(storage, on_arrival=arrivals.append, mapped_file_size_commit_log=1 << 14, **settings)
        around = [message(b"around", queue_id=queue_id) for queue_id in range(QUEUES)]
        put_all(store, around)
        now += 5000
        places = put(store, run)
        now += 5000
        put_all(store, around)
        filtered = {}
        for tag in TAGS:
            for queue_id in range(QUEUES):
                got = store.reads.get("Orders", queue_id, 0, 32, match={tags_code(tag)}.__contains__)
                filtered[tag, queue_id] = got.count, got.records
        with_key = {key: sorted(store.index.find("Orders", key, 64, *FOREVER).positions) for key in KEYS}
        store.close()
    return Left(places, arrivals, filtered, with_key, files_of(storage))


def files_of(storage: MemoryStorage) -> dict[str, bytes]:
    found, folders = {}, [""]
    while folders:
        folder = folders.pop()
        for name in storage.list(folder):
            path = f"{folder}/{name}" if folder else name
            if storage.is_dir(path):
                folders.append(path)
            else:
                found[path] = storage.read_bytes(path)
    return found


@pytest.mark.parametrize("stored", [HOST, HOST_V6], ids=["stored by v4", "stored by v6"])
@pytest.mark.parametrize("born", [HOST, HOST_V6], ids=["born at v4", "born at v6"])
@pytest.mark.parametrize("setting", ["none", "enabled_append_prop_crc", "enable_consume_queue_ext"])
def test_a_run_leaves_what_its_messages_leave_one_by_one(stored: bytes, born: bytes, setting: str) -> None:
    settings = {} if setting == "none" else {setting: True}
    run = run_of(store_host=stored, born_host=born)
    expected, found = left_by(one_by_one, run, **settings), left_by(together, run, **settings)
    assert found.places == expected.places
    assert found.arrivals == expected.arrivals
    assert found.filtered == expected.filtered
    assert found.with_key == expected.with_key
    assert found.files == expected.files
    # What was compared holds what it is about.
    counts = [sum(found.filtered[tag, queue_id][0] for queue_id in range(QUEUES)) for tag in TAGS]
    assert counts == [3, 1, 1, 0]
    assert [len(found.with_key[key]) for key in KEYS] == [2, 1, 1, 1, 1, 1, 0]
    assert {path.partition("/")[0] for path in found.files} >= {"commitlog", "consumequeue", "index"}


@pytest.mark.parametrize(
    ("row", "changes"),
    [
        pytest.param((QUEUES, b"x", ""), {}, id="a queue that is not there"),
        pytest.param((0, b"x", ""), {"topic": "SCHEDULE_TOPIC_XXXX"}, id="a queue of delays"),
        pytest.param((0, b"x", ""), {"sys_flag": 4}, id="of a transaction"),
        pytest.param((0, b"x" * 1001, ""), {}, id="a body that is too long"),
        pytest.param((0, b"x", "p" * 32_768), {}, id="properties that are too long"),
        pytest.param((0, b"x", ""), {"flag": 1 << 31}, id="a flag that is no number of 32 bits"),
        pytest.param((0, b"x" * 1000, "p" * 14_500), {}, id="no room in the file"),
    ],
)
def test_of_a_run_that_is_not_taken_nothing_is_left(row: tuple[int, bytes, str], changes: dict[str, Any]) -> None:
    store = open_store(max_message_size=1000, mapped_file_size_commit_log=1 << 14)
    topic = changes.get("topic", "Orders")
    before = put_all(store, [message(topic=topic, queue_id=queue_id) for queue_id in range(QUEUES)])
    assert store.put_run(run_of([*ROWS, row], **changes)) is None
    after = put_all(store, [message(topic=topic, queue_id=queue_id) for queue_id in range(QUEUES)])
    assert after[0].physical_offset == before[-1].end
    assert [result.queue_offset for result in after] == [1] * QUEUES


def test_a_run_fills_a_file_up_to_the_bytes_that_its_end_takes() -> None:
    room = (1 << 14) - left_by(together, run_of()).places.end - 8
    taken = []
    for more in range(-2, 3):
        rows = [*ROWS[:-1], (0, b"x" * (90 + room + more), ROWS[-1][2])]

        def if_there_is_room(store: MessageStore, run: MessageRun) -> Places:
            placed = store.put_run(run)
            taken.append(placed is not None)
            return one_by_one(store, run) if placed is None else Places(*map(list, placed[:2]), placed.end)

        assert left_by(if_there_is_room, run_of(rows)) == left_by(one_by_one, run_of(rows))
    assert taken == [True, True, True, False, False]
