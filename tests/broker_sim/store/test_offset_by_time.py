"""Offsets by time: the first message stored at or after a time, and the last one stored at or before it."""

from __future__ import annotations

import pytest

from rocketpy.seams import wall_clock
from rocketpy.wire.enums import BoundaryType
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.message_store import MessageStore
from tests.broker_sim.store.golden import NAMES, GoldenStore
from tests.broker_sim.store.helpers import message, open_store, put_all

BEGIN = 1_000_000
STEP = 10
COUNT = 25
LAST = BEGIN + (COUNT - 1) * STEP
FAR = 20_000_000


def filled(times: list[int] | None = None, storage: MemoryStorage | None = None) -> MessageStore:
    """A store with a message at each of the times of the clock, over several files of log and queue."""
    store = open_store(storage or MemoryStorage())
    for now in times or range(BEGIN, LAST + 1, STEP):
        with wall_clock(lambda now=now: now):
            put_all(store, [message(bytes(400))])
    return store


def search(store: MessageStore, time: int) -> tuple[int, int]:
    """(lower, upper)."""
    return (
        store.reads.offset_by_time("Orders", 0, time),
        store.reads.offset_by_time("Orders", 0, time, BoundaryType.UPPER),
    )


@pytest.fixture(scope="module")
def store() -> MessageStore:
    return filled()


@pytest.mark.parametrize("offset", range(COUNT))
def test_ST11_exact(store: MessageStore, offset: int) -> None:
    assert search(store, BEGIN + offset * STEP) == (offset, offset)


@pytest.mark.parametrize("offset", range(COUNT - 1))
@pytest.mark.parametrize("skew", [1, STEP - 1])
def test_ST11_between(store: MessageStore, offset: int, skew: int) -> None:
    assert search(store, BEGIN + offset * STEP + skew) == (offset + 1, offset)


@pytest.mark.parametrize("time", [BEGIN - 1, BEGIN - FAR, 1, 0, -1])
def test_ST11_before_the_first(store: MessageStore, time: int) -> None:
    assert search(store, time) == (0, 0)


@pytest.mark.parametrize("time", [LAST + 1, LAST + FAR, 2**63 - 1])
def test_ST11_after_the_last(store: MessageStore, time: int) -> None:
    assert search(store, time) == (COUNT, COUNT - 1)


@pytest.mark.parametrize(("topic", "queue_id"), [("Orders", 1), ("Nothing", 0)])
def test_ST11_missing_queue(store: MessageStore, topic: str, queue_id: int) -> None:
    for boundary in BoundaryType:
        assert store.reads.offset_by_time(topic, queue_id, BEGIN, boundary) == 0


def test_ST11_many_at_one_time() -> None:
    store = filled([BEGIN] * 12 + [BEGIN + 5] * 13)
    assert search(store, BEGIN) == (0, 11)
    assert search(store, BEGIN + 1) == (12, 11)
    assert search(store, BEGIN + 5) == (12, 24)


@pytest.mark.parametrize("skew", [1, 2, STEP, FAR])
def test_ST11_a_clock_that_goes_back(skew: int) -> None:
    """What is stored after the jump has the time of what was stored before it, until the clock is there again."""
    times = [BEGIN, BEGIN + STEP, BEGIN + STEP - skew, BEGIN + STEP - skew + 1, BEGIN + 3 * STEP]
    store = filled(times)
    stored = [store.reads.store_time("Orders", 0, offset) for offset in range(5)]
    assert stored == [BEGIN, *[BEGIN + STEP] * 3, BEGIN + 3 * STEP]
    assert search(store, BEGIN + STEP) == (1, 3)
    assert search(store, BEGIN + STEP + 1) == (4, 3)
    assert search(store, BEGIN + STEP - skew) == ((1, 0) if skew < STEP else (0, 0))


@pytest.mark.parametrize("skew", [2, FAR])
def test_ST11_a_clock_that_jumps_ahead(skew: int) -> None:
    store = filled([BEGIN, BEGIN + STEP, BEGIN + STEP + skew, BEGIN + 2 * STEP + skew])
    assert search(store, BEGIN + STEP + skew) == (2, 2)
    assert search(store, BEGIN + STEP + skew - 1) == (2, 1)
    assert search(store, BEGIN + STEP + skew + 1) == (3, 2)


def test_ST11_of_what_is_left_after_a_cleaning() -> None:
    storage = MemoryStorage()
    store = filled(storage=storage)
    store.flushing.flush_all()
    for _ in range(2):
        file = store.retention.take_log_file()
        assert file is not None
        store.retention.remove(file)
    # Before the first offsets are corrected nothing else must be found than after.
    (queue,) = store._queues
    low = next(n for n in range(COUNT) if queue.unit(n)[0] >= store.reads.log_start)
    for queue in store.retention.queues():
        store.retention.correct_queue(queue)
        assert search(store, BEGIN) == (low, low)
        assert search(store, BEGIN + low * STEP) == (low, low)
        assert search(store, BEGIN + low * STEP + 1) == (low + 1, low)
        assert search(store, LAST + 1) == (COUNT, COUNT - 1)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("5.")])
def test_ST11_as_apaches_broker_answered(name: str, tmp_path) -> None:
    golden = GoldenStore(name, tmp_path)
    store = golden.open()
    searches = golden.facts["live"]["search_offset"]
    assert searches
    for asked in searches:
        boundary = BoundaryType.UPPER if asked["boundary"] == "UPPER" else BoundaryType.LOWER
        place = asked["topic"], asked["queueId"], asked["timestamp"]
        assert store.reads.offset_by_time(*place, boundary) == asked["offset"], asked
    store.close()


def test_ST11_beside_apaches_older_broker(tmp_path) -> None:
    """4.9.7 takes any message of that time, and else the nearer of the two neighbours; never one behind the end."""
    golden = GoldenStore("4.9.7-clean", tmp_path)
    store = golden.open()
    searches = golden.facts["live"]["search_offset"]
    same = 0
    for asked in searches:
        topic, queue_id, timestamp = asked["topic"], asked["queueId"], asked["timestamp"]
        ours, theirs = store.reads.offset_by_time(topic, queue_id, timestamp), asked["offset"]
        same += ours == theirs
        at = store.reads.store_time(topic, queue_id, theirs)
        if at == timestamp:
            assert store.reads.store_time(topic, queue_id, ours) == timestamp
            continue
        neighbours = [n for n in (ours - 1, ours) if store.reads.store_time(topic, queue_id, n) >= 0]
        nearest = min(neighbours, key=lambda n: abs(store.reads.store_time(topic, queue_id, n) - timestamp))
        assert theirs == nearest, asked
    assert (len(searches), same) == (207, 129)
    store.close()
