"""Messages that linger to be sent in batches: as many outstanding as Java's autoBatch has, and threads that wait."""

from __future__ import annotations

import asyncio
from functools import partial

import trio

import rocketpy.aio
import rocketpy.sync
from benchmarks.budget import Budget, Meter, Tickets
from benchmarks.clients import threads
from benchmarks.task import BODY, Outcome, Shape, Task

OUTSTANDING = 4096
LINGER = 0.01
"""Seconds, as Java's batchMaxDelayMs of 10."""
WARM_SENDS = 30_000
"""As many as Java's client gets."""


def send_soon(task: Task) -> Outcome:
    """One thread hands over messages as fast as it may: `send_soon` waits while so many are outstanding."""
    with rocketpy.sync.Producer(
        "bench_linger", namesrv=task.namesrv, linger=LINGER, back_pressure_for_async_send_num=OUTSTANDING
    ) as producer:
        warm = [producer.send_soon(rocketpy.Message(task.topic, BODY)) for _ in range(_warming(task).messages)]
        for future in warm:
            future.result()
        del warm
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        futures = []
        meter.start()
        while tickets.take():
            futures.append(producer.send_soon(rocketpy.Message(task.topic, BODY)))
        for future in futures:
            future.result()
        meter.stop()
    return Outcome.rate(tickets.given, meter)


async def tasks_of_trio(task: Task) -> Outcome:
    """So many tasks, each of which sends and waits."""
    async with rocketpy.Producer("bench_linger", namesrv=task.namesrv, linger=LINGER) as producer:

        async def keep_sending(tickets: Tickets) -> None:
            while tickets.take():
                await producer.send(rocketpy.Message(task.topic, BODY))

        async def fill(tickets: Tickets) -> None:
            async with trio.open_nursery() as group:
                for _ in range(OUTSTANDING):
                    group.start_soon(keep_sending, tickets)

        await fill(Tickets(_warming(task)))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        meter.start()
        await fill(tickets)
        meter.stop()
    return Outcome.rate(tickets.given, meter)


async def tasks_of_asyncio(task: Task) -> Outcome:
    """The same on asyncio."""
    async with rocketpy.aio.Producer("bench_linger", namesrv=task.namesrv, linger=LINGER) as producer:

        async def keep_sending(tickets: Tickets) -> None:
            while tickets.take():
                await producer.send(rocketpy.Message(task.topic, BODY))

        async def fill(tickets: Tickets) -> None:
            await asyncio.gather(*(keep_sending(tickets) for _ in range(OUTSTANDING)))

        await fill(Tickets(_warming(task)))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        meter.start()
        await fill(tickets)
        meter.stop()
    return Outcome.rate(tickets.given, meter)


def _warming(task: Task) -> Budget:
    return Budget(task.budget.seconds, min(WARM_SENDS, task.budget.messages))


SHAPES = (
    Shape("linger-soon", "blocking send_soon with linger, 4,096 outstanding", send_soon, floor="raw-batch"),
    Shape(
        "linger-trio",
        "trio send with linger, 4,096 tasks",
        lambda task: trio.run(tasks_of_trio, task),
        floor="raw-batch",
    ),
    Shape(
        "linger-aio",
        "asyncio send with linger, 4,096 tasks",
        lambda task: asyncio.run(tasks_of_asyncio(task)),
        floor="raw-batch",
    ),
    Shape(
        "linger-threads-64",
        "blocking send with linger, 64 threads",
        partial(threads.measure, 64, linger=LINGER),
        floor="raw-64",
    ),
)
