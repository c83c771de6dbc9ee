"""Lanes: every topic gets its turn, and no topic gets all workers."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rocketpy.consumer.calling.lanes import Lane, Lanes


def calls(count: int) -> Any:
    return [object() for _ in range(count)]


def enter_all(lanes: Lanes) -> list[str]:
    """The topics of the lanes that workers enter, until none may enter any more."""
    entered: list[str] = []
    while (lane := lanes.enter()) is not None:
        entered.append(lane.key)
    return entered


def test_a_topic_that_is_alone_gets_every_worker() -> None:
    lanes = Lanes(5)
    lanes.share(["a"])
    lanes.put("a", calls(9))
    assert enter_all(lanes) == ["a"] * 5
    assert not lanes.is_waiting()


def test_a_worker_is_kept_for_a_topic_that_has_nothing_to_do_yet() -> None:
    lanes = Lanes(5)
    lanes.share(["a", "b"])
    lanes.put("a", calls(9))
    assert enter_all(lanes) == ["a"] * 4
    lanes.put("b", calls(9))
    assert lanes.is_waiting()
    assert enter_all(lanes) == ["b"]


def test_a_quarter_of_the_workers_is_kept_for_many_topics() -> None:
    lanes = Lanes(20)
    lanes.share([f"t{number}" for number in range(50)])
    lanes.put("t0", calls(99))
    assert enter_all(lanes) == ["t0"] * 15
    for number in range(1, 50):
        lanes.put(f"t{number}", calls(1))
    assert enter_all(lanes) == ["t1", "t2", "t3", "t4", "t5"]


def test_one_worker_alone_goes_from_topic_to_topic() -> None:
    lanes = Lanes(1)
    lanes.share(["a", "b"])
    for topic in ("a", "b", "c"):
        lanes.put(topic, calls(9))
    turns: list[str] = []
    for _ in range(6):
        lane = lanes.enter()
        assert lane is not None
        assert lanes.enter() is None
        turns.append(lane.key)
        lanes.leave(lane)
    assert turns == ["a", "b", "c"] * 2


def test_a_topic_that_is_given_up_keeps_no_worker_from_the_others() -> None:
    lanes = Lanes(5)
    lanes.share(["a", "b"])
    lanes.put("a", calls(9))
    assert len(enter_all(lanes)) == 4
    lanes.share(["a"])
    assert enter_all(lanes) == ["a"]


def test_workers_that_hang_are_made_up_for() -> None:
    lanes = Lanes(4)
    lanes.share(["a", "b"])
    lanes.put("a", calls(99))
    assert len(enter_all(lanes)) == 3
    lanes.allow(3)
    assert enter_all(lanes) == ["a"] * 3
    assert lanes.limit == 7


@given(st.integers(1, 9), st.lists(st.tuples(st.sampled_from("pesl"), st.sampled_from("abcd")), max_size=60))
def test_counts_and_hints_hold_whatever_happens(limit: int, steps: list[tuple[str, str]]) -> None:
    lanes = Lanes(limit)
    entered: list[Lane] = []
    for step, topic in steps:
        if step == "p":
            lanes.put(topic, calls(2))
        elif step == "s":
            lanes.share({topic, "a"})
        elif step == "l" and entered:
            lanes.leave(entered.pop(ord(topic) % len(entered)))
        elif (lane := lanes.enter()) is not None:
            entered.append(lane)
            lane.calls.popleft()
        every = list(lanes._rotation)
        assert len(entered) <= limit
        assert lanes._idle_lanes == sum(not lane.workers for lane in every)
        assert {lane.key: lane.workers for lane in every if lane.workers} == {
            lane.key: entered.count(lane) for lane in entered
        }
        # The hint may miss that a lane is full, and never says so of one that is not.
        assert not [lane for lane in every if lane.full and lanes.has_room(lane)]


# --- in order ----------------------------------------------------------------------------------------------


def test_one_worker_at_a_time_enters_a_lane_with_an_order() -> None:
    lanes = Lanes(5)
    lanes.order("a", 10.0)
    lanes.put("a", calls(9))
    lane = lanes.enter()
    assert lane is not None
    assert lane.full
    assert lanes.enter() is None
    assert not lanes.is_waiting()
    lanes.leave(lane)
    assert enter_all(lanes) == ["a"]


def test_nobody_enters_a_lane_whose_time_is_over_or_that_is_closed() -> None:
    now = [10.0]
    lanes = Lanes(5, lambda: now[0])
    lanes.order("a", 10.0)
    waiting = lanes.put("a", calls(2))
    assert enter_all(lanes) == []
    lanes.order("a", 10.1)
    waiting.closed = True
    assert enter_all(lanes) == []
    again = calls(2)
    lanes.again("a", again)
    assert list(waiting.calls)[:2] == again
    assert enter_all(lanes) == ["a"]


def test_a_lane_is_given_up_when_its_worker_is_out() -> None:
    lanes = Lanes(5)
    for name in "ab":
        lanes.order(name, 10.0)
        lanes.put(name, calls(2))
    lane = lanes.enter()
    assert lane is not None
    assert not lanes.close("a")
    lanes.again("a", calls(1))
    assert not lane.calls
    assert lanes.leave(lane)
    assert lanes.close("b")
    assert lanes.close("never heard of")
    assert not lanes.is_waiting()
    assert lanes.put("a", calls(1)) is not lane
