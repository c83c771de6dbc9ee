"""The timer after a stop, a kill, a power loss and a clock that was set: nothing is lost, nothing comes twice."""

from __future__ import annotations

import pytest

from rocketpy_broker_sim.store.timer.store import TimerEntry
from rocketpy_broker_sim.store.timer.units import NOWHERE, PLAIN, TimerUnit
from rocketpy_broker_sim.store.timer.wheel import PATH
from tests.broker_sim.store.timer.kit import NOW, TICK, Kit

LOG = "timerlog/00000000000000000000"


def test_DL4_what_was_added_after_the_last_flush_is_found_in_the_log() -> None:
    kit = Kit()
    first = kit.add(5, 7)
    kit.flush()
    second = kit.add(5, 9)
    again = kit.killed()
    assert again.positions(5) == [first[0][0], second[0][0]]
    assert (again.positions(7), again.positions(9)) == ([first[1][0]], [second[1][0]])
    assert again.timers.queue_offset == 4, "or two messages would be taken again, and delivered twice"
    assert [again.timers.wheel.slots[TICK + tick].messages for tick in (5, 7, 9)] == [2, 1, 1]


def test_DL4_a_wheel_that_is_ahead_of_the_checkpoint_counts_nothing_twice() -> None:
    kit = Kit()
    kit.add(5)
    kit.flush()
    kit.add(5)
    kit.timers.wheel.write(kit.timers.wheel.take_changes())
    again = kit.killed()
    assert again.timers.wheel.slots[TICK + 5].messages == 2
    assert len(again.units(5)) == 2


def test_DL4_slots_that_were_read_do_not_come_again() -> None:
    kit = Kit()
    kit.add(5, 7)
    kit.timers.drop(TICK + 5)
    kit.flush(NOW + 6000)
    again = kit.killed(now=NOW + 6000)
    assert list(again.timers.wheel.slots) == [TICK + 7]


def test_DL4_slots_from_before_a_long_stop_are_still_there() -> None:
    kit = Kit()
    kit.add(5)
    kit.flush()
    ten_days = 10 * 24 * 3600 * 1000
    assert len(kit.killed(now=NOW + ten_days).units(5)) == 1


def test_DL4_without_a_wheel_all_of_it_is_made_from_the_log() -> None:
    kit = Kit()
    placed = kit.add(5, 7, 5, 5, 7)  # two files
    kit.flush()
    kit.storage.unlink(PATH)
    again = kit.killed()
    assert again.positions(5) == [placed[n][0] for n in (0, 2, 3)]
    assert again.positions(7) == [placed[n][0] for n in (1, 4)]


@pytest.mark.parametrize("size", [0, 1, 586])
def test_DL4_a_wheel_that_a_power_loss_left_short_when_it_was_made_is_made_again(size: int) -> None:
    kit = Kit()
    placed = kit.add(5, 5)
    kit.storage.write_bytes_atomic(PATH, bytes(size))
    assert kit.killed().positions(5) == [place[0] for place in placed]


def test_DL4_units_that_lead_behind_the_end_of_the_messages_are_cut_off() -> None:
    kit = Kit()
    kit.add(5)
    kit.flush()
    position, size = kit.put()[0]
    unit = TimerUnit(0, PLAIN, NOW, 6000, position + size, size, 7)
    kit.timers.log.gather(unit)
    kit.timers.log.commit()
    again = kit.killed()
    assert list(again.timers.wheel.slots) == [TICK + 5]
    assert again.timers.log.end == 52
    assert again.storage.read_bytes(LOG)[52:] == bytes(148)
    assert again.timers.queue_offset == 1, "the message after it is taken again"


def add_some(kit: Kit, places: list[tuple[int, int]], *numbers: int) -> None:
    """Put some of the messages into slots; all of them count as taken."""
    kit.timers.add([TimerEntry(TICK + number, PLAIN, *places[number], 7) for number in numbers], NOW)
    kit.timers.take_up_to(len(places))


