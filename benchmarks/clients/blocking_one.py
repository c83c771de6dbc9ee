"""The blocking producer, one thread that sends and waits."""

from __future__ import annotations

import time

import rocketpy.sync
from benchmarks.budget import Meter, Tickets
from benchmarks.latencies import spread
from benchmarks.task import BODY, Outcome, Shape, Task


def measure(task: Task) -> Outcome:
    """Send, wait for the answer, send."""
    with rocketpy.sync.Producer("bench_blocking_one", namesrv=task.namesrv) as producer:
        keep_sending(producer, task.topic, Tickets(task.warming))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        meter.start()
        times = keep_sending(producer, task.topic, tickets)
        meter.stop()
    return Outcome.rate(tickets.given, meter, **spread(times))


def keep_sending(producer: rocketpy.sync.Producer, topic: str, tickets: Tickets) -> list[float]:
    """Until there are no more tickets; how long each send took."""
    times = []
    before = time.perf_counter()
    while tickets.take():
        producer.send(rocketpy.Message(topic, BODY))
        now = time.perf_counter()
        times.append(now - before)
        before = now
    return times


SHAPE = Shape("blocking-one", "blocking send, one in flight", measure, floor="raw-one")
