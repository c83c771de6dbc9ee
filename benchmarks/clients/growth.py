"""What the memory of a producer grows by while it sends a million messages, counted by `tracemalloc`."""

from __future__ import annotations

import gc
import tracemalloc

import trio

import rocketpy
from benchmarks.arrivals import Arrivals
from benchmarks.budget import Budget, Tickets
from benchmarks.task import BODY, WINDOW, Outcome, Shape, Task

SENDS = 1_000_000
WARM_SENDS = 20_000
"""After so many, tables and statistics have their size."""
WITHIN = 1_500.0


async def grow(namesrv: str, topic: str, sends: int, warm: int) -> tuple[int, int, float]:
    """Send with 64 tasks.

    Returns:
        How many warmed up, how many were sent after that, and KiB more than before them.
    """
    async with rocketpy.Producer("bench_growth", namesrv=namesrv) as producer:

        async def keep_sending(tickets: Tickets) -> None:
            while tickets.take():
                await producer.send(rocketpy.Message(topic, BODY))

        async def fill(count: int) -> int:
            tickets = Tickets(Budget(WITHIN, count))
            async with trio.open_nursery() as group:
                for _ in range(WINDOW):
                    group.start_soon(keep_sending, tickets)
            return tickets.given

        tracemalloc.start()
        try:
            warmed = await fill(warm)
            before = traced()
            sent = await fill(sends)
            return warmed, sent, (traced() - before) / 1024
        finally:
            tracemalloc.stop()


def traced() -> int:
    """Bytes that are held now."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def measure(task: Task) -> Outcome:
    """In KiB; all that was sent must arrive."""
    sends = min(SENDS, task.budget.messages)
    arrived = Arrivals(task)
    warmed, sent, growth = trio.run(grow, task.namesrv, task.topic, sends, min(WARM_SENDS, sends))
    arrived.check(warmed + sent)
    return Outcome(growth, sent)


SHAPE = Shape("memory-growth", "memory after 1,000,000 sends: more than before", measure, unit="KiB", long=True)
