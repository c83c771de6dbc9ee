"""Pulling waits while too many bytes are held, of a queue or of a topic, and goes on at once when there is room."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from rocketpy.consumer import LitePullConsumer
from rocketpy.message import MessageExt
from rocketpy.results import ConsumeFromWhere
from tests.consumer.brokers import PullBroker, World, queue, world

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
MIB = 1024 * 1024
BODY = b"x" * 100_000
BATCH = 4
ONE_PULL = BATCH * 101_000
"""Bytes that a single pull may bring beyond a limit, properties included."""


def pulls_of_orders(broker: PullBroker) -> int:
    return sum(each.topic == "Orders" for each in broker.pulls)


def fill(w: World, queues: int, each: int) -> None:
    for number in range(queues):
        w.broker.store(each, queue_id=number, body=BODY)


# --- of a topic -------------------------------------------------------------------------------------------


async def test_PC6_the_bytes_of_a_topic_are_bounded_over_all_of_its_queues(autojump_clock: MockClock) -> None:
    async with world(queues=4) as w:
        fill(w, 4, 60)
        opened, done = trio.Event(), [0]

        async def listener(message: MessageExt) -> None:
            await opened.wait()
            done[0] += 1

        consumer = w.consumer(consume_from_where=FIRST, pull_threshold_size_for_topic=8, pull_batch_size=BATCH)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(30)
            held = {number: consumer.status().queues[queue(number)] for number in range(4)}
            for status in held.values():
                assert "MiB held, over 2" in str(status.paused)
                assert 2 * MIB < status.held_bytes < 2 * MIB + ONE_PULL
            assert 8 * MIB < sum(status.held_bytes for status in held.values()) < 8 * MIB + 4 * ONE_PULL
            pulls = pulls_of_orders(w.broker)
            await trio.sleep(10)
            assert pulls_of_orders(w.broker) == pulls
            opened.set()
            await trio.sleep(5)
            assert done == [240]


async def test_PC6_the_bytes_of_a_topic_are_shared_out_anew_when_it_gets_more_queues(
    autojump_clock: MockClock,
) -> None:
    async with world(queues=2) as w:
        fill(w, 4, 60)
        opened = trio.Event()

        async def listener(message: MessageExt) -> None:
            await opened.wait()

        consumer = w.consumer(consume_from_where=FIRST, pull_threshold_size_for_topic=4, pull_batch_size=BATCH)
        consumer.subscribe("Orders", listener)
        async with consumer:
            await trio.sleep(10)
            assert "MiB held, over 2" in str(consumer.status().queues[queue(0)].paused)
            w.set_route("Orders", queues=4)
            await trio.sleep(60)
            status = consumer.status().queues[queue(3)]
            assert "MiB held, over 1" in str(status.paused)
            assert MIB < status.held_bytes < MIB + ONE_PULL
            opened.set()


# --- of a queue of a lite pull consumer -----------------------------------------------------------------------


async def polled(consumer: LitePullConsumer, count: int) -> list[tuple[int, int]]:
    """Queues and offsets of the next messages."""
    got: list[tuple[int, int]] = []
    with trio.fail_after(60):
        while len(got) < count:
            got += [(each.queue_id, each.queue_offset) for each in await consumer.poll(count - len(got))]
    return got


async def test_PC2_a_lite_pull_consumer_waits_while_too_many_bytes_of_a_queue_are_held(
    autojump_clock: MockClock,
) -> None:
    async with world() as w:
        fill(w, 1, 60)
        consumer = w.lite(consume_from_where=FIRST, pull_threshold_size_for_queue=1, pull_batch_size=BATCH)
        consumer.subscribe("Orders")
        async with consumer:
            await trio.sleep(30)
            status = consumer.status().queues[queue()]
            assert "MiB held, over 1" in str(status.paused)
            assert MIB < status.held_bytes < MIB + ONE_PULL
            pulls = pulls_of_orders(w.broker)
            await trio.sleep(100)
            assert pulls_of_orders(w.broker) == pulls
            took, now = status.held_messages // 2, trio.current_time()
            await polled(consumer, took)
            await trio.testing.wait_all_tasks_blocked()
            assert pulls_of_orders(w.broker) > pulls
            assert w.broker.pull_times[-1] - now < 0.1
            assert await polled(consumer, 60 - took) == [(0, offset) for offset in range(took, 60)]


async def test_PC2_bytes_of_one_queue_do_not_stop_the_others_of_a_lite_pull_consumer(
    autojump_clock: MockClock,
) -> None:
    async with world(queues=2) as w:
        fill(w, 1, 60)
        w.broker.store(30, queue_id=1, body=b"small")
        consumer = w.lite(consume_from_where=FIRST, pull_threshold_size_for_queue=1, pull_batch_size=BATCH)
        consumer.subscribe("Orders")
        async with consumer:
            await trio.sleep(30)
            full, small = (consumer.status().queues[queue(each)] for each in (0, 1))
            assert "MiB held" in str(full.paused)
            assert (small.paused, small.held_messages) == (None, 30)
            assert len(await polled(consumer, 90)) == 90
