"""A push consumer whose listener blocks: how many messages it holds of a queue when it has stopped pulling."""

from __future__ import annotations

import trio

import rocketpy
from benchmarks.task import Outcome, Shape, Task
from benchmarks.trouble import BenchmarkError

WITHIN = 60.0
LOOK = 0.005


async def blocked(task: Task) -> Outcome:
    """Wait until every queue has paused, or everything that waits has been pulled."""
    over = trio.Event()

    async def listener(message: rocketpy.MessageExt) -> None:
        await over.wait()

    consumer = rocketpy.PushConsumer(
        f"bench_{task.run}",
        namesrv=task.namesrv,
        consume_from_where=rocketpy.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    )
    consumer.subscribe(task.filled_topic, listener)
    async with consumer:
        try:
            with trio.move_on_after(WITHIN):
                while True:
                    held = _held(consumer, task.filled_topic)
                    if _stopped(held, task):
                        return Outcome(max(count for count, _ in held), sum(count for count, _ in held))
                    await trio.sleep(LOOK)
        finally:
            over.set()
    raise BenchmarkError(f"a listener that blocks has not stopped all pulls within {WITHIN:g} s")


def _held(consumer: rocketpy.PushConsumer, topic: str) -> list[tuple[int, bool]]:
    """Of each queue of a topic how many messages are held, and whether it has paused."""
    queues = consumer.status().queues.items()
    return [(status.held_messages, status.paused is not None) for queue, status in queues if queue.topic == topic]


def _stopped(held: list[tuple[int, bool]], task: Task) -> bool:
    everything = sum(count for count, _ in held) == task.filled
    return len(held) == task.queues and (everything or all(paused for _, paused in held))


def measure(task: Task) -> Outcome:
    """In one trio loop."""
    return trio.run(blocked, task)


SHAPE = Shape("blocked", "a listener that blocks: most held of a queue", measure, unit="messages")
