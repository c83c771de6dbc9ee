"""One-way sends of the trio producer, bounded by back-pressure only, and how many of them arrived."""

from __future__ import annotations

import time

import trio

import rocketpy
from benchmarks.budget import Meter, Tickets
from benchmarks.frames import GET_MAX_OFFSET, Wire, frame
from benchmarks.task import BODY, Outcome, Shape, Task

SETTLED = 0.1
"""Seconds without an arrival after which no more is expected."""


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
        before = stored(wire, task) + 1  # and the one that warms up
        sent, meter = trio.run(send, task)
        arrived = settled(wire, task) - before
    return Outcome.rate(sent, meter, arrived_percent=100.0 * arrived / sent if sent else 100.0)


def stored(wire: Wire, task: Task) -> int:
    """Messages in all queues of the topic."""
    asked = [frame(GET_MAX_OFFSET, {"topic": task.topic, "queueId": queue}) for queue in range(task.queues)]
    return sum(int(wire.ask(question)[0]["extFields"]["offset"]) for question in asked)


def settled(wire: Wire, task: Task) -> int:
    """The same, once it changes no more."""
    count = -1
    while (now := stored(wire, task)) != count:
        count = now
        time.sleep(SETTLED)
    return count


SHAPE = Shape("oneway", "trio send_oneway", measure, floor="raw-64")
