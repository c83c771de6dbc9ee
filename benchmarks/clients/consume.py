"""The push consumer: messages of 1 KiB to a listener that does nothing, one by one."""

from __future__ import annotations

from typing import Any

import trio

import rocketpy
from benchmarks.budget import Meter
from benchmarks.task import Outcome, Shape, Task


class Counter:
    """A listener that counts, and measures from the first message to the last that is waited for."""

    def __init__(self, wanted: int, meter: Meter) -> None:
        self.wanted = wanted
        self.count = 0
        self.meter = meter
        self.done = trio.Event()
        self._token = trio.lowlevel.current_trio_token()

    def __call__(self, message: rocketpy.MessageExt) -> None:
        if self.count == 0:
            self.meter.start()
        self.count += 1
        if self.count == self.wanted:
            self.meter.stop()
            self._token.run_sync_soon(self.done.set)


async def consume(task: Task, *, as_task: bool, orderly: bool = False) -> Outcome:
    """With a group that begins at the beginning."""
    meter = Meter(task.server_pid)
    counter = Counter(min(task.filled, task.budget.messages), meter)

    async def listener(message: rocketpy.MessageExt) -> None:
        counter(message)

    extra: dict[str, Any] = {"orderly": True} if orderly else {}  # another tree may not have it
    consumer = rocketpy.PushConsumer(
        f"bench_{task.run}",
        namesrv=task.namesrv,
        consume_from_where=rocketpy.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        consume_thread_max=1,
        **extra,
    )
    consumer.subscribe(task.filled_topic, listener if as_task else counter)
    async with consumer:
        await counter.done.wait()
    return Outcome.rate(counter.wanted, meter)


def measure(task: Task) -> Outcome:
    """With a plain listener, which runs in a thread."""

    async def main() -> Outcome:
        return await consume(task, as_task=False)

    return trio.run(main)


SHAPE = Shape("consume", "push consume 1 KiB, plain listener", measure, floor="raw-consume")
