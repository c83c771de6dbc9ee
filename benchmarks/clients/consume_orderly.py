"""The push consumer in the order of its queues: messages of 1 KiB to a listener that does nothing, one by one."""

from __future__ import annotations

from functools import partial

import trio

from benchmarks.clients.consume import consume
from benchmarks.task import Outcome, Shape, Task


def measure(task: Task, *, as_task: bool) -> Outcome:
    """With locks on all queues; a plain listener runs in a thread, an async one as a task."""

    async def main() -> Outcome:
        return await consume(task, as_task=as_task, orderly=True)

    return trio.run(main)


SHAPES = (
    Shape(
        "consume-orderly", "push consume 1 KiB, in order, plain", partial(measure, as_task=False), floor="raw-consume"
    ),
    Shape(
        "consume-orderly-async",
        "push consume 1 KiB, in order, async",
        partial(measure, as_task=True),
        floor="raw-consume",
    ),
)
