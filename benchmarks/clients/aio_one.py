"""The asyncio producer, one send in flight."""

from __future__ import annotations

import asyncio
import time
from statistics import median

import rocketpy.aio
from benchmarks.budget import Meter, Tickets
from benchmarks.task import BODY, Outcome, Shape, Task


async def send(task: Task) -> Outcome:
    """Send, wait for the answer, send."""
    async with rocketpy.aio.Producer("bench_aio_one", namesrv=task.namesrv) as producer:
        for _ in range(task.queues):
            await producer.send(rocketpy.Message(task.topic, BODY))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        times = []
        began = meter.start()
        while tickets.take():
            await producer.send(rocketpy.Message(task.topic, BODY))
            now = time.perf_counter()
            times.append(now - began)
            began = now
        meter.stop()
    return Outcome.rate(tickets.given, meter, p50_us=median(times) * 1e6)


def measure(task: Task) -> Outcome:
    """In an event loop of its own."""
    return asyncio.run(send(task))


SHAPE = Shape("aio-one", "asyncio send, one in flight", measure, floor="raw-one")
