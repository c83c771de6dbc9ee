"""What brokers refuse a consumer is told alike on every surface: at the start, in the status, by a pull."""

from __future__ import annotations

import asyncio
import time

import pytest
import trio

from rocketpy import BrokerError, FilterRefusedError, MessageQueue
from tests.surfaces.surface import call, entered

pytestmark = pytest.mark.waits("waits for threads and loops of other kinds")

SLEEP = {"trio": trio.sleep, "asyncio": asyncio.sleep, "blocking": time.sleep}
TOO_MANY = " || ".join(f"t{number}" for number in range(2049))


async def eventually(surface, condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        await call(SLEEP[surface.name](0.01))


@pytest.mark.parametrize("kind", ["PushConsumer", "LitePullConsumer"])
def test_heartbeats_that_are_refused(surface, cluster, namesrv, topic, kind):
    cluster.create_topic(topic, queues=1)
    listener = (lambda message: None,) if kind == "PushConsumer" else ()

    async def main():
        consumer = getattr(surface.module, kind)(f"refused-{topic}", namesrv=namesrv)
        consumer.subscribe(topic, *listener, tags=TOO_MANY)
        with pytest.raises(BrokerError, match="names at most 2048 tags"):
            async with entered(consumer):
                raise AssertionError("nobody gets here")
        consumer.subscribe(topic, *listener, tags="t1")
        async with entered(consumer):
            assert await call(consumer.wait_assigned(10))
            assert consumer.status().errors == {}
            consumer.subscribe(topic, *listener, tags=TOO_MANY)
            await eventually(surface, lambda: topic in consumer.status().errors)
            assert "names at most 2048 tags" in str(consumer.status().errors[topic])
            consumer.subscribe(topic, *listener, tags="t1 || t2")
            await eventually(surface, lambda: consumer.status().errors == {})

    surface.run(main)


def test_a_pull_by_a_wrong_expression(surface, cluster, namesrv, topic):
    cluster.create_topic(topic, queues=1)
    queue = MessageQueue(topic, "broker-a", 0)

    async def main():
        async with entered(surface.module.PullConsumer(f"refused-{topic}", namesrv=namesrv)) as consumer:
            for pull in (consumer.pull, consumer.pull_block_if_not_found):
                with pytest.raises(FilterRefusedError, match="correct the expression") as caught:
                    await call(pull(queue, 0, sql="a >"))
                assert (caught.value.position, caught.value.expression, caught.value.topic) == (4, "a >", topic)

    surface.run(main)