def test_DL4_a_message_without_a_unit_is_taken_again_because_its_delivery_may_be_lost() -> None:
    kit = Kit()
    add_some(kit, kit.put(3), 0, 2)
    again = kit.killed()
    assert again.timers.queue_offset == 1
    assert list(again.timers.wheel.slots) == [TICK], "the message after it is taken again, too"
    assert again.timers.log.end == 52


def test_DL4_messages_without_a_unit_count_as_taken_once_the_progress_is_saved() -> None:
    kit = Kit()
    places = kit.put(4)
    add_some(kit, places[:3], 0, 2)
    kit.flush()
    add_some(kit, places, 3)
    again = kit.killed()
    assert again.timers.queue_offset == 4
    assert list(again.timers.wheel.slots) == [TICK, TICK + 2, TICK + 3]


def test_DL4_a_slot_that_was_replaced_behind_the_end_of_the_log_has_what_it_had_before() -> None:
    kit = Kit()
    first, second = kit.add(5, 5)
    kit.flush()
    places = kit.put(2)
    kit.timers.add([TimerEntry(TICK + 9, PLAIN, *places[1], 7)], NOW)  # the one before it was delivered at once
    kit.timers.replace(TICK + 5, kit.units(5)[1:], NOW)
    kit.timers.wheel.write(kit.timers.wheel.take_changes())
    again = kit.killed()
    assert again.timers.queue_offset == 2, "the messages after them are taken again"
    assert again.positions(5) == [first[0], second[0]], "the first one may come twice"


def test_DL4_units_of_earlier_messages_do_not_end_the_log() -> None:
    kit = Kit()
    add_some(kit, kit.put(3), 0, 1, 0, 0, 2, 1)
    again = kit.killed()
    assert again.timers.queue_offset == 3
    assert [again.timers.wheel.slots[TICK + tick].messages for tick in range(3)] == [3, 2, 1]


def test_DL4_torn_units_are_cut_off() -> None:
    kit = Kit()
    kit.add(5, 6, 7)
    file = kit.storage.open(LOG)
    file.pwrite(b"\0" * 20, 52)
    again = kit.killed()
    assert list(again.timers.wheel.slots) == [TICK + 5]
    assert (again.timers.log.end, again.timers.queue_offset) == (52, 1)


def test_DL4_a_slot_that_leads_behind_the_end_of_the_log_is_made_again() -> None:
    kit = Kit()
    placed = kit.add(5, 5, 5, 6)
    kit.flush()
    file = kit.storage.open("timerlog/00000000000000000200")
    file.pwrite(bytes(52), 0)  # the log lost what the checkpoint says that the disk has
    kit.timers.checkpoint.last_timer_log_flush_pos = 0
    from rocketpy_broker_sim.store.timer.checkpoint import write_timer_checkpoint

    write_timer_checkpoint(kit.storage, kit.timers.checkpoint)
    again = kit.killed()
    assert again.positions(5) == [place[0] for place in placed[:3]]
    assert TICK + 6 not in again.timers.wheel.slots


@pytest.mark.parametrize("has_wheel", [True, False])
@pytest.mark.parametrize("clean", [True, False])
def test_DL4_messages_whose_units_the_log_has_lost_are_taken_again(clean: bool, has_wheel: bool) -> None:
    kit = Kit()
    placed = kit.add(5, 6, 7, 5, 8)  # three units fill a file
    kit.flush()
    if clean:
        kit.store.close()
    kit.storage.unlink("timerlog/00000000000000000200")
    if not has_wheel:
        kit.storage.unlink(PATH)
    again = kit.killed()
    assert again.timers.queue_offset == 3
    assert again.positions(5) == [placed[0][0]]
    assert sorted(again.timers.wheel.slots) == [TICK + tick for tick in (5, 6, 7)]
    assert again.timers.is_stale


