"""The blocking producer, one thread that sends and waits."""

from __future__ import annotations

import time
from statistics import median

import rocketpy.sync
from benchmarks.budget import Meter, Tickets
from benchmarks.task import BODY, Outcome, Shape, Task


def measure(task: Task) -> Outcome:
    """Send, wait for the answer, send."""
    with rocketpy.sync.Producer("bench_blocking_one", namesrv=task.namesrv) as producer:
        for _ in range(task.queues):
            producer.send(rocketpy.Message(task.topic, BODY))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        times = []
        began = meter.start()
        while tickets.take():
            producer.send(rocketpy.Message(task.topic, BODY))
            now = time.perf_counter()
            times.append(now - began)
            began = now
        meter.stop()
    return Outcome.rate(tickets.given, meter, p50_us=median(times) * 1e6)


SHAPE = Shape("blocking-one", "blocking send, one in flight", measure, floor="raw-one")
