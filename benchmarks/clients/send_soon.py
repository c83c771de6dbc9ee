"""The blocking producer's `send_soon`: one thread hands over messages as fast as it may, futures hold the answers."""

from __future__ import annotations

import rocketpy.sync
from benchmarks.budget import Meter, Tickets
from benchmarks.task import BODY, Outcome, Shape, Task


def measure(task: Task) -> Outcome:
    """Until every future has its result."""
    with rocketpy.sync.Producer("bench_send_soon", namesrv=task.namesrv) as producer:
        for _ in range(task.queues):
            producer.send(rocketpy.Message(task.topic, BODY))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        futures = []
        meter.start()
        while tickets.take():
            futures.append(producer.send_soon(rocketpy.Message(task.topic, BODY)))
        for future in futures:
            future.result()
        meter.stop()
    return Outcome.rate(tickets.given, meter)


SHAPE = Shape("send-soon", "blocking send_soon", measure, floor="raw-64")
