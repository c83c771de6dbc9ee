"""start and aclose: from any task of the loop, side by side, in the middle of each other."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest
import trio

from rocketpy import Message, SendStatus
from rocketpy.aio import MQClientInstance, Producer, PushConsumer
from rocketpy.errors import ClientClosedError, ConfigError, NameServerUnreachableError
from rocketpy.portal import portal
from tests.aio.running import in_asyncio, run

KINDS = {
    "client": MQClientInstance,
    "producer": lambda **settings: Producer("pg", **settings),
    "consumer": lambda **settings: PushConsumer("lifetime", **settings),
}


@pytest.fixture(params=KINDS)
def make(request):
    return KINDS[request.param]


def test_it_is_started_and_closed_by_different_tasks(make, fakes):
    async def main():
        thing = make(**settings)
        await thing.aclose()  # never started: nothing to do
        await asyncio.create_task(thing.start())
        opened = thing._bridge.opened
        with pytest.raises(ClientClosedError, match="already"):
            await thing.start()
        await asyncio.gather(*(thing.aclose() for _ in range(3)))
        assert opened.ended.is_set()
        await thing.aclose()
        with pytest.raises(ClientClosedError, match="make a new one"):
            await thing.start()

    with fakes() as settings:
        run(main)


def test_what_was_started_works_and_a_block_may_be_left_after_aclose(fakes):
    async def main():
        producer = Producer("pg", **settings)
        await producer.start()
        assert (await producer.send(Message("T", b"x"))).status is SendStatus.SEND_OK
        await producer.aclose()
        with pytest.raises(ClientClosedError):
            await producer.send(Message("T", b"x"))
        async with Producer("pg", **settings) as producer:
            await producer.aclose()

    with fakes() as settings:
        run(main)


@in_asyncio
async def test_aclose_ends_a_start_that_hangs(hole):
    consumer = PushConsumer("hangs", namesrv=hole.address, request_timeout=600.0)
    consumer.subscribe("T", print)
    starting = asyncio.create_task(consumer.start())
    await asyncio.to_thread(hole.wait_asked)
    assert consumer.status().state == "starting"
    with pytest.raises(ClientClosedError, match="by another task"):
        await consumer.start()
    async with asyncio.timeout(10):
        await asyncio.gather(consumer.aclose(), consumer.aclose())
        with pytest.raises(ClientClosedError, match="was closed while it started"):
            await starting
    assert consumer.status().state == "not started"


@in_asyncio
async def test_a_start_that_failed_may_be_tried_again(namesrv):
    consumer = PushConsumer("again", namesrv="127.0.0.1:1")
    consumer.subscribe("T", print)
    for _ in range(2):
        with pytest.raises(NameServerUnreachableError):
            await consumer.start()
    await consumer.aclose()


def test_another_loop_may_not_close_it(namesrv):
    producer = Producer("pg", namesrv=namesrv)
    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(producer.start())
        with pytest.raises(ConfigError, match="one in each loop"):
            second.run(producer.aclose())
        assert producer.is_open
        first.run(producer.aclose())


def test_a_loop_in_the_thread_of_the_portal_is_refused_at_once(namesrv):
    """As where a hook, or a finalizer that struck there, runs a loop: everything would wait for that very thread."""
    caught, done = [], threading.Event()

    def use():
        try:
            asyncio.run(Producer("pg", namesrv=namesrv).start())
        except ConfigError as error:
            caught.append(str(error))
        done.set()

    portal().post(use)
    assert done.wait(10)
    assert "would wait for itself" in caught[0]


@pytest.mark.parametrize("name", ["start", "run_forever"])
def test_without_a_loop_of_asyncio_the_right_class_is_named(namesrv, name):
    consumer = PushConsumer("trio", namesrv=namesrv)
    with pytest.raises(ConfigError, match="from rocketpy in trio"):
        trio.run(getattr(consumer, name))


def test_every_class_has_both_ways_of_opening_and_closing():
    for kind in (MQClientInstance, Producer, PushConsumer):
        for name in ("start", "aclose", "__aenter__", "__aexit__"):
            assert inspect.iscoroutinefunction(getattr(kind, name))
