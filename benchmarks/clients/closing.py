"""A producer that closes while ten thousand messages are in flight: how long it takes, and what becomes of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

import rocketpy.sync
from benchmarks.arrivals import ends, since
from benchmarks.frames import Wire
from benchmarks.task import BODY, Outcome, Shape, Task
from benchmarks.trouble import BenchmarkError

if TYPE_CHECKING:
    from concurrent.futures import Future

IN_FLIGHT = 10_000
WITHIN = 60.0


@dataclass
class Closed:
    """What came of the sends.

    Attributes:
        began: How many there were.
        in_flight: How many of them had no answer when closing began.
        seconds: How long it took.
        acknowledged: The ids of the messages that a broker has acknowledged.
        failed: How many sends have ended with an error.
    """

    began: int
    in_flight: int = 0
    seconds: float = 0.0
    acknowledged: set[str] = field(default_factory=set)
    failed: int = 0

    @property
    def unanswered(self) -> int:
        """Sends that have neither a result nor an error."""
        return self.began - len(self.acknowledged) - self.failed


async def tasks(namesrv: str, topic: str, count: int, **settings: Any) -> Closed:
    """As many tasks, each of which sends once; the producer closes when all have begun."""
    closed = Closed(count)
    begun = 0

    async def send() -> None:
        nonlocal begun
        begun += 1
        try:
            result = await producer.send(rocketpy.Message(topic, BODY))
        except rocketpy.RocketMQError:
            closed.failed += 1
        else:
            closed.acknowledged.add(result.message_id)

    with trio.fail_after(WITHIN):
        async with trio.open_nursery() as nursery:
            async with rocketpy.Producer("bench_closing", namesrv=namesrv, **settings) as producer:
                await producer.send(rocketpy.Message(topic, BODY))  # the first send waits for routes and connections
                for _ in range(count):
                    nursery.start_soon(send)
                while begun < count:
                    await trio.lowlevel.checkpoint()
                closed.in_flight = closed.unanswered
                before = time.perf_counter()
            closed.seconds = time.perf_counter() - before
    return closed


def futures(namesrv: str, topic: str, count: int, **settings: Any) -> Closed:
    """`send_soon` as often, and `close` right after the last one; every future must be done when that has returned."""
    producer = rocketpy.sync.Producer(
        "bench_closing", namesrv=namesrv, back_pressure_for_async_send_num=count, **settings
    )
    producer.start()
    handed: list[Future[rocketpy.SendResult]] = []
    try:
        producer.send(rocketpy.Message(topic, BODY))
        handed += [producer.send_soon(rocketpy.Message(topic, BODY)) for _ in range(count)]
        in_flight = sum(not future.done() for future in handed)
    finally:
        before = time.perf_counter()
        producer.close()
    closed = Closed(count, in_flight, time.perf_counter() - before)
    for future in (each for each in handed if each.done()):
        error = future.exception()
        if error is None:
            closed.acknowledged.add(future.result().message_id)
        elif isinstance(error, rocketpy.RocketMQError):
            closed.failed += 1
        else:
            raise error
    return closed


def lost(wire: Wire, topic: str, begins: list[int], acknowledged: Iterable[str], run: str) -> set[str]:
    """The acknowledged messages that cannot be read from a topic."""
    return set(acknowledged) - {properties["UNIQ_KEY"] for _, _, properties, *_ in since(wire, topic, begins, run)}


def measure(close: Callable[..., Closed], task: Task) -> Outcome:
    """In milliseconds; what is lost or unanswered is noted.

    Raises:
        BenchmarkError: nothing was in flight.
    """
    with Wire(task.broker) as wire:
        begins = ends(wire, task.topic, task.queues)
        closed = close(task.namesrv, task.topic, min(IN_FLIGHT, task.budget.messages))
        if not closed.in_flight:
            raise BenchmarkError("every send was answered before the producer closed")
        missing = lost(wire, task.topic, begins, closed.acknowledged, task.run)
    notes = {
        "in_flight_messages": closed.in_flight,
        "acknowledged_messages": len(closed.acknowledged),
        "lost_messages": len(missing),
        "unanswered_messages": closed.unanswered,
    }
    return Outcome(1e3 * closed.seconds, closed.began, notes={name: float(value) for name, value in notes.items()})


SHAPES = (
    Shape(
        "closing",
        "closing with 10,000 in flight, trio",
        partial(measure, lambda namesrv, topic, count: trio.run(tasks, namesrv, topic, count)),
        unit="ms",
    ),
    Shape("closing-soon", "closing with 10,000 in flight, send_soon", partial(measure, futures), unit="ms"),
)
