"""Which messages of `send_many` travel together."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.message import Message, MessageQueue
from rocketpy.producer.frames import FrameBuilder
from rocketpy.wire.batch import check_batch

BIG = 1 << 30
Q0, Q1 = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


def formed(former, messages, queue_of=lambda message: None):
    """All frames of some messages, as lists of their positions."""
    frames = [frame for at, each in enumerate(messages) for frame in former.add(each, at, queue_of(each))]
    frames += former.rest()
    assert all([messages[at] for at in frame.positions] == list(frame.messages) for frame in frames)
    return [list(frame.positions) for frame in frames]


def test_a_frame_goes_when_it_is_full():
    assert formed(FrameBuilder(3, BIG, BIG), [Message("T", b"x")] * 7) == [[0, 1, 2], [3, 4, 5], [6]]


def test_a_frame_is_bounded_by_bytes_and_a_large_message_goes_alone():
    messages = [Message("T", b"x" * size) for size in (4, 4, 4, 50, 1, 9, 1)]
    assert formed(FrameBuilder(100, 10, BIG), messages) == [[0, 1], [2], [3], [4, 5], [6]]


def test_topics_and_wait_store_ok_travel_apart():
    messages = [Message(topic, b"x", wait_store_ok=wait) for topic in "TU" for wait in (True, False)] * 2
    assert formed(FrameBuilder(100, BIG, BIG), messages) == [[0, 4], [1, 5], [2, 6], [3, 7]]


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b"x", delay_level=3),
        Message("T", b"x", delay=3),
        Message("T", b"x", deliver_at=datetime(2030, 1, 1, tzinfo=UTC)),
        Message("%RETRY%g", b"x"),
        None,
        "text",
    ],
    ids=["delay level", "delay", "deliver_at", "retry topic", "none", "text"],
)
def test_what_cannot_travel_with_others_goes_alone(message):
    former = FrameBuilder(100, BIG, BIG)
    assert formed(former, [Message("T", b"x"), message, message, Message("T", b"x")]) == [[1], [2], [0, 3]]
    assert former.whole([message, message], 0) is None


def test_messages_of_a_class_of_ones_own_travel_like_any_other():
    class Mine(Message):
        pass

    assert formed(FrameBuilder(100, BIG, BIG), [Mine("T", b"x"), Message("T", b"x"), Mine("T", b"x")]) == [[0, 1, 2]]


def test_messages_of_one_queue_keep_their_order_whatever_parts_them():
    kinds = [{}, {"wait_store_ok": False}, {}, {"delay_level": 2}, {}, {}]
    messages = [Message("T", b"x", sharding_key="k", **fields) for fields in kinds]
    assert formed(FrameBuilder(100, BIG, BIG), messages, lambda _: Q0) == [[0], [1], [2], [3], [4, 5]]


def test_what_waits_for_its_frame_to_fill_is_bounded():
    former = FrameBuilder(100, BIG, 10)
    queues = {"a": Q0, "b": Q1}
    messages = [Message("T", b"xxx", sharding_key=key) for key in "abab"]
    assert formed(former, messages, lambda message: queues[message.sharding_key]) == [[0, 2], [1, 3]]
    topics = [Message(f"T{number}", b"x") for number in range(5000)]
    waiting = FrameBuilder(100, BIG, BIG)
    went = sum(1 for at, each in enumerate(topics) for _ in waiting.add(each, at, None))
    assert went > 900
    assert len(list(waiting.rest())) + went == 5000


def test_alike_messages_are_a_frame_as_they_are():
    former = FrameBuilder(10, 100, BIG)
    frame = former.whole([Message("T", b"xy", keys=[str(number)]) for number in range(10)], 40)
    assert (list(frame.positions), frame.size, frame.queue) == (list(range(40, 50)), 20, None)
    for odd in (
        Message("U", b"x"),
        Message("T", b"x", wait_store_ok=False),
        Message("T", b"x", sharding_key="k"),
        Message("T", b"x", delay_level=1),
        Message("T", b"x" * 100),
        None,
    ):
        assert former.whole([Message("T", b"x"), odd], 0) is None


def test_halves_are_the_whole():
    former = FrameBuilder(5, BIG, BIG)
    [frame] = [each for size in range(1, 6) for each in former.add(Message("T", b"x" * size), size, Q0)]
    front, back = frame.halves()
    assert [list(front.positions), list(back.positions)] == [[1, 2], [3, 4, 5]]
    assert (front.size, back.size, front.queue, back.queue) == (3, 12, Q0, Q0)


messages = st.builds(
    Message,
    st.sampled_from(["T", "U"]),
    st.binary(min_size=1, max_size=20),
    sharding_key=st.sampled_from([None, "a", "b"]),
    wait_store_ok=st.booleans(),
    delay_level=st.sampled_from([0, 0, 0, 1]),
)


@given(st.lists(messages, max_size=60), st.integers(1, 8), st.integers(1, 60), st.integers(1, 100))
def test_every_message_is_in_one_frame_that_may_be_sent_and_in_order_within_its_queue(given_, count, size, open_size):
    queues = {"a": "broker-a", "b": "broker-b"}

    def queue_of(message):
        return message.sharding_key and MessageQueue(message.topic, queues[message.sharding_key], 0)

    former = FrameBuilder(count, size, open_size)
    frames = [frame for at, each in enumerate(given_) for frame in former.add(each, at, queue_of(each))]
    frames += former.rest()
    assert sorted(at for frame in frames for at in frame.positions) == list(range(len(given_)))
    for frame in frames:
        assert len(frame) <= count
        assert frame.size == sum(len(each.body) for each in frame.messages)
        assert frame.size <= size or len(frame) == 1
        assert {queue_of(each) for each in frame.messages} == {frame.queue}
        if len(frame) > 1:
            check_batch(frame.messages)
    for queue in {frame.queue for frame in frames} - {None}:
        order = [at for frame in frames if frame.queue == queue for at in frame.positions]
        assert order == sorted(order)
