"""Reading a queue: how much one read gives, what a filter passes over, how far the search for a match goes."""

from __future__ import annotations

import pytest

from rocketpy.seams import wall_clock
from rocketpy.wire.enums import BoundaryType
from rocketpy.wire.java_hash import tags_code
from rocketpy.wire.message_codec import decode_messages
from rocketpy.wire.properties import encode_properties, find_property
from rocketpy_broker_sim.store.filtering import MessageFilter
from rocketpy_broker_sim.store.log.properties import read_properties
from rocketpy_broker_sim.store.put_result import GetMessageStatus
from tests.broker_sim.store.helpers import message, open_store, put_all

BIG = {"mapped_file_size_commit_log": 1 << 20, "mapped_file_size_consume_queue": 60_000}
FOUND = GetMessageStatus.FOUND
NO_MATCH = GetMessageStatus.NO_MATCHED_MESSAGE


def tagged(tag: str, body: bytes = b"body"):
    return message(body, properties=f"TAGS\x01{tag}\x02")


def only(tag: str):
    return {tags_code(tag)}.__contains__


@pytest.mark.parametrize(
    ("memory", "body", "count", "expected"),
    [
        (1 << 30, 100, 100, 32),  # in memory: 32 messages
        (1 << 30, 100, 7, 7),  # never more than asked for
        (1 << 30, 10_000, 100, 25),  # in memory: 256 KiB, of records of 10,091 bytes
        (0, 100, 100, 8),  # on disk: 8 messages
        (0, 10_000, 100, 6),  # on disk: 64 KiB
        (0, 100_000, 100, 1),  # always one, however large
    ],
)
def test_ST12_limits_of_one_read(memory, body, count, expected):
    store = open_store(memory_size=memory, **BIG)
    put_all(store, [message(b"x" * body) for _ in range(60 if body < 100_000 else 5)])
    result = store.reads.get("Orders", 0, 0, count)
    assert (result.status, result.count, result.next_begin_offset) == (FOUND, expected, expected)
    assert len(decode_messages(result.records)) == expected


def test_ST12_the_limits_are_settings():
    limits = {
        "max_transfer_count_on_message_in_memory": 50,
        "max_transfer_bytes_on_message_in_memory": 3000,
        "max_transfer_count_on_message_in_disk": 3,
    }
    store = open_store(memory_size=5000, access_message_in_memory_max_ratio=100, **limits, **BIG)
    results = put_all(store, [message(b"x" * 100) for _ in range(60)])
    size = results[0].size
    assert store.reads.get("Orders", 0, 0, 100).count == 3
    near = 60 - 5000 // size
    assert store.reads.get("Orders", 0, near, 100).count == 3000 // size
    # A read that begins on the disk and reaches into memory goes on by the larger limits.
    assert store.reads.get("Orders", 0, near - 2, 100).count > 3


def test_ST12_bytes_asked_for():
    store = open_store(**BIG)
    size = put_all(store, [message(b"x" * 200) for _ in range(20)])[0].size
    assert store.reads.get("Orders", 0, 0, 32, max_bytes=5 * size).count == 5
    assert store.reads.get("Orders", 0, 0, 32, max_bytes=5 * size - 1).count == 4
    assert store.reads.get("Orders", 0, 0, 32, max_bytes=1).count == 1


def test_a_read_ends_with_the_queue_file():
    store = open_store(mapped_file_size_consume_queue=200)  # ten units a file
    put_all(store, [message() for _ in range(25)])
    assert [store.reads.get("Orders", 0, offset, 32).next_begin_offset for offset in (0, 7, 10, 20)] == [10, 10, 20, 25]


def test_filtered_units_advance_the_next_offset():
    store = open_store(**BIG)
    put_all(store, [tagged("AB"[n % 4 == 3]) for n in range(40)])
    result = store.reads.get("Orders", 0, 0, 5, match=only("B"))
    assert [each.queue_offset for each in decode_messages(result.records)] == [3, 7, 11, 15, 19]
    assert (result.status, result.next_begin_offset) == (FOUND, 20)
    result = store.reads.get("Orders", 0, 36, 32, match=only("B"))
    assert (result.count, result.next_begin_offset) == (1, 40)
    result = store.reads.get("Orders", 0, 0, 32, match=only("C"))
    assert (result.status, result.next_begin_offset, result.records) == (NO_MATCH, 40, b"")


def test_the_second_phase_reads_what_the_first_let_through_and_no_more():
    store = open_store(**BIG)
    put_all(
        store,
        [
            message(properties=encode_properties({"TAGS": "AB"[n % 2], "k": str(n)}), tags_code=ord("AB"[n % 2]))
            for n in range(20)
        ],
    )
    seen = []

    def by_message(properties):
        number = find_property(properties, b"k")
        seen.append(number.decode())
        return int(number) % 3 == 0

    wanted = MessageFilter(frozenset({ord("A")}), by_message=by_message)
    result = store.reads.get("Orders", 0, 0, 32, wanted=wanted)
    assert [each.queue_offset for each in decode_messages(result.records)] == [0, 6, 12, 18]
    assert seen == [str(n) for n in range(0, 20, 2)]
    assert result.next_begin_offset == 20
    nothing = store.reads.get("Orders", 0, 0, 32, wanted=MessageFilter(by_message=lambda properties: False))
    assert (nothing.status, nothing.next_begin_offset) == (NO_MATCH, 20)
    two = store.reads.get("Orders", 0, 0, 2, wanted=wanted)
    assert (two.count, two.next_begin_offset) == (2, 7)


