"""What consumers count, and what listeners of lists say, is the same on every surface."""

from __future__ import annotations

import asyncio
import time

import pytest
import trio

from rocketpy import ClientClosedError, ConsumeFromWhere, Message, RetryLater
from tests.surfaces.surface import call, entered

pytestmark = pytest.mark.waits("waits for threads and loops of other kinds")

SLEEP = {"trio": trio.sleep, "asyncio": asyncio.sleep, "blocking": time.sleep}
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


async def eventually(surface, condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        await call(SLEEP[surface.name](0.01))


async def send(surface, namesrv, topic, count):
    async with entered(surface.module.Producer("p", namesrv=namesrv)) as producer:
        for number in range(count):
            await call(producer.send(Message(topic, b"%d" % number)))


def test_what_a_lite_pull_consumer_has_done(surface, namesrv, topic):
    async def main():
        await send(surface, namesrv, topic, 4)
        # Until the first `ack` a second poll would mean that what the first one gave is done.
        settings = {"consume_from_where": FIRST, "auto_commit": False}
        consumer = surface.module.LitePullConsumer(f"lite-{topic}", namesrv=namesrv, **settings)
        consumer.subscribe(topic)
        with pytest.raises(ClientClosedError):
            consumer.statistics()
        async with entered(consumer):
            got = []
            while len(got) < 4:
                got += await call(consumer.poll(4 - len(got), timeout=10))
            consumer.ack(got[0])
            await eventually(surface, lambda: consumer.statistics().acknowledged == 1)
            counts = consumer.statistics()
            assert (counts.pulled, counts.handed_out) == (4, 4)
            assert (counts.in_flight, counts.topics[topic].in_flight, counts.held) == (3, 3, 0)
            assert counts.consumed_per_second > 0
            assert counts.topics[topic].consumed_per_second > 0

    surface.run(main)


@pytest.mark.slow
def test_a_listener_of_lists_says_what_is_done_and_when_the_rest_comes_again(surface, namesrv, topic):
    got = []

    def listener(messages):
        got.extend((message.body, message.reconsume_times) for message in messages)
        later = [message for message in messages if message.reconsume_times == 0]
        return RetryLater(1, done=1) if len(later) > 1 else None

    async def main():
        await send(surface, namesrv, topic, 8)
        consumer = surface.module.PushConsumer(
            f"lists-{topic}", namesrv=namesrv, consume_from_where=FIRST, consume_message_batch_max_size=8
        )
        consumer.subscribe(topic, listener)
        async with entered(consumer):
            await eventually(surface, lambda: consumer.statistics().consumed == 8)
            assert consumer.statistics().sent_back == len(got) - 8 > 0
        assert len({body for body, _ in got}) == 8

    surface.run(main)
