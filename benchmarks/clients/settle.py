"""A group that comes together: from the start of its last member until every queue has exactly one owner."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack

import trio

import rocketpy
from benchmarks.task import Outcome, Shape, Task
from benchmarks.trouble import BenchmarkError

MEMBERS = 8
QUEUES = 64
WITHIN = 60.0
LOOK = 0.005


async def settle(task: Task) -> Outcome:
    """All members but one are there and have settled; then the last one joins."""
    topic = f"Settle_{task.run}"
    async with rocketpy.Producer("bench_settle", namesrv=task.namesrv) as producer:
        await producer.create_topic(topic, queues=QUEUES)
    async with AsyncExitStack() as stack:
        members = [await _join(stack, task, topic) for _ in range(MEMBERS - 1)]
        await _settled(members)
        began = time.perf_counter()
        members.append(await _join(stack, task, topic))
        await _settled(members)
        took = time.perf_counter() - began
    return Outcome(took * 1e3, QUEUES)


async def _join(stack: AsyncExitStack, task: Task, topic: str) -> rocketpy.PushConsumer:
    consumer = rocketpy.PushConsumer(f"bench_{task.run}", namesrv=task.namesrv)
    consumer.subscribe(topic, lambda message: None)
    return await stack.enter_async_context(consumer)


async def _settled(members: list[rocketpy.PushConsumer]) -> None:
    """Each has its share, and nobody another's."""
    share = QUEUES // len(members)
    with trio.move_on_after(WITHIN):
        while True:
            owned = [queue for member in members for queue in member.assignment]
            least = min(len(member.assignment) for member in members)
            if len(owned) == len(set(owned)) == QUEUES and least >= share:
                return
            await trio.sleep(LOOK)
    raise BenchmarkError(f"{len(members)} members have not shared out {QUEUES} queues within {WITHIN:g} s")


def measure(task: Task) -> Outcome:
    """All members in one trio loop."""
    return trio.run(settle, task)


SHAPE = Shape("settle", "8th consumer joins until each of 64 queues has one owner", measure, unit="ms")
