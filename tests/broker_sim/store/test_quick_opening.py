"""Opening after a clean stop reads the end of the log, not the whole of its last file."""

from __future__ import annotations

import pytest

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.store import recovery
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.log.scan import LogScan
from tests.broker_sim.store.helpers import bodies, message, open_store, put_all

LOG = "commitlog/00000000000000000000"
CHECKED = 500


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where each reading of the log began."""
    begun: list[int] = []
    real = LogScan.__init__

    def noted(self: LogScan, row, position: int, *rest) -> None:
        begun.append(position)
        real(self, row, position, *rest)

    monkeypatch.setattr(LogScan, "__init__", noted)
    monkeypatch.setattr(recovery, "CHECKED_AFTER_STOP", CHECKED)
    return begun


def filled(count: int = 30) -> tuple[MemoryStorage, list]:
    storage = MemoryStorage()
    store = open_store(storage)
    results = put_all(store, [message(b"m%03d" % n, queue_id=n % 3) for n in range(count)])
    store.close()
    return storage, results


def damage(storage: MemoryStorage, position: int) -> None:
    file = storage.open(LOG)
    file.pwrite(bytes([file.pread(1, position)[0] ^ 0xFF]), position)


def test_reading_begins_with_a_record_some_way_before_the_end(started: list[int]):
    storage, results = filled()
    started.clear()
    store = open_store(storage)
    end = results[-1].physical_offset + results[-1].size
    assert started[0] in {result.physical_offset for result in results}
    assert end - CHECKED - 3 * results[0].size <= started[0] <= end - CHECKED
    assert store.written_position == end
    assert bodies(store) == [b"m%03d" % n for n in range(0, 30, 3)]
    (again,) = put_all(store, [message(b"again")])
    assert (again.physical_offset, again.queue_offset) == (end, 10)
    store.close()
    assert bodies(open_store(storage))[-1] == b"again"


def test_damage_near_the_end_stops_the_broker_still(started: list[int]):
    storage, results = filled()
    damage(storage, results[-3].physical_offset + 90)
    with pytest.raises(StoreCorruptError, match="valid record follows"):
        open_store(storage)


@pytest.mark.parametrize("count", [1, 3])
def test_a_log_that_is_shorter_is_read_from_the_start_of_its_file(started: list[int], count: int):
    storage, _ = filled(count)
    started.clear()
    store = open_store(storage)
    assert started[0] == 0
    assert sum(store.reads.max_offset("Orders", queue) for queue in range(3)) == count


def test_after_a_crash_all_that_nothing_vouches_for_is_read(started: list[int]):
    storage, _ = filled()
    storage.open("abort", create=True).pwrite(b"1", 0)
    started.clear()
    open_store(storage)
    assert started[0] == 0
