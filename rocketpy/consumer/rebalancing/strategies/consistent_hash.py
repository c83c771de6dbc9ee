"""Allocation by consistent hashing: few queues move when a member joins or leaves.

Plays the part of AllocateMessageQueueConsistentHash and ConsistentHashRouter. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from hashlib import md5
from typing import TYPE_CHECKING, ClassVar

import attrs

from rocketpy.config.checks import whole

if TYPE_CHECKING:
    from rocketpy.consumer.rebalancing.strategies.request import AllocateRequest
    from rocketpy.message import MessageQueue

__all__ = ["AllocateConsistentHash"]


@attrs.frozen
class AllocateConsistentHash:
    """Each queue goes to the member that follows it on a ring of hash values.

    Shares are uneven, but when a member joins or leaves, most queues stay where they are.

    Args:
        virtual_nodes: places on the ring for each member; more make shares more even.

    Raises:
        ConfigError: that is not a number from 1 to 1000.
    """

    name: ClassVar[str] = "CONSISTENT_HASH"
    """What Java calls it."""
    virtual_nodes: int = attrs.field(default=10, validator=whole(1, 1000))

    def __call__(self, request: AllocateRequest) -> list[MessageQueue]:
        """The queues whose next member on the ring is `request.client_id`."""
        places, members = _ring(request.client_ids, self.virtual_nodes)
        own = request.client_id
        return [queue for queue in request.queues if members[_next(places, _place(_text(queue)))] == own]


@lru_cache(maxsize=8)
def _ring(client_ids: tuple[str, ...], nodes: int) -> tuple[list[int], list[str]]:
    """The sorted places, and the member at each. Of two at the same place, the later one wins, as in Java's map."""
    ring = {_place(f"{client_id}-{number}"): client_id for client_id in client_ids for number in range(nodes)}
    places = sorted(ring)
    return places, [ring[place] for place in places]


def _next(places: list[int], place: int) -> int:
    return bisect_left(places, place) % len(places)


def _place(text: str) -> int:
    digest = md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


def _text(queue: MessageQueue) -> str:
    """What Java's MessageQueue.toString returns."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
