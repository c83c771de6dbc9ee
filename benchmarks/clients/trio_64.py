"""The trio producer, 64 tasks that send."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import trio

import rocketpy
from benchmarks.budget import Meter, Tickets
from benchmarks.latencies import spread
from benchmarks.task import BODY, WINDOW, Outcome, Shape, Task


async def send(task: Task, settings: Mapping[str, Any]) -> Outcome:
    """Every task sends and waits for its answer."""
    async with rocketpy.Producer("bench_trio_64", namesrv=task.namesrv, **settings) as producer:

        async def keep_sending(tickets: Tickets, times: list[float]) -> None:
            before = time.perf_counter()
            while tickets.take():
                await producer.send(rocketpy.Message(task.topic, BODY))
                now = time.perf_counter()
                times.append(now - before)
                before = now

        async def fill_window(tickets: Tickets) -> list[float]:
            times: list[float] = []
            async with trio.open_nursery() as group:
                for _ in range(WINDOW):
                    group.start_soon(keep_sending, tickets, times)
            return times

        await fill_window(Tickets(task.warming))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        meter.start()
        times = await fill_window(tickets)
        meter.stop()
    return Outcome.rate(tickets.given, meter, **spread(times))


def measure(task: Task, **settings: Any) -> Outcome:
    """In a trio loop of its own.

    Args:
        task: What to do.
        settings: Of the producer.
    """
    return trio.run(send, task, settings)


SHAPE = Shape("trio-64", "trio send, 64 in flight", measure, floor="raw-64")
