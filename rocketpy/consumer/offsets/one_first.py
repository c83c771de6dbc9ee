"""Commits of many queues: one queue of each topic at a broker goes first, and the others follow its answer.

Apache's broker (ConsumerOffsetManager) makes a map for the offsets of a group in a topic when it takes the first of
them. If two first commits arrive at the same time, each makes a map, and one map replaces the other: an offset is lost,
although both commits were answered with success.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import trio

from rocketpy.services import side_by_side

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue

__all__ = ["PATIENCE", "one_first"]

PATIENCE = 0.2
"""Seconds after which the others follow without an answer, so that a broker that gives none is not waited for twice."""
Tell = Callable[["MessageQueue"], Awaitable[object]]


async def one_first(tell: Tell, queues: Iterable[MessageQueue]) -> None:
    """Call an async function with each queue. Different topics and brokers do not wait for each other.

    Args:
        tell: commits the offset of a queue and waits for the answer. It handles the errors it expects by itself.
        queues: the queues.
    """
    together: dict[tuple[str, str], list[MessageQueue]] = {}
    for queue in queues:
        together.setdefault((queue.broker_name, queue.topic), []).append(queue)
    await side_by_side(partial(_tell_one_first, tell), together.values())


async def _tell_one_first(tell: Tell, queues: list[MessageQueue]) -> None:
    if len(queues) == 1:
        await tell(queues[0])
        return
    answered = trio.Event()

    async def first() -> None:
        try:
            await tell(queues[0])
        finally:
            answered.set()

    async def others() -> None:
        with trio.move_on_after(PATIENCE):
            await answered.wait()
        await side_by_side(tell, queues[1:])

    await side_by_side(lambda part: part(), (first, others))
