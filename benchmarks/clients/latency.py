"""From a send to the listener that gets the message, one at a time, on a queue that is idle otherwise."""

from __future__ import annotations

import time
from statistics import median

import trio

import rocketpy
from benchmarks.budget import Tickets
from benchmarks.task import BODY, Outcome, Shape, Task

PAUSE = 0.005
"""Between two messages, so that the pull that waits for the next one is at the broker."""


async def exchange(task: Task) -> Outcome:
    """Producer and consumer are two clients of one loop."""
    topic = f"Idle_{task.run}"
    arrived = trio.Event()
    times: list[float] = []

    async def listener(message: rocketpy.MessageExt) -> None:
        times.append(time.perf_counter())
        arrived.set()

    async with rocketpy.Producer("bench_latency", namesrv=task.namesrv) as producer:
        await producer.create_topic(topic, queues=1)
        consumer = rocketpy.PushConsumer(
            f"bench_{task.run}",
            namesrv=task.namesrv,
            consume_from_where=rocketpy.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        )
        consumer.subscribe(topic, listener)
        async with consumer:
            await consumer.wait_assigned(10)
            await producer.send(rocketpy.Message(topic, BODY))
            await arrived.wait()
            took = []
            tickets = Tickets(task.budget)
            while tickets.take():
                arrived = trio.Event()
                await trio.sleep(PAUSE)
                began = time.perf_counter()
                await producer.send(rocketpy.Message(topic, BODY))
                await arrived.wait()
                took.append((times[-1] - began) * 1e3)
    return Outcome(median(took), len(took))


def measure(task: Task) -> Outcome:
    """In a trio loop of its own."""
    return trio.run(exchange, task)


SHAPE = Shape("latency", "send to async listener, idle queue", measure, floor="raw-latency", unit="ms")
