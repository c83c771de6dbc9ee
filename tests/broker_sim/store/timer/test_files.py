"""Timer log, wheel and checkpoint: their layout, and what happens at the end of a file."""

from __future__ import annotations

import errno
import struct

import pytest

from rocketpy.errors import StoreCorruptError, StoreError
from rocketpy_broker_sim.store.disk.memory import MemoryStorage
from rocketpy_broker_sim.store.timer.checkpoint import read_timer_checkpoint
from rocketpy_broker_sim.store.timer.units import DELETE, NOWHERE, PLAIN, ROLL, Slot, TimerUnit
from rocketpy_broker_sim.store.timer.wheel import PATH, SLOTS
from tests.broker_sim.store.timer.kit import NOW, TICK, Kit

FILES = "timerlog/00000000000000000000", "timerlog/00000000000000000200"


def test_DL4_a_unit_has_52_bytes_and_comes_back_as_it_was() -> None:
    unit = TimerUnit(104, PLAIN | ROLL, NOW, 5000, 77, 322, -5)
    data = unit.encode()
    assert data == struct.pack(">iqiqiqiiq", 52, 104, 3, NOW, 5000, 77, 322, -5, 0)
    assert TimerUnit.decode(data) == unit
    assert unit.due_ms == NOW + 5000


@pytest.mark.parametrize("damage", [(0, 51), (12, 16), (12, -875286124)])
def test_DL4_what_is_no_unit_is_none(damage: tuple[int, int]) -> None:
    data = bytearray(TimerUnit(0, PLAIN, NOW, 0, 0, 100, 0).encode())
    struct.pack_into(">i", data, *damage)
    assert TimerUnit.decode(data) is None


def test_only_a_recall_that_does_not_roll_recalls() -> None:
    kinds = [PLAIN, PLAIN | ROLL, PLAIN | DELETE, PLAIN | ROLL | DELETE]
    units = [TimerUnit(0, kind, 0, 0, 0, 0, 0) for kind in kinds]
    assert [unit.deletes for unit in units] == [False, False, True, False]
    assert [unit.rolls for unit in units] == [False, True, False, True]


def test_DL4_units_of_a_slot_are_chained_and_come_in_their_order() -> None:
    kit = Kit()
    placed = kit.add(5, 9, 5, 5)
    assert kit.positions(5) == [placed[n][0] for n in (0, 2, 3)]
    assert kit.positions(9) == [placed[1][0]]
    assert [unit.previous for unit in kit.units(5)] == [NOWHERE, 0, 104]
    assert kit.timers.wheel.get(TICK + 5) == Slot(TICK + 5, 0, 200, 3)
    assert kit.timers.wheel.waiting == 4


def test_DL4_a_full_file_ends_with_a_filler_that_comes_with_the_next_unit() -> None:
    kit = Kit()
    kit.add(1, 1, 1)  # three units of 52 bytes leave 44 of the 200
    assert kit.timers.log.end == 200
    assert kit.storage.read_bytes(FILES[0])[156:] == bytes(44)
    kit.add(1)
    assert kit.storage.read_bytes(FILES[0])[156:172] == struct.pack(">iqi", 44, 0, -875286124)
    assert TimerUnit.decode(kit.storage.read_bytes(FILES[1])) is not None
    assert len(kit.units(1)) == 4


def test_DL4_a_recall_takes_one_off_the_count_of_its_slot() -> None:
    kit = Kit()
    kit.add(5, 5)
    kit.add(5, kind=PLAIN | DELETE)
    assert kit.timers.wheel.slots[TICK + 5].messages == 1


def test_DL4_a_write_that_fails_adds_nothing_and_its_places_are_given_again() -> None:
    kit = Kit()
    with kit.storage.failing("pwrite", code=errno.ENOSPC, under="timerlog"), pytest.raises(StoreError, match="full"):
        kit.add(5)
    assert kit.units(5) == []
    placed = kit.add(6)
    assert kit.positions(6) == [placed[0][0]]
    assert kit.timers.log.end == 52


@pytest.mark.slow
def test_DL4_the_wheel_reaches_its_file_with_the_flush_and_not_before() -> None:
    kit = Kit()
    kit.add(5, 7)
    assert not kit.storage.exists(PATH)
    kit.flush()
    data = kit.storage.read_bytes(PATH)
    assert len(data) == 2 * SLOTS * 32
    for tick, position in ((5, 0), (7, 52)):
        at = (TICK + tick) % (2 * SLOTS) * 32
        assert data[at : at + 32] == struct.pack(">qqqii", TICK + tick, position, position, 1, 0)
    assert sum(map(bool, data)) == sum(map(bool, data[at - 64 : at + 32])), "nothing else is there"


def test_DL4_the_checkpoint_says_how_far_the_timer_is() -> None:
    kit = Kit()
    kit.add(5, 7)
    kit.flush()
    found = read_timer_checkpoint(kit.storage)
    assert found is not None
    assert (found.last_read_time_ms, found.last_timer_log_flush_pos) == (NOW, 104)
    assert found.last_timer_queue_offset == found.master_timer_queue_offset == 2
    assert len(kit.storage.read_bytes("config/timercheck")) == 4096
    kit.flush(NOW + 9000)  # nothing was read: slot 5 waits
    assert kit.timers.checkpoint.last_read_time_ms == NOW + 5000


@pytest.mark.parametrize("where", ["timerlog", PATH, "config/timercheck"])
def test_DL4_a_flush_that_fails_is_made_up_for(where: str) -> None:
    kit = Kit()
    kit.add(5, 7)
    what = kit.timers.prepare(NOW)
    with kit.storage.failing("fdatasync", code=errno.EIO, under=where), pytest.raises(StoreError):
        kit.timers.flush(what)
    assert kit.timers.checkpoint.last_timer_queue_offset == 0
    kit.timers.give_back(what)
    assert kit.timers.is_stale
    kit.flush()
    again = kit.killed()
    assert len(again.units(5)) == len(again.units(7)) == 1
    assert again.timers.queue_offset == 2


def test_DL4_a_wheel_of_another_size_is_refused_with_the_remedy() -> None:
    storage = MemoryStorage()
    storage.write_bytes_atomic(PATH, bytes(64))
    with pytest.raises(StoreCorruptError, match="rebuilt from the timer log"):
        Kit(storage)


def test_a_slot_in_the_place_of_one_that_waits_is_not_taken() -> None:
    kit = Kit()
    kit.add(5)
    assert not kit.timers.wheel.has_room(TICK + 5 + 2 * SLOTS)
    assert kit.timers.wheel.has_room(TICK + 5)
    kit.timers.drop(TICK + 5)
    assert kit.timers.wheel.has_room(TICK + 5 + 2 * SLOTS)


def test_DL4_an_old_file_of_the_log_goes_when_nothing_leads_to_it() -> None:
    kit = Kit()
    kit.add(1, 1, 1)
    kit.add(2)
    assert kit.timers.take_expired() is None  # not flushed
    kit.flush()
    assert kit.timers.take_expired() is None  # slot 1 waits
    kit.timers.drop(TICK + 1)
    assert kit.timers.take_expired() is None  # its messages are still there
    kit.put(40)
    kit.store.flushing.flush_all()
    first = kit.store.retention.take_log_file()
    assert first is not None
    kit.store.retention.remove(first)
    kit.flush()
    found = kit.timers.take_expired()
    assert found is not None
    kit.timers.delete_file(found)
    assert kit.storage.list("timerlog") == [FILES[1].rpartition("/")[2]]
    assert len(kit.killed().units(2)) == 1
