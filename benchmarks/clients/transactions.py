"""The trio producer of transactions: a half message, an executor that commits at once, and the end of the transaction.

Checks are answered with UNKNOWN, so that what arrives was committed by the path that is measured and by no check.
"""

from __future__ import annotations

import time
from functools import partial

import trio

import rocketpy
from benchmarks.arrivals import Arrivals
from benchmarks.budget import Meter, Tickets
from benchmarks.latencies import spread
from benchmarks.task import BODY, WINDOW, Outcome, Shape, Task
from benchmarks.trouble import BenchmarkError


async def commit(message: rocketpy.Message, arg: object) -> rocketpy.LocalTransactionState:
    """The local transaction."""
    return rocketpy.LocalTransactionState.COMMIT


async def unknown(message: rocketpy.MessageExt) -> rocketpy.LocalTransactionState:
    """The checker."""
    return rocketpy.LocalTransactionState.UNKNOWN


async def send(tasks: int, task: Task) -> tuple[int, list[float], Meter]:
    """Every task sends, commits and goes on; how many warmed up, and how long each of the others took."""
    async with rocketpy.TransactionProducer(
        "bench_transactions", namesrv=task.namesrv, checker=unknown, executor=commit
    ) as producer:

        async def keep_sending(tickets: Tickets, times: list[float]) -> None:
            before = time.perf_counter()
            while tickets.take():
                result = await producer.send_in_transaction(rocketpy.Message(task.topic, BODY))
                if result.local_state is not rocketpy.LocalTransactionState.COMMIT:
                    raise BenchmarkError(f"a transaction has ended as {result.local_state.name}")
                now = time.perf_counter()
                times.append(now - before)
                before = now

        async def fill(tickets: Tickets) -> list[float]:
            times: list[float] = []
            async with trio.open_nursery() as group:
                for _ in range(tasks):
                    group.start_soon(keep_sending, tickets, times)
            return times

        warm = await fill(Tickets(task.warming))
        tickets, meter = Tickets(task.budget), Meter(task.server_pid)
        meter.start()
        times = await fill(tickets)
        meter.stop()
    return len(warm), times, meter


def measure(tasks: int, task: Task) -> Outcome:
    """In a trio loop of its own; all that was committed must arrive."""
    arrived = Arrivals(task)
    warm, times, meter = trio.run(send, tasks, task)
    arrived.check(warm + len(times))
    return Outcome.rate(len(times), meter, **spread(times))


SHAPES = (
    Shape("transact-one", "trio transactions, one in flight", partial(measure, 1), floor="raw-one"),
    Shape("transact-64", "trio transactions, 64 in flight", partial(measure, WINDOW), floor="raw-64"),
)
