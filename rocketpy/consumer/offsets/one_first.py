"""Commits of many queues: one queue of each topic at a broker goes first, the others follow at once.

Apache's broker makes a map for the offsets of a group in a topic when the first of them arrives. Of two first ones that
arrive at the same time each makes a map, and one of the maps is lost with what is in it, though both commits are
answered with success (ConsumerOffsetManager).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from rocketpy.services import side_by_side

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue

__all__ = ["one_first"]

Tell = Callable[["MessageQueue"], Awaitable[object]]


async def one_first(tell: Tell, queues: Iterable[MessageQueue]) -> None:
    """Call an async function with each queue; different topics and brokers do not wait for each other.

    Args:
        tell: commits the offset of a queue and waits for the answer. It handles the errors it expects by itself.
        queues: the queues.
    """
    together: dict[tuple[str, str], list[MessageQueue]] = {}
    for queue in queues:
        together.setdefault((queue.broker_name, queue.topic), []).append(queue)
    await side_by_side(partial(_tell_one_first, tell), together.values())


async def _tell_one_first(tell: Tell, queues: list[MessageQueue]) -> None:
    await tell(queues[0])
    await side_by_side(tell, queues[1:])
