"""The trio producer's `send_batch`, a hundred messages a frame, a few frames in flight."""

from __future__ import annotations

import trio

import rocketpy
from benchmarks.budget import Meter, Tickets
from benchmarks.task import BATCH, BATCHES_IN_FLIGHT, BODY, Outcome, Shape, Task


async def send(task: Task) -> Outcome:
    """Every task makes a batch, sends it and waits for its answer."""
    async with rocketpy.Producer("bench_batches", namesrv=task.namesrv) as producer:
        for _ in range(task.queues):
            await producer.send(rocketpy.Message(task.topic, BODY))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)

        async def keep_sending() -> None:
            while count := tickets.take_up_to(BATCH):
                await producer.send_batch([rocketpy.Message(task.topic, BODY) for _ in range(count)])

        meter.start()
        async with trio.open_nursery() as nursery:
            for _ in range(BATCHES_IN_FLIGHT):
                nursery.start_soon(keep_sending)
        meter.stop()
    return Outcome.rate(tickets.given, meter)


def measure(task: Task) -> Outcome:
    """In a trio loop of its own."""
    return trio.run(send, task)


SHAPE = Shape("batch", "trio send_batch of 100", measure, floor="raw-batch")
