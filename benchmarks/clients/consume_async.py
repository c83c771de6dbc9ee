"""The push consumer with an async listener, which runs as tasks of the loop."""

from __future__ import annotations

import trio

from benchmarks.clients.consume import consume
from benchmarks.task import Outcome, Shape, Task


def measure(task: Task) -> Outcome:
    """In a trio loop of its own."""

    async def main() -> Outcome:
        return await consume(task, as_task=True)

    return trio.run(main)


SHAPE = Shape("consume-async", "push consume 1 KiB, async listener", measure, floor="raw-consume")
