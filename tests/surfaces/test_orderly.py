"""Consuming in order on every surface, with real threads and loops: one listener at a time in each queue."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from functools import partial

import pytest
import trio

from rocketpy import ConsumeFromWhere, ConsumeResult, Message, Suspend
from rocketpy.sync import Producer as BlockingProducer
from tests.surfaces.surface import entered

pytestmark = pytest.mark.waits("listeners in real threads and loops")

QUEUES, EACH = 4, 150
SLEEP = {"trio": trio.sleep, "asyncio": asyncio.sleep}


class Watch:
    """A listener of either kind that notices when order is broken; some messages fail once."""

    def __init__(self):
        self.lines = defaultdict(list)
        self.inside = defaultdict(int)
        self.wrong = []
        self.full = threading.Event()
        self._lock = threading.Lock()

    def begin(self, message):
        with self._lock:
            self.inside[message.queue_id] += 1
            if self.inside[message.queue_id] > 1:
                self.wrong.append(f"two listeners in queue {message.queue_id}")
            self.lines[message.queue_id].append(message.queue_offset)

    def end(self, message):
        with self._lock:
            self.inside[message.queue_id] -= 1
            if sum(len(set(line)) for line in self.lines.values()) == QUEUES * EACH:
                self.full.set()
        if message.queue_offset % 50 == 17 and message.reconsume_times == 0:
            return Suspend(0.05)
        if message.queue_offset % 50 == 18 and message.reconsume_times == 0:
            raise ValueError("not yet")
        return ConsumeResult.SUCCESS if message.queue_offset % 2 else None

    def plain(self, message):
        self.begin(message)
        return self.end(message)

    def asynchronous(self, sleep):
        async def listener(message):
            self.begin(message)
            if message.queue_offset % 5 == 0:
                await sleep(0)
            return self.end(message)

        return listener


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_OR1_every_surface_keeps_the_order_of_each_queue(surface, namesrv, topic, kind):
    watch = Watch()
    with BlockingProducer("pg", namesrv=namesrv) as producer:
        producer.create_topic(topic, queues=QUEUES)
        for number in range(QUEUES * EACH):
            producer.send(Message(topic, b"%d" % number))

    async def full():
        wait = partial(watch.full.wait, 20)
        if surface.name == "blocking":
            return wait()
        return await (trio.to_thread.run_sync(wait) if surface.name == "trio" else asyncio.to_thread(wait))

    async def scene():
        consumer = surface.module.PushConsumer(
            f"ordered-{topic}",
            namesrv=namesrv,
            orderly=True,
            suspend_current_queue_time=0.02,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        listener = watch.plain if kind == "plain" else watch.asynchronous(SLEEP.get(surface.name, trio.sleep))
        consumer.subscribe(topic, listener)
        async with entered(consumer):
            assert await full()
        # It has closed, so that everything is counted.
        counts = consumer.statistics()
        assert (counts.consumed, counts.retried_here) == (QUEUES * EACH, QUEUES * 3 * 2)

    surface.run(scene)
    assert watch.wrong == []
    expected = [each for offset in range(EACH) for each in [offset] * (2 if offset % 50 in (17, 18) else 1)]
    for line in watch.lines.values():
        assert line == expected
