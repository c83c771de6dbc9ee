"""A listener that hangs in a queue consumed in order while its consumer closes: what the next member gets, and when."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
import trio

from rocketpy import ConsumeFromWhere, Message, RequestTimeoutError
from rocketpy.sync import Producer as BlockingProducer
from tests.surfaces.surface import call, entered

pytestmark = pytest.mark.waits("a listener hangs for as long as closing may wait for it")

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class InOrder:
    """A group that consumes the three messages of a queue in order."""

    def __init__(self, surface, namesrv, topic, kind):
        self.surface, self.topic, self.kind = surface, topic, kind
        self.settings = {"namesrv": namesrv, "consume_from_where": FIRST, "orderly": True}
        self.begun, self.release = threading.Event(), threading.Event()
        self.hung, self.got = [], []
        with BlockingProducer("filler", namesrv=namesrv) as producer:
            producer.create_topic(topic, queues=1)
            for number in range(3):
                producer.send(Message(topic, b"%d" % number))

    def member(self, listener, **settings):
        group = f"hangs-in-order-{self.surface.name}-{self.kind}"
        consumer = self.surface.module.PushConsumer(group, **self.settings, **settings)
        consumer.subscribe(self.topic, listener)
        return entered(consumer)

    def hang(self, message):
        self.hung.append(message.body)
        self.begun.set()
        self.release.wait(60)

    async def hang_async(self, message):
        self.hung.append(message.body)
        self.begun.set()
        await (asyncio.Event() if self.surface.name == "asyncio" else trio.Event()).wait()

    async def hang_and_close(self):
        """Leave while the listener is in its first message."""
        listener = self.hang if self.kind == "plain" else self.hang_async
        async with self.member(listener, await_termination=0.2, close_timeout=1.0) as consumer:
            await self.until(consumer, self.begun.is_set)
            began = time.monotonic()
        assert time.monotonic() - began < 5

    async def until(self, consumer, condition):
        while not condition():
            await call(consumer.wait_assigned(10))
            time.sleep(0.01)  # noqa: ASYNC251


def test_a_queue_stays_locked_while_a_thread_that_nobody_can_end_is_in_its_listener(surface, namesrv, topic, caplog):
    """Nobody else consumes it meanwhile, and nothing behind that message begins when the listener ends after all."""
    group = InOrder(surface, namesrv, topic, "plain")

    async def main():
        await group.hang_and_close()
        async with group.member(lambda message: group.got.append(message.body)) as consumer:
            while "locked by another member" not in str(consumer.status().errors.get(topic)):
                with pytest.raises(RequestTimeoutError, match="got no queue"):
                    await call(consumer.wait_assigned(0.1))
            group.release.set()
            with pytest.raises(RequestTimeoutError, match="got no queue"):
                await call(consumer.wait_assigned(0.5))

    try:
        surface.run(main)
    finally:
        group.release.set()
    assert "the broker keeps these queues locked for up to 60 s more" in caplog.text
    assert (group.hung, group.got) == ([b"0"], [])


def test_what_a_cancelled_listener_has_hung_in_comes_again_before_what_is_behind_it(surface, namesrv, topic):
    group = InOrder(surface, namesrv, topic, "async")

    async def main():
        await group.hang_and_close()
        async with group.member(lambda message: group.got.append(message.body)) as consumer:
            await group.until(consumer, lambda: len(group.got) == 3)

    surface.run(main)
    assert (group.hung, group.got) == ([b"0"], [b"0", b"1", b"2"])