def test_a_filter_that_takes_long_looks_at_few_messages_at_once():
    store = open_store(**BIG)
    put_all(store, [tagged("A") for _ in range(100)])
    wanted = MessageFilter(by_message=lambda properties: False, most_looked_at=10)
    result = store.reads.get("Orders", 0, 0, 32, wanted=wanted)
    assert (result.status, result.next_begin_offset) == (NO_MATCH, 10)
    wanted = MessageFilter(by_message=lambda properties: False, most_bytes=20)  # a message has seven
    result = store.reads.get("Orders", 0, 0, 32, wanted=wanted)
    assert (result.status, result.next_begin_offset) == (NO_MATCH, 3)


@pytest.mark.parametrize("size", [1, 3900, 4100, 100_000])
def test_the_properties_of_a_record_are_found_whatever_its_size(size: int) -> None:
    store = open_store(**BIG)
    properties = encode_properties({"TAGS": "A", "k": "x" * 3000}).encode()
    put_all(store, [message(b"b" * size, properties=properties.decode())])
    position, record_size, _ = store._queues.find(("Orders", 0)).unit(0)
    assert read_properties(store._log, position, record_size) == properties
    assert read_properties(store._log, position, record_size - 1) is None
    assert read_properties(store._log, position, 3) is None
    assert read_properties(store._log, position + record_size, 100) is None


def test_the_search_for_a_match_ends_with_its_window():
    store = open_store(**BIG)
    put_all(store, [tagged("A") for _ in range(900)] + [tagged("B")])
    first = store.reads.get("Orders", 0, 0, 32, match=only("B"))
    assert (first.status, first.next_begin_offset) == (NO_MATCH, 16_000 // 20)
    second = store.reads.get("Orders", 0, first.next_begin_offset, 32, match=only("B"))
    assert (second.status, second.count, second.next_begin_offset) == (FOUND, 1, 901)
    wide = store.reads.get("Orders", 0, 0, 950, match=only("B"))
    assert (wide.status, wide.next_begin_offset) == (FOUND, 901)


def test_the_search_goes_through_as_many_files_as_it_may():
    for files, expected in ((1, 10), (2, 20), (5, 25)):
        store = open_store(mapped_file_size_consume_queue=200, travel_cq_file_num_when_get_message=files)
        put_all(store, [tagged("A") for _ in range(25)])
        assert store.reads.get("Orders", 0, 0, 32, match=only("B")).next_begin_offset == expected
        assert (
            store.reads.get("Orders", 0, 0, 32, match=only("A")).next_begin_offset == 10
        )  # it ends where it found some


def test_a_tag_that_the_caller_hashed_is_believed():
    store = open_store()
    put_all(store, [message(tags_code=42), message(properties="TAGS\x01A\x02KEYS\x01k\x02")])
    assert store.reads.get("Orders", 0, 0, 32, match={42}.__contains__).count == 1
    assert store.reads.get("Orders", 0, 0, 32, match=only("A")).next_begin_offset == 2


def test_a_reader_far_behind_is_sent_to_a_slave():
    store = open_store(memory_size=4000, access_message_in_memory_max_ratio=50, **BIG)
    put_all(store, [message(b"x" * 400) for _ in range(20)])
    assert store.reads.get("Orders", 0, 0, 1).suggest_pulling_from_slave
    assert not store.reads.get("Orders", 0, 19, 1).suggest_pulling_from_slave
    assert not store.reads.is_in_memory("Orders", 0, 0)
    assert store.reads.is_in_memory("Orders", 0, 19)


def timed(times: list[int], **settings):
    """A store with one message at each time."""
    store = open_store(**settings)
    for time in times:
        with wall_clock(lambda time=time: time):
            put_all(store, [message()])
    return store


@pytest.mark.parametrize(
    ("time", "lower", "upper"),
    [(1, 0, 0), (1000, 0, 1), (1001, 2, 1), (2000, 2, 2), (2999, 3, 2), (3000, 3, 13), (9999, 14, 13)],
)
def test_offset_by_time(time, lower, upper):
    store = timed([1000, 1000, 2000, *[3000] * 11], mapped_file_size_consume_queue=200)
    assert store.reads.offset_by_time("Orders", 0, time) == lower
    assert store.reads.offset_by_time("Orders", 0, time, BoundaryType.UPPER) == upper


def test_times_of_messages():
    store = timed([1000, 2000, 3000])
    assert [store.reads.store_time("Orders", 0, offset) for offset in (-1, 0, 1, 2, 3)] == [-1, 1000, 2000, 3000, -1]
    assert store.reads.earliest_store_time("Orders", 0) == 1000
    assert (store.reads.earliest_store_time("Orders", 1), store.reads.offset_by_time("Orders", 1, 5)) == (-1, 0)


def test_arrivals_are_told_once_a_queue():
    seen = []
    store = open_store(on_arrival=seen.append)
    put_all(store, [message(queue_id=n % 2, tags_code=n) for n in range(6)])
    assert [each[:4] for each in seen] == [("Orders", 0, 3, [0, 2, 4]), ("Orders", 1, 3, [1, 3, 5])]
    store.reput()
    assert len(seen) == 2
