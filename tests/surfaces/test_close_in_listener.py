"""A listener that closes its own consumer: closing begins there, waits for that listener elsewhere, and counts it."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
import trio
import trio.lowlevel

from rocketpy import ConfigError, ConsumeFromWhere, Message
from rocketpy.sync import Producer as BlockingProducer
from tests.surfaces.surface import SURFACES, call

pytestmark = pytest.mark.waits("listeners that work on while another thread or loop closes")

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
PATIENCE = 45.0
"""Seconds that closing gives to listeners."""
SOON = 20.0
"""Less than half of that."""


class Closing:
    """A consumer, a listener of one kind that closes it, and what came of that."""

    def __init__(self, surface, group, namesrv, topic, kind, act=None, **settings):
        self.surface, self.act = surface, act or self.close
        settings |= {"namesrv": namesrv, "consume_from_where": FIRST, "await_termination": PATIENCE}
        self.consumer = surface.module.PushConsumer(group, **settings)
        self.got, self.errors, self.scope = [], [], None
        self.consumer.subscribe(topic, getattr(self, f"{kind}_listener"))

    def close(self):
        """Begin, and give what has to be awaited for it on asyncio."""
        if self.surface.name == "trio":
            return self.scope.cancel()
        return self.consumer.aclose() if self.surface.name == "asyncio" else self.consumer.close()

    def plain_listener(self, message):
        began = time.monotonic()
        if self.surface.name == "asyncio":
            asyncio.run_coroutine_threadsafe(self._acted(), self.loop).result(SOON)
        elif self.surface.name == "trio":
            trio.from_thread.run(self._acted)
        else:
            self.note(self.act)
        time.sleep(0.1)  # it works on: closing has to wait for that
        self.got.append((message.body, time.monotonic() - began))

    async def async_listener(self, message):
        began = time.monotonic()
        await self._acted()
        with trio.CancelScope(shield=True) if self.surface.name == "trio" else _nothing():
            await (asyncio.sleep if self.surface.name == "asyncio" else trio.sleep)(0.1)
        self.got.append((message.body, time.monotonic() - began))

    def note(self, act):
        try:
            return act()
        except ConfigError as error:
            self.errors.append(error)

    async def _acted(self):
        while self.surface.name == "trio" and self.consumer.status().state != "open":
            await trio.lowlevel.checkpoint()  # a start that is cancelled has never been, and what is tested is the end
        try:
            await call(self.act())
        except ConfigError as error:
            self.errors.append(error)

    def run_forever(self):
        """Run it until it has ended."""

        async def main():
            if self.surface.name == "asyncio":
                self.loop = asyncio.get_running_loop()
            if self.surface.name == "trio":
                with trio.CancelScope() as self.scope:
                    await self.consumer.run_forever()
            else:
                await call(self.consumer.run_forever())

        self.surface.run(main)


class _nothing:
    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


def fill(namesrv, topic, count=1):
    with BlockingProducer("filler", namesrv=namesrv) as producer:
        producer.create_topic(topic, queues=1)
        for number in range(count):
            producer.send(Message(topic, b"%d" % number))


@pytest.mark.slow
@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_run_forever_ends_well_when_a_listener_closes(surface, namesrv, topic, cluster, kind, orderly):
    fill(namesrv, topic)
    group = f"closing-{surface.name}-{kind}-{orderly}"
    closing = Closing(surface, group, namesrv, topic, kind, orderly=orderly)
    began = time.monotonic()
    closing.run_forever()
    assert time.monotonic() - began < SOON
    [(body, took)] = closing.got
    assert body == b"0"
    assert took < SOON
    assert closing.errors == []
    assert closing.consumer.status().state == "closed"
    cluster.wait_consumed(group, topic)  # the message counts by what came of its listener


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_what_is_behind_a_message_whose_listener_closes_is_for_the_next_member(surface, namesrv, topic, cluster, kind):
    """It gets the lock at once, and the rest in order."""
    fill(namesrv, topic, 4)
    group = f"rest-{surface.name}-{kind}"
    for number in range(4):
        closing = Closing(surface, group, namesrv, topic, kind, orderly=True)
        began = time.monotonic()
        closing.run_forever()
        assert time.monotonic() - began < SOON
        assert [body for body, _ in closing.got] == [b"%d" % number]
    cluster.wait_consumed(group, topic)


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("surface", [SURFACES["blocking"], SURFACES["asyncio"]], ids=["blocking", "asyncio"])
def test_who_closes_elsewhere_meanwhile_waits_for_the_end(surface, namesrv, topic, kind, orderly):
    fill(namesrv, topic)
    closing = Closing(surface, f"both-{surface.name}-{kind}-{orderly}", namesrv, topic, kind, orderly=orderly)

    async def main():
        closing.loop = asyncio.get_running_loop() if surface.name == "asyncio" else None
        consumer = closing.consumer
        await call(consumer.start())
        while consumer.status().state == "open":
            await (asyncio.sleep(0.001) if surface.name == "asyncio" else nothing())
        await call(closing.close())
        assert consumer.status().state == "closed"
        assert len(closing.got) == 1

    async def nothing():
        time.sleep(0.001)  # noqa: ASYNC251

    began = time.monotonic()
    surface.run(main)
    assert time.monotonic() - began < SOON


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("surface", [SURFACES["blocking"], SURFACES["asyncio"]], ids=["blocking", "asyncio"])
def test_run_forever_in_a_listener_is_refused(surface, namesrv, topic, kind):
    fill(namesrv, topic)
    closing = Closing(surface, f"forever-{surface.name}-{kind}", namesrv, topic, kind)

    def act():
        if surface.name == "asyncio":
            return run_and_close()
        try:
            closing.consumer.run_forever()
        finally:
            closing.close()

    async def run_and_close():
        try:
            await closing.consumer.run_forever()
        finally:
            await closing.close()

    closing.act = act
    closing.run_forever()
    [error] = closing.errors
    assert "run_forever" in str(error)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_what_a_listener_started_waits_like_everybody_else_once_that_has_returned(namesrv, topic, kind):
    """Only the listener itself, and what runs while it does, is not waited for."""
    fill(namesrv, topic, 2)
    surface = SURFACES["asyncio"]
    closing = Closing(surface, f"later-{kind}", namesrv, topic, kind)
    ended, tasks = [], []

    async def close_later():
        while not closing.got:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        await closing.consumer.aclose()
        ended.append(closing.consumer.status().state)

    async def act():
        if not tasks:
            tasks.append(asyncio.create_task(close_later()))

    closing.act = act
    closing.run_forever()
    assert ended == ["closed"]


def test_a_listener_of_another_consumer_waits(namesrv, topic):
    fill(namesrv, topic)
    other = SURFACES["blocking"].module.PushConsumer("other", namesrv=namesrv)
    states, done = [], threading.Event()

    def listener(message):
        other.close()
        states.append(other.status().state)
        done.set()

    with SURFACES["blocking"].module.PushConsumer("one", namesrv=namesrv, consume_from_where=FIRST) as consumer:
        other.start()
        consumer.subscribe(topic, listener)
        assert done.wait(20)
    assert states == ["closed"]
