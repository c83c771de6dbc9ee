"""The trio producer, 64 tasks that send."""

from __future__ import annotations

import trio

import rocketpy
from benchmarks.budget import Meter, Tickets
from benchmarks.task import BODY, WINDOW, Outcome, Shape, Task


async def send(task: Task) -> Outcome:
    """Every task sends and waits for its answer."""
    async with rocketpy.Producer("bench_trio_64", namesrv=task.namesrv) as producer:
        for _ in range(task.queues):
            await producer.send(rocketpy.Message(task.topic, BODY))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)

        async def keep_sending() -> None:
            while tickets.take():
                await producer.send(rocketpy.Message(task.topic, BODY))

        meter.start()
        async with trio.open_nursery() as nursery:
            for _ in range(WINDOW):
                nursery.start_soon(keep_sending)
        meter.stop()
    return Outcome.rate(tickets.given, meter)


def measure(task: Task) -> Outcome:
    """In a trio loop of its own."""
    return trio.run(send, task)


SHAPE = Shape("trio-64", "trio send, 64 in flight", measure, floor="raw-64")
