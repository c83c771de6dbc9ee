"""Cancel scopes of anyio: they cancel a task in every turn of the loop until it has left them."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import contextmanager

import anyio
import pytest

from rocketpy import Message, SendStatus
from rocketpy.aio import Producer, PushConsumer
from rocketpy.errors import ClientClosedError
from rocketpy.portal import portal
from tests.aio.running import in_asyncio, run
from tests.producer.brokers import SendBroker

MESSAGE = Message("T", b"x")
SHORTLY = 0.05
HELD_UP = 0.3
FEW = 100
"""Turns of a loop in which nothing happens; one that spins makes thousands in that time."""


@contextmanager
def turns():
    """Counts the turns of the running loop."""
    loop = asyncio.get_running_loop()
    select, counted = loop._selector.select, []
    loop._selector.select = lambda timeout: (counted.append(timeout), select(timeout))[1]
    try:
        yield counted
    finally:
        del loop._selector.select


@contextmanager
def portal_held_up(seconds):
    """What is cancelled in the portal takes so long to end."""
    release = threading.Event()
    timer = threading.Timer(seconds, release.set)
    timer.start()
    portal().post(release.wait)
    try:
        yield
    finally:
        release.set()
        timer.join()


@pytest.mark.waits("the loop is asyncio's, which has no virtual clock")
@pytest.mark.parametrize("scope", ["move_on_after", "task group"])
def test_a_send_that_is_cancelled_has_ended_and_the_loop_has_not_spun(fakes, scope):
    broker = SendBroker(script=[0, "silence"])

    async def send_in_task_group(producer):
        async with anyio.create_task_group() as group:
            group.start_soon(producer.send, MESSAGE)
            await anyio.sleep(SHORTLY)
            group.cancel_scope.cancel()

    @in_asyncio
    async def main():
        async with Producer("pg", send_timeout=600.0, **settings) as producer:
            await producer.send(MESSAGE)
            with turns() as counted:
                asyncio.get_running_loop().call_later(SHORTLY / 2, held_up.__enter__)
                if scope == "task group":
                    await send_in_task_group(producer)
                else:
                    with anyio.move_on_after(SHORTLY) as moved_on:
                        await producer.send(MESSAGE)
                    assert moved_on.cancelled_caught
            held_up.__exit__(None, None, None)
            assert producer._inner.outside.sends.total == 0
            assert len(counted) < FEW
            assert asyncio.current_task().cancelling() == 0
            assert (await producer.send(MESSAGE)).status is SendStatus.SEND_OK

    held_up = portal_held_up(HELD_UP)
    with fakes(broker) as settings:
        main()


@pytest.mark.waits("the portal is held up for a moment")
def test_a_block_in_a_cancelled_scope_is_left_in_order(fakes):
    async def main():
        with turns() as counted, anyio.CancelScope() as scope:
            async with Producer("pg", **settings) as producer:
                opened = producer._bridge.opened
                await producer.send(MESSAGE)
                try:
                    scope.cancel()  # not by a deadline, which could strike before it is open
                    await anyio.sleep_forever()
                finally:
                    held_up.__enter__()
        held_up.__exit__(None, None, None)
        assert scope.cancelled_caught
        assert opened.ended.is_set()
        assert len(counted) < FEW

    held_up = portal_held_up(HELD_UP)
    with fakes() as settings:
        run(main)


def test_a_start_in_a_cancelled_scope_leaves_nothing_behind(hole):
    async def cancel(scope):
        await asyncio.to_thread(hole.wait_asked)
        scope.cancel()

    async def main():
        consumer = PushConsumer("slow", namesrv=hole.address, request_timeout=600.0)
        consumer.subscribe("T", print)
        with turns() as counted:
            with anyio.CancelScope() as scope:
                cancelling = asyncio.create_task(cancel(scope))
                async with consumer:
                    raise AssertionError("it has started without a name server")
            await cancelling
            assert scope.cancelled_caught
            assert len(counted) < FEW
        assert consumer.status().state == "not started"
        with pytest.raises(ClientClosedError, match="async with"):
            await consumer.wait_assigned(1)

    run(main)


@in_asyncio
async def test_waiting_for_queues_and_closing_in_scopes(namesrv, topic):
    async with PushConsumer("scopes", namesrv=namesrv) as consumer:
        with anyio.CancelScope() as scope:
            asyncio.get_running_loop().call_soon(scope.cancel)  # when it waits
            await consumer.wait_assigned()
        assert scope.cancelled_caught
        with anyio.CancelScope() as cancelled:
            cancelled.cancel()
            await consumer.aclose()
        assert consumer.status().state == "closed"
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.waits("the loop is asyncio's, which has no virtual clock")
def test_without_anyio_the_wait_is_the_same(fakes, monkeypatch):
    monkeypatch.delitem(sys.modules, "anyio")
    broker = SendBroker(script=[0, "silence"])

    async def main():
        async with Producer("pg", send_timeout=600.0, **settings) as producer:
            await producer.send(MESSAGE)
            task = asyncio.create_task(producer.send(MESSAGE))
            await asyncio.sleep(SHORTLY)
            with portal_held_up(HELD_UP):
                for _ in range(3):
                    task.cancel()
                    await asyncio.sleep(0)
                assert not task.done()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert producer._inner.outside.sends.total == 0

    with fakes(broker) as settings:
        run(main)
