"""Messages that linger to be sent in batches: as many outstanding as Java's autoBatch has, and threads that wait.

What was sent is counted at the broker: a rate of messages that do not arrive is none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

import rocketpy.aio
import rocketpy.sync
from benchmarks.arrivals import Arrivals
from benchmarks.budget import Budget, Meter, Tickets
from benchmarks.clients import threads
from benchmarks.task import BODY, Outcome, Shape, Task

if TYPE_CHECKING:
    from concurrent.futures import Future

OUTSTANDING = 4096
LINGER = 0.01
"""Seconds, as Java's batchMaxDelayMs of 10."""
WARM_SENDS = 30_000
"""As many as Java's client gets."""


def send_soon(task: Task) -> Outcome:
    """One thread hands over messages as fast as it may: `send_soon` waits while so many are outstanding."""
    arrived = Arrivals(task)
    with rocketpy.sync.Producer(
        "bench_linger", namesrv=task.namesrv, linger=LINGER, back_pressure_for_async_send_num=OUTSTANDING
    ) as producer:
        warm = Tickets(_warming(task))
        _hand_over(producer, task.topic, warm)
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        meter.start()
        _hand_over(producer, task.topic, tickets)
        meter.stop()
        arrived.check(warm.given + tickets.given)
    return Outcome.rate(tickets.given, meter)


def _hand_over(producer: rocketpy.sync.Producer, topic: str, tickets: Tickets) -> None:
    """Look at every result, and keep no more futures than messages are outstanding, as Java's callbacks keep none."""
    futures: deque[Future[rocketpy.SendResult]] = deque()
    while tickets.take():
        futures.append(producer.send_soon(rocketpy.Message(topic, BODY)))
        if len(futures) > OUTSTANDING:
            futures.popleft().result()
    for future in futures:
        future.result()


async def tasks_of_trio(task: Task) -> tuple[Tickets, Tickets, Meter]:
    """So many tasks, each of which sends and waits; what warmed up, what was measured, and how long it took."""
    async with rocketpy.Producer("bench_linger", namesrv=task.namesrv, linger=LINGER) as producer:

        async def keep_sending(tickets: Tickets) -> None:
            while tickets.take():
                await producer.send(rocketpy.Message(task.topic, BODY))

        async def fill(tickets: Tickets) -> Tickets:
            async with trio.open_nursery() as group:
                for _ in range(OUTSTANDING):
                    group.start_soon(keep_sending, tickets)
            return tickets

        warm = await fill(Tickets(_warming(task)))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        meter.start()
        await fill(tickets)
        meter.stop()
    return warm, tickets, meter


async def tasks_of_asyncio(task: Task) -> tuple[Tickets, Tickets, Meter]:
    """The same on asyncio."""
    async with rocketpy.aio.Producer("bench_linger", namesrv=task.namesrv, linger=LINGER) as producer:

        async def keep_sending(tickets: Tickets) -> None:
            while tickets.take():
                await producer.send(rocketpy.Message(task.topic, BODY))

        async def fill(tickets: Tickets) -> Tickets:
            await asyncio.gather(*(keep_sending(tickets) for _ in range(OUTSTANDING)))
            return tickets

        warm = await fill(Tickets(_warming(task)))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        meter.start()
        await fill(tickets)
        meter.stop()
    return warm, tickets, meter


def _counted(run: Callable[[Task], tuple[Tickets, Tickets, Meter]], task: Task) -> Outcome:
    """Run a loop, and count what has arrived."""
    arrived = Arrivals(task)
    warm, tickets, meter = run(task)
    arrived.check(warm.given + tickets.given)
    return Outcome.rate(tickets.given, meter)


def _warming(task: Task) -> Budget:
    return Budget(task.budget.seconds, min(WARM_SENDS, task.budget.messages))


SHAPES = (
    Shape("linger-soon", "blocking send_soon with linger, 4,096 outstanding", send_soon, floor="raw-batch"),
    Shape(
        "linger-trio",
        "trio send with linger, 4,096 tasks",
        partial(_counted, lambda task: trio.run(tasks_of_trio, task)),
        floor="raw-batch",
    ),
    Shape(
        "linger-aio",
        "asyncio send with linger, 4,096 tasks",
        partial(_counted, lambda task: asyncio.run(tasks_of_asyncio(task))),
        floor="raw-batch",
    ),
    Shape(
        "linger-threads-64",
        "blocking send with linger, 64 threads",
        partial(threads.measure, 64, linger=LINGER),
        floor="raw-64",
    ),
)
