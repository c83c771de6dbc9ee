"""The blocking producer's `send_soon` with 64 in flight: one thread, which waits for the oldest of its futures."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

import rocketpy.sync
from benchmarks.budget import Meter, Tickets
from benchmarks.latencies import spread
from benchmarks.task import BODY, WINDOW, Outcome, Shape, Task

if TYPE_CHECKING:
    from concurrent.futures import Future


def measure(task: Task) -> Outcome:
    """Until every future has its result."""
    with rocketpy.sync.Producer("bench_send_soon_64", namesrv=task.namesrv) as producer:
        keep_sending(producer, task.topic, Tickets(task.warming))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        meter.start()
        times = keep_sending(producer, task.topic, tickets)
        meter.stop()
    return Outcome.rate(tickets.given, meter, **spread(times))


def keep_sending(producer: rocketpy.sync.Producer, topic: str, tickets: Tickets) -> list[float]:
    """Until there are no more tickets and no more futures; how long after its send each result was taken."""
    times = []
    under_way: deque[tuple[float, Future[rocketpy.SendResult]]] = deque()
    while tickets.take():
        if len(under_way) == WINDOW:
            began, future = under_way.popleft()
            future.result()
            times.append(time.perf_counter() - began)
        under_way.append((time.perf_counter(), producer.send_soon(rocketpy.Message(topic, BODY))))
    for began, future in under_way:
        future.result()
        times.append(time.perf_counter() - began)
    return times


SHAPE = Shape("send-soon-64", "blocking send_soon, 64 in flight", measure, floor="raw-64")
