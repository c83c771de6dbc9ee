"""Cancelling a send, in the way of each surface: it has ended when that returns, and the producer is as before.

It is cancelled when the one that it waits for has heard of it: `wait_asked` blocks until then.
"""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest
import trio

from rocketpy import Message, SendStatus
from rocketpy.aio import Producer as AsyncioProducer
from rocketpy.producer import Producer as TrioProducer
from rocketpy.sync import Producer as BlockingProducer
from tests.aio.running import run
from tests.producer.brokers import SendBroker

MESSAGE = Message("T", b"x")


def cancelled_on_trio(settings, wait_asked, *, answers):
    async def main():
        async with TrioProducer("pg", **settings) as producer:
            for _ in range(answers):
                await producer.send(MESSAGE)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(producer.send, MESSAGE)
                await trio.to_thread.run_sync(wait_asked)
                nursery.cancel_scope.cancel()
            assert nursery.cancel_scope.cancelled_caught
            assert producer.outside.sends.total == 0
            for _ in range(answers):
                assert (await producer.send(MESSAGE)).status is SendStatus.SEND_OK

    trio.run(main)


def cancelled_on_asyncio(settings, wait_asked, *, answers):
    async def main():
        async with AsyncioProducer("pg", **settings) as producer:
            for _ in range(answers):
                await producer.send(MESSAGE)
            sending = asyncio.create_task(producer.send(MESSAGE))
            await asyncio.to_thread(wait_asked)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            assert producer._inner.outside.sends.total == 0
            for _ in range(answers):
                assert (await producer.send(MESSAGE)).status is SendStatus.SEND_OK

    run(main)


def interrupted_in_blocking_code(settings, wait_asked, *, answers):
    main = threading.main_thread().ident

    def interrupt():
        wait_asked()
        signal.pthread_kill(main, signal.SIGINT)

    with BlockingProducer("pg", **settings) as producer:
        for _ in range(answers):
            producer.send(MESSAGE)
        other = threading.Thread(target=interrupt)
        other.start()
        with pytest.raises(KeyboardInterrupt):
            producer.send(MESSAGE)
        other.join(10)
        assert producer._inner.outside.sends.total == 0
        for _ in range(answers):
            assert producer.send(MESSAGE).status is SendStatus.SEND_OK


WAYS = {"trio": cancelled_on_trio, "asyncio": cancelled_on_asyncio, "blocking": interrupted_in_blocking_code}


@pytest.mark.parametrize("surface", WAYS)
def test_a_send_that_is_cancelled_while_it_looks_for_a_route_has_ended(surface, hole):
    settings = {"namesrv": hole.address, "send_timeout": 600.0, "request_timeout": 600.0}
    WAYS[surface](settings, hole.wait_asked, answers=0)


@pytest.mark.parametrize("surface", ["asyncio", "blocking"])
def test_a_send_that_is_cancelled_while_it_waits_for_its_answer_has_ended(surface, fakes):
    """The fakes live in the portal; for trio see the tests of the producer."""
    broker = SendBroker(script=[0, "silence"])
    with fakes(broker) as settings:
        WAYS[surface]({"send_timeout": 600.0, **settings}, lambda: broker.silent.wait(20), answers=1)
    assert len(broker.taken) == 3
