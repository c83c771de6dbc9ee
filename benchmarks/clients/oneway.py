"""One-way sends of the trio producer, bounded by back-pressure only, and how many of them arrived."""

from __future__ import annotations

import trio

import rocketpy
from benchmarks.arrivals import settled, stored
from benchmarks.budget import Meter, Tickets
from benchmarks.frames import Wire
from benchmarks.task import BODY, Outcome, Shape, Task


async def send(task: Task) -> tuple[int, Meter]:
    """Until the budget is used up; then the producer closes, which lets what is buffered leave."""
    async with rocketpy.Producer("bench_oneway", namesrv=task.namesrv) as producer:
        await producer.send(rocketpy.Message(task.topic, BODY))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        meter.start()
        while tickets.take():
            await producer.send_oneway(rocketpy.Message(task.topic, BODY))
        meter.stop()
    return tickets.given, meter


def measure(task: Task) -> Outcome:
    """In a trio loop of its own, and count on a connection of its own."""
    with Wire(task.broker) as wire:
        before = stored(wire, task.topic, task.queues) + 1  # and the one that warms up
        sent, meter = trio.run(send, task)
        arrived = settled(wire, task.topic, task.queues) - before
    return Outcome.rate(sent, meter, arrived_percent=100.0 * arrived / sent if sent else 100.0)


SHAPE = Shape("oneway", "trio send_oneway", measure, floor="raw-64")
