"""Messages that nobody listens to wait, with no attempt counted; in virtual time."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from rocketpy.consumer.calling.unheard import PATIENCE, Unheard, UnheardMessage
from rocketpy.consumer.process_queue import ProcessQueue
from rocketpy.consumer.subscription import Subscriptions
from rocketpy.message import MessageExt
from rocketpy.results import ConsumeFromWhere
from rocketpy.wire.codes import ResponseCode
from tests.consumer.brokers import World, queue, world
from tests.consumer.helpers import stored_range

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
RETRY = "%RETRY%billing"


def nothing(message: MessageExt) -> None:
    pass


def retries(w: World, count: int, topic: str = "Bills") -> None:
    properties = {"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": "FIRST"}
    w.broker.store(count, topic=RETRY, properties=properties, reconsume_times=2)


async def test_RT1_a_retry_waits_for_its_topic_to_be_subscribed(autojump_clock: MockClock) -> None:
    async with world(topics=("Orders", "Bills")) as w:
        retries(w, 3)
        got: list[tuple[str, int, int]] = []
        consumer = w.consumer()
        consumer.subscribe("Orders", nothing)
        async with consumer:
            await trio.sleep(10)
            consumer.subscribe("Bills", lambda each: got.append((each.topic, each.queue_offset, each.reconsume_times)))
            await trio.lowlevel.checkpoint()
            await trio.sleep(6)
            assert got == [("Bills", offset, 2) for offset in range(3)]
            assert w.broker.offsets[RETRY, 0] == 3
            assert (w.broker.sent_back, w.broker.sent) == ([], [])
            await trio.sleep(2 * PATIENCE)
            assert (len(got), w.broker.sent) == (3, [])


async def test_RT1_one_line_a_second_tells_of_retries_that_wait(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with world() as w:
        consumer = w.consumer()
        consumer.subscribe("Orders", nothing)
        async with consumer:
            for _ in range(200):
                retries(w, 1)
                await trio.sleep(0.01)
        lines = [each.getMessage() for each in caplog.records if "no listener for topic Bills" in each.getMessage()]
        assert 2 <= len(lines) <= 3
        assert "more like this" in lines[1]


async def test_RT1_after_a_while_a_retry_goes_to_the_end_of_its_queue_with_the_attempts_it_had(
    autojump_clock: MockClock,
) -> None:
    async with world() as w:
        retries(w, 2)
        consumer = w.consumer()
        consumer.subscribe("Orders", nothing)
        async with consumer:
            await trio.sleep(PATIENCE - 1)
            assert w.broker.sent == []
            assert w.broker.offsets.get((RETRY, 0), 0) == 0
            await trio.sleep(10)
            assert [(each.topic, each.reconsume_times, each.max_reconsume_times) for each in w.broker.sent] == [
                (RETRY, 2, 16),
                (RETRY, 2, 16),
            ]
            assert {each["RETRY_TOPIC"] for each in w.broker.sent_properties()} == {"Bills"}
            assert {each["DELAY"] for each in w.broker.sent_properties()} == {"9"}
            assert {each["ORIGIN_MESSAGE_ID"] for each in w.broker.sent_properties()} == {"FIRST"}
            assert w.broker.sent_back == []
            assert w.broker.offsets[RETRY, 0] == 2
            assert consumer.statistics().failed == 0


async def test_RT1_many_that_wait_do_not_hold_up_retries_that_have_a_listener(autojump_clock: MockClock) -> None:
    async with world() as w:
        retries(w, 30)
        retries(w, 1, "Orders")
        got: list[int] = []
        consumer = w.consumer(pull_threshold_for_queue=10, pull_batch_size=4)
        consumer.subscribe("Orders", lambda message: got.append(message.queue_offset))
        async with consumer:
            await trio.sleep(5)
            assert got == [30]
            assert len(w.broker.sent) == 25


async def test_what_is_not_ours_any_more_takes_no_room_from_what_waits(autojump_clock: MockClock) -> None:
    put_off: list[UnheardMessage] = []
    unheard = Unheard(Subscriptions("billing", lambda: None), 2, lambda *_: None, put_off.extend)
    lost, kept = ProcessQueue(queue(0, topic=RETRY), 0), ProcessQueue(queue(1, topic=RETRY), 0)
    for process_queue in (lost, kept):
        process_queue.put(stored_range(0, 3))
    unheard.add(lost, stored_range(0, 2))
    lost.drop()
    unheard.add(kept, stored_range(0, 1))
    assert (len(unheard), put_off) == (1, [])
    unheard.add(kept, stored_range(1, 3))
    assert [each.message.queue_offset for each in put_off] == [0]
    assert len(unheard) == 2


async def test_RT1_what_no_broker_takes_goes_on_waiting(autojump_clock: MockClock) -> None:
    async with world(topics=("Orders", "Bills")) as w:
        retries(w, 1)
        w.broker.send_code = ResponseCode.MESSAGE_ILLEGAL
        got: list[int] = []
        consumer = w.consumer()
        consumer.subscribe("Orders", nothing)
        async with consumer:
            await trio.sleep(2.5 * PATIENCE)
            assert len(w.broker.sent) == 2
            consumer.subscribe("Bills", lambda message: got.append(message.reconsume_times))
            await trio.sleep(6)
            assert got == [2]
            assert w.broker.offsets[RETRY, 0] == 1


async def test_RT1_what_waits_at_the_end_is_neither_acknowledged_nor_given_back(autojump_clock: MockClock) -> None:
    async with world(topics=("Orders", "Bills")) as w:
        retries(w, 3)
        consumer = w.consumer()
        consumer.subscribe("Orders", nothing)
        async with consumer:
            await trio.sleep(5)
        assert (w.broker.sent_back, w.broker.sent) == ([], [])
        assert w.broker.offsets.get((RETRY, 0), 0) == 0
        got: list[int] = []
        other = w.consumer()
        other.subscribe("Bills", lambda message: got.append(message.reconsume_times))
        async with other:
            await trio.sleep(5)
        assert got == [2, 2, 2]


async def test_what_was_pulled_of_a_topic_that_is_given_up_burns_no_attempt(autojump_clock: MockClock) -> None:
    async with world(topics=("Orders", "Bills")) as w:
        consumer = w.consumer(consume_from_where=FIRST)
        consumer.subscribe("Orders", nothing)
        consumer.subscribe("Bills", nothing)
        async with consumer:
            await trio.sleep(1)
            consumer.unsubscribe("Orders")
            w.broker.store(5)
            await trio.sleep(2 * PATIENCE)
            assert (w.broker.sent_back, w.broker.sent) == ([], [])
            assert w.broker.offsets["Orders", 0] == 0
            got: list[int] = []
            consumer.subscribe("Orders", lambda message: got.append(message.queue_offset))
            await trio.sleep(6)
            assert got == list(range(5))


async def test_a_retry_that_names_no_topic_fails(autojump_clock: MockClock) -> None:
    async with world() as w:
        w.broker.store(1, topic=RETRY)
        consumer = w.consumer()
        consumer.subscribe("Orders", nothing)
        async with consumer:
            await trio.sleep(1)
            assert [back.offset for back in w.broker.sent_back] == [10_000]
