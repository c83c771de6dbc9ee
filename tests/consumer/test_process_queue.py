"""What is held of a queue, how far may be committed, when pulling pauses."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.consumer.process_queue import FlowLimits, ProcessQueue
from tests.consumer.helpers import QUEUE, stored, stored_range

SIZE = stored(0).store_size


def queue(position: int = 0, **limits: int) -> ProcessQueue:
    return ProcessQueue(QUEUE, position, FlowLimits(**limits))


def test_PC5_counts_messages_and_bytes() -> None:
    process_queue = queue()
    process_queue.put(stored_range(0, 100))
    assert (len(process_queue), process_queue.size, process_queue.position) == (100, 100 * SIZE, 100)
    assert process_queue.remove(stored_range(0, 10)) == 10
    assert (len(process_queue), process_queue.size) == (90, 90 * SIZE)
    process_queue.remove([stored(99)])
    assert (len(process_queue), process_queue.size) == (89, 89 * SIZE)
    process_queue.remove(stored_range(10, 99))
    assert (len(process_queue), process_queue.size, process_queue.span) == (0, 0, 0)


def test_PC5_contains_messages_that_are_held() -> None:
    process_queue = queue()
    process_queue.put(stored_range(0, 2))
    process_queue.remove([stored(0)])
    assert 0 not in process_queue
    assert 1 in process_queue
    assert 2 not in process_queue


def test_PC5_the_same_message_is_held_once() -> None:
    process_queue = queue()
    process_queue.put(stored_range(0, 4))
    process_queue.put(stored_range(0, 4))
    assert (len(process_queue), process_queue.size) == (4, 4 * SIZE)


def test_PC5_what_is_pulled_again_takes_its_place_by_offset() -> None:
    process_queue = queue()
    process_queue.put([stored(5), stored(6)])
    process_queue.put([stored(3), stored(8), stored(4)])
    assert (process_queue.span, process_queue.position, process_queue.commit_offset) == (5, 9, 3)
    assert [message.queue_offset for message in process_queue.hand_out(9)] == [3, 4, 5, 6, 8]


def test_what_was_handed_out_and_given_back_is_handed_out_next() -> None:
    process_queue = queue()
    process_queue.put(stored_range(0, 5))
    out = process_queue.hand_out(3)
    assert (len(process_queue), process_queue.size, process_queue.next_offset) == (2, 2 * SIZE, 3)
    process_queue.give_back(out[1:])
    assert (len(process_queue), process_queue.size, process_queue.next_offset) == (4, 4 * SIZE, 1)
    assert [message.queue_offset for message in process_queue.hand_out(2)] == [1, 2]
    assert [message.queue_offset for message in process_queue.hand_out(9)] == [3, 4]


def test_commit_offset_is_the_lowest_that_is_not_dealt_with() -> None:
    process_queue = queue(7)
    assert process_queue.commit_offset == 7
    process_queue.put(stored_range(7, 12))
    assert process_queue.remove([stored(8), stored(11)]) == 7
    assert process_queue.remove([stored(7)]) == 9
    assert process_queue.remove([stored(9), stored(10)]) == 12
    process_queue.advance(40)
    assert process_queue.commit_offset == 40
    process_queue.advance(3)
    assert (process_queue.position, process_queue.commit_offset) == (40, 40)


def test_commit_offset_never_falls_when_a_broker_repeats_itself() -> None:
    process_queue = queue()
    process_queue.put(stored_range(0, 3))
    assert process_queue.remove(stored_range(0, 3)) == 3
    process_queue.put([stored(1)])
    assert process_queue.commit_offset == 3


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 6), st.sets(st.integers(0, 80))), max_size=12))
def test_commit_offset_is_right_whatever_the_order(steps: list[tuple[int, set[int]]]) -> None:
    process_queue = queue()
    held: set[int] = set()
    for count, chosen in steps:
        start = process_queue.position
        process_queue.put(stored_range(start, start + count))
        held |= set(range(start, start + count))
        done = chosen & held
        offset = process_queue.remove([stored(each) for each in done])
        held -= done
        assert offset == min(held, default=process_queue.position)
        assert len(process_queue) == len(held)


def test_PC2_pauses_over_each_limit_and_not_at_it() -> None:
    by_count = queue(messages=3)
    by_count.put(stored_range(0, 3))
    assert by_count.excess() is None
    by_count.put([stored(3)])
    assert "4 messages held, over 3" in (by_count.excess() or "")

    by_size = queue(size=SIZE)
    by_size.put([stored(0)])
    assert by_size.excess() is None
    by_size.put([stored(1)])
    assert "MiB" in (by_size.excess() or "")

    by_span = queue(span=10)
    by_span.put([stored(0), stored(10)])
    assert by_span.excess() is None
    by_span.put([stored(11)])
    assert "span of 11" in (by_span.excess() or "")


def test_PC2_tells_once_when_there_is_room() -> None:
    process_queue = queue(messages=1)
    told: list[str] = []
    process_queue.put(stored_range(0, 4))
    process_queue.call_when_room(lambda: told.append("room"))
    process_queue.remove([stored(0)])
    process_queue.remove([stored(1)])
    assert told == []
    process_queue.remove([stored(2)])
    process_queue.remove([stored(3)])
    assert told == ["room"]
    process_queue.call_when_room(lambda: told.append("at once"))
    assert told == ["room", "at once"]


def test_a_dropped_queue_and_higher_limits_let_whoever_waits_go_on() -> None:
    told: list[str] = []
    dropped, widened = queue(messages=1), queue(messages=1)
    for each in (dropped, widened):
        each.put(stored_range(0, 4))
        each.call_when_room(lambda: told.append("room"))
    dropped.drop()
    assert dropped.dropped
    widened.set_limits(FlowLimits(messages=4))
    assert told == ["room", "room"]


def test_pull_is_overdue_only_when_nothing_holds_it_back() -> None:
    process_queue = queue(messages=1)
    assert not process_queue.is_pull_overdue(120, 120)
    assert process_queue.is_pull_overdue(121, 120)
    process_queue.put(stored_range(0, 2))
    assert not process_queue.is_pull_overdue(121, 120)


def test_repr_is_short() -> None:
    process_queue = queue()
    process_queue.drop()
    assert repr(process_queue) == "<ProcessQueue Orders@broker-a:0 dropped, 0 held, next 0>"
