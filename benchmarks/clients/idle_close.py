"""How long a producer and a push consumer take to close that have nothing to do: a pull waits at the broker."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

import trio

import rocketpy
from benchmarks.task import BODY, Outcome, Shape, Task

IDLE = 0.1
"""Seconds of quiet before closing, so that every queue has its pull at the broker."""


async def close(task: Task) -> float:
    """Seconds to close both, one after the other."""
    topic = f"Quiet_{task.run}"
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(rocketpy.Producer("bench_idle", namesrv=task.namesrv))
        await producer.create_topic(topic, queues=task.queues)
        await producer.send(rocketpy.Message(topic, BODY))
        arrived = trio.Event()

        async def listener(message: rocketpy.MessageExt) -> None:
            arrived.set()

        consumer = rocketpy.PushConsumer(
            f"bench_{task.run}",
            namesrv=task.namesrv,
            consume_from_where=rocketpy.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        consumer.subscribe(topic, listener)
        await stack.enter_async_context(consumer)
        await arrived.wait()
        await trio.sleep(IDLE)
        began = time.perf_counter()
    return time.perf_counter() - began


def measure(task: Task) -> Outcome:
    """In a trio loop of its own."""
    return Outcome(trio.run(close, task) * 1e3, 1)


SHAPE = Shape("idle-close", "idle producer and push consumer, closed", measure, unit="ms")
