"""The asyncio producer, 64 tasks that send."""

from __future__ import annotations

import asyncio

import rocketpy.aio
from benchmarks.budget import Meter, Tickets
from benchmarks.task import BODY, WINDOW, Outcome, Shape, Task


async def send(task: Task) -> Outcome:
    """Every task sends and waits for its answer."""
    async with rocketpy.aio.Producer("bench_aio_64", namesrv=task.namesrv) as producer:
        for _ in range(task.queues):
            await producer.send(rocketpy.Message(task.topic, BODY))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)

        async def keep_sending() -> None:
            while tickets.take():
                await producer.send(rocketpy.Message(task.topic, BODY))

        meter.start()
        async with asyncio.TaskGroup() as group:
            for _ in range(WINDOW):
                group.create_task(keep_sending())
        meter.stop()
    return Outcome.rate(tickets.given, meter)


def measure(task: Task) -> Outcome:
    """In an event loop of its own."""
    return asyncio.run(send(task))


SHAPE = Shape("aio-64", "asyncio send, 64 in flight", measure, floor="raw-64")
