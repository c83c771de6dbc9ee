"""The asyncio producer, one send in flight."""

from __future__ import annotations

import asyncio
import time

import rocketpy.aio
from benchmarks.budget import Meter, Tickets
from benchmarks.latencies import spread
from benchmarks.task import BODY, Outcome, Shape, Task


async def send(task: Task) -> Outcome:
    """Send, wait for the answer, send."""
    async with rocketpy.aio.Producer("bench_aio_one", namesrv=task.namesrv) as producer:

        async def keep_sending(tickets: Tickets) -> list[float]:
            times = []
            before = time.perf_counter()
            while tickets.take():
                await producer.send(rocketpy.Message(task.topic, BODY))
                now = time.perf_counter()
                times.append(now - before)
                before = now
            return times

        await keep_sending(Tickets(task.warming))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        meter.start()
        times = await keep_sending(tickets)
        meter.stop()
    return Outcome.rate(tickets.given, meter, **spread(times))


def measure(task: Task) -> Outcome:
    """In an event loop of its own."""
    return asyncio.run(send(task))


SHAPE = Shape("aio-one", "asyncio send, one in flight", measure, floor="raw-one")
