"""Task factories of users: those that run the first step at once, know no context, or fail."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import types
from functools import partial

import pytest

from rocketpy.aio import ConsumeFromWhere, Message, Producer, PushConsumer
from rocketpy.errors import ServiceCrashedError
from tests.aio.running import in_asyncio

FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
MANY = 60


@types.coroutine
def _rest(coroutine, awaited):
    """What follows the first step."""
    while True:
        try:
            step = partial(coroutine.send, (yield awaited))
        except BaseException as exc:  # noqa: BLE001
            step = partial(coroutine.throw, exc)
        try:
            awaited = step()
        except StopIteration as stop:
            return stop.value


async def _done(value):
    return value


def eager(loop, coroutine, *, context=None):
    """As `asyncio.eager_task_factory` of Python 3.12: the first step is done when this returns."""
    context = context or contextvars.copy_context()
    try:
        awaited = context.run(coroutine.send, None)
    except StopIteration as stop:
        rest = _done(stop.value)
    else:
        rest = _await(coroutine, awaited)
    return asyncio.Task(rest, loop=loop, context=context)


async def _await(coroutine, awaited):
    return await _rest(coroutine, awaited)


def simple(loop, coroutine):
    """As they were before tasks had contexts."""
    return asyncio.Task(coroutine, loop=loop)


FACTORIES = {"eager": eager, "simple": simple}
if hasattr(asyncio, "eager_task_factory"):
    FACTORIES["asyncio"] = asyncio.eager_task_factory


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 2, 20, 500])
@pytest.mark.parametrize("factory", FACTORIES)
def test_every_message_arrives_under_a_task_factory(namesrv, topic, factory, limit):
    @in_asyncio
    async def main():
        got, full, running, most = [], asyncio.Event(), 0, 0

        async def listener(message):
            nonlocal running, most
            running += 1
            most = max(most, running)
            if int(message.body) % 2:
                await asyncio.sleep(0)
            running -= 1
            got.append(message.body)
            if len(got) == MANY:
                full.set()

        async with Producer("pg", namesrv=namesrv) as producer:
            await producer.create_topic(topic, queues=2)
            await producer.send_many(Message(topic, b"%d" % n) for n in range(MANY))
        asyncio.get_running_loop().set_task_factory(FACTORIES[factory])
        async with PushConsumer(
            f"factory-{factory}-{limit}", namesrv=namesrv, consume_from_where=FIRST, consume_thread_max=limit
        ) as consumer:
            consumer.subscribe(topic, listener)
            async with asyncio.timeout(20):
                await full.wait()
        assert sorted(got) == sorted(b"%d" % n for n in range(MANY))
        assert most <= limit
        asyncio.get_running_loop().set_task_factory(None)

    main()


def test_a_factory_that_fails_ends_the_consumer_and_is_heard(namesrv, topic, caplog):
    @in_asyncio
    async def main():
        async def listener(message):
            raise AssertionError("no task could be made")

        def broken(loop, coroutine, **kwargs):
            if coroutine.__qualname__.startswith("LoopCrew"):
                raise ValueError("no tasks today")
            return asyncio.Task(coroutine, loop=loop, **kwargs)

        async with Producer("pg", namesrv=namesrv) as producer:
            await producer.create_topic(topic, queues=1)
            await producer.send(Message(topic, b"x"))
        consumer = PushConsumer(f"broken-{topic}", namesrv=namesrv, consume_from_where=FIRST)
        consumer.subscribe(topic, listener)
        asyncio.get_running_loop().set_task_factory(broken)
        with pytest.raises(ServiceCrashedError, match="no tasks today"):
            await consumer.run_forever()

    with caplog.at_level(logging.CRITICAL):
        main()


class CancelsFirst:
    """Other code that cancels all tasks, in the moment in which one of a kind has been made for the first time."""

    def __init__(self, name):
        self.name = name
        self.cancelled = 0

    def __call__(self, loop, coroutine, **kwargs):
        task = asyncio.Task(coroutine, loop=loop, **kwargs)
        if coroutine.__qualname__ == self.name and not self.cancelled:
            self.cancelled += 1
            task.cancel()
        return task


def test_a_worker_that_is_cancelled_before_its_first_step_is_replaced(namesrv, topic):
    @in_asyncio
    async def main():
        came = asyncio.Event()

        async def listener(message):
            came.set()

        async with Producer("pg", namesrv=namesrv) as producer:
            await producer.create_topic(topic, queues=1)
            await producer.send(Message(topic, b"x"))
        factory = CancelsFirst("LoopCrew._host")
        asyncio.get_running_loop().set_task_factory(factory)
        async with PushConsumer(f"early-{topic}", namesrv=namesrv, consume_from_where=FIRST) as consumer:
            consumer.subscribe(topic, listener)
            async with asyncio.timeout(20):
                await came.wait()
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < consumer.config.await_termination
        assert factory.cancelled == 1
        asyncio.get_running_loop().set_task_factory(None)

    main()


def test_a_call_of_a_hook_that_is_cancelled_before_its_first_step_has_ended(namesrv, topic, caplog):
    @in_asyncio
    async def main():
        came = asyncio.Event()

        async def listener(message):
            came.set()

        async def assigned(queues):
            raise AssertionError("it was cancelled first")

        async with Producer("pg", namesrv=namesrv) as producer:
            await producer.create_topic(topic, queues=1)
            await producer.send(Message(topic, b"x"))
        factory = CancelsFirst("_Call._run")
        asyncio.get_running_loop().set_task_factory(factory)
        consumer = PushConsumer(f"call-{topic}", namesrv=namesrv, consume_from_where=FIRST, on_assigned=assigned)
        consumer.subscribe(topic, listener)
        async with consumer, asyncio.timeout(20):
            await came.wait()
        assert factory.cancelled == 1
        asyncio.get_running_loop().set_task_factory(None)

    main()
    assert "it ended with CancelledError" in caplog.text
