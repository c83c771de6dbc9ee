"""The lite pull consumer: messages of 1 KiB, polled by a hundred in trio and one by one in a loop of blocking code."""

from __future__ import annotations

import trio

import rocketpy
import rocketpy.sync
from benchmarks.budget import Meter
from benchmarks.task import Outcome, Shape, Task

_BATCH = 100


def _settings(task: Task) -> dict[str, object]:
    """A group that begins at the beginning, and asks for as much as a push consumer does."""
    return {
        "group": f"bench_lite_{task.run}",
        "namesrv": task.namesrv,
        "consume_from_where": rocketpy.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        "pull_batch_size": 32,
    }


def poll(task: Task) -> Outcome:
    """By a hundred, from the first poll that brings something on."""

    async def main() -> Outcome:
        meter, wanted, count = Meter(task.server_pid), min(task.filled, task.budget.messages), 0
        consumer = rocketpy.LitePullConsumer(**_settings(task))  # type: ignore[arg-type]
        consumer.subscribe(task.filled_topic)
        async with consumer:
            while count < wanted:
                messages = await consumer.poll(_BATCH)
                if not count and messages:
                    meter.start()
                count += len(messages)
            meter.stop()
        return Outcome.rate(count, meter)

    return trio.run(main)


def loop(task: Task) -> Outcome:
    """One by one."""
    meter, wanted, count = Meter(task.server_pid), min(task.filled, task.budget.messages), 0
    consumer = rocketpy.sync.LitePullConsumer(**_settings(task))  # type: ignore[arg-type]
    consumer.subscribe(task.filled_topic)
    with consumer:
        for _ in consumer:
            if not count:
                meter.start()
            count += 1
            if count == wanted:
                break
        meter.stop()
    return Outcome.rate(count, meter)


SHAPES = (
    Shape("lite-pull", "lite pull 1 KiB, poll by 100, trio", poll, floor="raw-consume"),
    Shape("lite-pull-loop", "lite pull 1 KiB, loop over messages, blocking", loop, floor="raw-consume"),
)
