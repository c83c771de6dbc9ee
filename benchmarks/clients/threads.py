"""The blocking producer, threads that share it: each sends and waits, as those of a web server do."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import rocketpy.sync
from benchmarks.arrivals import Arrivals
from benchmarks.budget import Meter, Tickets
from benchmarks.clients.blocking_one import keep_sending
from benchmarks.latencies import spread
from benchmarks.task import Outcome, Shape, Task

READY_WITHIN = 60.0


def measure(threads: int, task: Task, **settings: Any) -> Outcome:
    """Every thread sends and waits for its answer; none begins before all are warm. All must arrive."""
    meter = Meter(task.server_pid)

    def begin() -> None:
        meter.start()

    start = threading.Barrier(threads, action=begin, timeout=READY_WITHIN)

    def work(number: int) -> tuple[int, list[float]]:
        try:
            warm = keep_sending(producer, task.topic, Tickets(task.warming.share(number, threads)))
            start.wait()
        except BaseException:
            start.abort()  # or the others would wait for this one
            raise
        return len(warm), keep_sending(producer, task.topic, Tickets(task.budget.share(number, threads)))

    arrived = Arrivals(task)
    with rocketpy.sync.Producer("bench_threads", namesrv=task.namesrv, **settings) as producer:
        with ThreadPoolExecutor(threads) as pool:
            under_way = [pool.submit(work, number) for number in range(threads)]
            done = [each.result() for each in under_way]
            meter.stop()
    times = [time for _, each in done for time in each]
    arrived.check(sum(warm for warm, _ in done) + len(times))
    return Outcome.rate(len(times), meter, **spread(times))


SHAPES = tuple(
    Shape(f"threads-{count}", f"blocking send, {count} threads", partial(measure, count), floor="raw-64")
    for count in (64, 8)
)
