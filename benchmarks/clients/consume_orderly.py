"""The push consumer in the order of its queues: messages of 1 KiB to a plain listener that does nothing, one by one."""

from __future__ import annotations

import trio

from benchmarks.clients.consume import consume
from benchmarks.task import Outcome, Shape, Task


def measure(task: Task) -> Outcome:
    """With locks on all queues."""

    async def main() -> Outcome:
        return await consume(task, as_task=False, orderly=True)

    return trio.run(main)


SHAPE = Shape("consume-orderly", "push consume 1 KiB, in order", measure, floor="raw-consume")
