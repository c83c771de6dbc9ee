"""Cancelling a send, in the way of each surface: it has ended when that returns, and the producer is as before."""

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
SHORTLY = 0.1


def cancelled_on_trio(settings, *, answers):
    async def main():
        async with TrioProducer("pg", **settings) as producer:
            for _ in range(answers):
                await producer.send(MESSAGE)
            with trio.move_on_after(SHORTLY) as scope:
                await producer.send(MESSAGE)
            assert scope.cancelled_caught
            assert producer._under_way == 0
            for _ in range(answers):
                assert (await producer.send(MESSAGE)).status is SendStatus.SEND_OK

    trio.run(main)


def cancelled_on_asyncio(settings, *, answers):
    async def main():
        async with AsyncioProducer("pg", **settings) as producer:
            for _ in range(answers):
                await producer.send(MESSAGE)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(SHORTLY):
                    await producer.send(MESSAGE)
            assert producer._inner._under_way == 0
            for _ in range(answers):
                assert (await producer.send(MESSAGE)).status is SendStatus.SEND_OK

    run(main)


def interrupted_in_blocking_code(settings, *, answers):
    main = threading.main_thread().ident
    with BlockingProducer("pg", **settings) as producer:
        for _ in range(answers):
            producer.send(MESSAGE)
        timer = threading.Timer(SHORTLY, signal.pthread_kill, (main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            producer.send(MESSAGE)
        timer.join(10)
        assert producer._inner._under_way == 0
        for _ in range(answers):
            assert producer.send(MESSAGE).status is SendStatus.SEND_OK


WAYS = {"trio": cancelled_on_trio, "asyncio": cancelled_on_asyncio, "blocking": interrupted_in_blocking_code}


@pytest.mark.parametrize("surface", WAYS)
def test_a_send_that_is_cancelled_while_it_looks_for_a_route_has_ended(surface, hole):
    settings = {"namesrv": hole, "send_timeout": 600.0, "request_timeout": 600.0}
    WAYS[surface](settings, answers=0)


@pytest.mark.parametrize("surface", ["asyncio", "blocking"])
def test_a_send_that_is_cancelled_while_it_waits_for_its_answer_has_ended(surface, fakes):
    """The fakes live in the portal; for trio see the tests of the producer."""
    broker = SendBroker(script=[0, "silence"])
    with fakes(broker) as settings:
        WAYS[surface]({"send_timeout": 600.0, **settings}, answers=1)
    assert len(broker.taken) == 3
