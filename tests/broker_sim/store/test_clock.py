"""A wall clock that jumps: stored times never decrease within a log, and recovery asks positions, not times."""

from __future__ import annotations

import itertools

import pytest

from rocketpy.seams import wall_clock
from rocketpy_broker_sim.config import FlushDiskType
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all, read_queue

NOW = 1_790_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
JUMPS = {
    "back 1 ms": NOW - 1,
    "ahead 1 h": NOW + HOUR,
    "back 1 h": NOW - HOUR,
    "ahead 1 day": NOW + DAY,
    "back 1 day": NOW - DAY,
    "1970": 0,
    "2038": 2**31 * 1000,
    "2100": 4_102_444_800_000,
}


@pytest.fixture(params=JUMPS)
def then(request) -> int:
    """Where the clock jumps to."""
    return JUMPS[request.param]


def times_of(store) -> list[int]:
    """Stored times in the order of the log, over all queues."""
    records = sorted(
        (each.commit_log_offset, each.store_timestamp)
        for queue in range(2)
        for each in read_queue(store, "Orders", queue)
    )
    return [time for _, time in records]


def put_some(store, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        put_all(store, [message(b"%d" % number * 200, queue_id=number % 2)])


def test_threat_L10_stored_time_never_decreases(then):
    store = open_store()
    for now in (NOW, then, NOW + 5, then + 10, NOW):
        with wall_clock(lambda now=now: now):
            put_some(store, 4)
    times = times_of(store)
    assert len(times) == 20
    assert times == sorted(times)
    assert max(times) <= max(NOW + 5, then + 10)


@pytest.mark.parametrize("clean", [True, False])
def test_threat_L10_nor_over_restarts(then, clean):
    storage = MemoryStorage()
    for turn, now in enumerate((NOW, then, NOW, then - 7, NOW + 1)):
        with wall_clock(lambda now=now: max(0, now)):
            store = open_store(storage, mapped_file_size_commit_log=1500)
            put_some(store, 3, 3 * turn)
            if clean:
                store.close()
            else:
                storage = storage.clone()
    store = open_store(storage, mapped_file_size_commit_log=1500)
    times = times_of(store)
    assert len(times) == 15
    assert times == sorted(times)


@pytest.mark.parametrize("flushed", range(0, 7, 2))
def test_threat_L10_recovery_finds_everything_whatever_the_clock_says(then, flushed):
    """The checkpoint is from one time, the records behind it from another, and the restart from a third."""
    storage = MemoryStorage()
    store = open_store(storage)
    for number, now in enumerate(itertools.islice(itertools.cycle((NOW, then)), 12)):
        with wall_clock(lambda now=now: now):
            put_some(store, 1, number)
            if number == flushed:
                store.flushing.flush_all()
    with wall_clock(lambda: max(0, 2 * then - NOW)):
        again = open_store(storage.clone())
        assert sorted(map(len, (bodies(again, queue_id=0), bodies(again, queue_id=1)))) == [6, 6]
        assert again.reads.max_offset("Orders", 0) == again.reads.max_offset("Orders", 1) == 6
        put_some(again, 2, 12)
        assert times_of(again) == sorted(times_of(again))


def test_threat_L10_catching_up_goes_by_position(then):
    """Messages that were written and not dispatched are found again after a jump of the clock."""
    storage = MemoryStorage()
    store = open_store(storage, flush_disk_type=FlushDiskType.SYNC_FLUSH)
    for now in (NOW, then, NOW):
        with wall_clock(lambda now=now: now):
            store.put(message(b"at %d" % now))
            store.commit_pending()
    assert bodies(store) == []
    with wall_clock(lambda: then):
        assert len(bodies(open_store(storage.clone()))) == 3