def test_DL4_units_that_were_written_again_do_not_say_which_messages_are_lost() -> None:
    kit = Kit()
    kit.add(5, 6)
    kit.timers.replace(TICK + 5, kit.units(5), NOW)
    kit.add(7)
    kit.flush()
    kit.storage.unlink("timerlog/00000000000000000200")
    assert kit.killed().timers.queue_offset == 2


def test_DL4_without_the_log_all_messages_are_taken_again() -> None:
    kit = Kit()
    kit.add(5, 6)
    kit.flush()
    kit.storage.unlink(LOG)
    again = kit.killed()
    assert (again.timers.queue_offset, again.timers.wheel.slots) == (0, {})


def test_DL4_a_log_that_ends_with_a_full_file_has_lost_nothing() -> None:
    kit = Kit()
    kit.add(5, 6, 7)
    kit.flush()
    kit.storage.unlink(PATH)
    again = kit.killed()
    assert (again.timers.queue_offset, len(again.timers.wheel.slots)) == (3, 3)


def test_DL4_a_chain_that_is_broken_is_searched() -> None:
    kit = Kit()
    placed = kit.add(5, 6, 5)
    slot = kit.timers.wheel.slots[TICK + 5]
    file = kit.storage.open(LOG)
    file.pwrite(TimerUnit(104, PLAIN, NOW, 5000, placed[2][0], placed[2][1], 7).encode(), slot.last)  # leads to itself
    assert kit.positions(5) == [placed[0][0], placed[2][0]]


def test_DL4_a_slot_that_was_replaced_has_nothing_of_what_was_delivered() -> None:
    kit = Kit()
    kit.add(5, 5)
    kit.flush()
    left = kit.units(5)[1:]
    kit.timers.replace(TICK + 5, left, NOW)
    assert kit.positions(5) == [left[0].position]
    for again in (kit, kit.killed()):
        assert [unit.position for unit in again.units(5)] == [left[0].position]
        assert again.units(5)[0].previous == NOWHERE
        assert again.timers.wheel.slots[TICK + 5].messages == 1


@pytest.mark.parametrize("flushed", [True, False])
def test_threat_L10_after_a_clock_that_was_set_back_old_slots_stay_over(flushed: bool) -> None:
    kit = Kit()
    kit.add(5)
    kit.timers.drop(TICK + 5)
    kit.flush(NOW + 60_000)
    hour = 3_600_000
    again = kit.killed(now=NOW - hour)
    assert again.timers.wheel.slots == {}
    assert again.timers.read_ms(NOW - hour) == NOW - hour, "or what is due meanwhile would never be read"
    again.add(-1800)
    if flushed:
        again.flush(NOW - hour)
    once_more = again.killed(now=NOW - hour)
    assert list(once_more.timers.wheel.slots) == [TICK - 1800]
    assert len(once_more.units(-1800)) == 1


def test_threat_L10_what_was_added_while_the_clock_was_behind_stays_when_the_clock_is_right_again() -> None:
    kit = Kit()
    kit.add(5)
    kit.timers.drop(TICK + 5)
    kit.flush(NOW + 60_000)
    behind = kit.killed(now=NOW - 3_600_000)
    behind.add(-1800)
    for _ in range(3):  # a later kill does not lose it, either, and brings nothing back
        behind = behind.killed(now=NOW + 120_000)
        assert list(behind.timers.wheel.slots) == [TICK - 1800]
        assert len(behind.units(-1800)) == 1
        behind.flush(NOW + 120_000)
    behind.timers.drop(TICK - 1800)
    behind.flush(NOW + 120_000)
    assert behind.killed(now=NOW + 120_000).timers.wheel.slots == {}


def test_DL4_the_offset_is_kept_within_the_queue() -> None:
    kit = Kit()
    kit.add(5, 6)
    kit.timers.take_up_to(99)
    kit.flush()
    assert kit.killed().timers.queue_offset == 2
