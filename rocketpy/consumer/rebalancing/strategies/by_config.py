"""Allocation by hand. Plays the part of AllocateMessageQueueByConfig. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import attrs

from rocketpy.consumer.rebalancing.strategies.averagely import AllocateAveragely
from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from rocketpy.reprs import Short
from rocketpy.wire.names import is_retry_topic

if TYPE_CHECKING:
    from rocketpy.consumer.rebalancing.strategies.request import AllocateRequest

__all__ = ["AllocateByConfig"]

_averagely = AllocateAveragely()


def _queues(value: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
    given: object = value
    found = tuple(given) if isinstance(given, Iterable) else (given,)
    for each in found:
        if not isinstance(each, MessageQueue):
            raise ConfigError(f"AllocateByConfig takes the MessageQueues of this member, not {each!r:.100}")
    return found


@attrs.frozen(repr=False)
class AllocateByConfig(Short):
    """Gives this member exactly these queues, whatever the other members do.

    Nothing checks that the members together have each queue once. A queue is left out as long as the topic's route
    does not have it. If no queues of the group's retry topic are given, that topic is shared out evenly; in Java nobody
    would consume it.

    Args:
        queues: the queues of this member, of all its topics.

    Raises:
        ConfigError: there is something else than queues.
    """

    name: ClassVar[str] = "CONFIG"
    """What Java calls it."""
    queues: tuple[MessageQueue, ...] = attrs.field(converter=_queues)

    def __call__(self, request: AllocateRequest) -> list[MessageQueue]:
        """The given queues of this topic."""
        given = {queue for queue in self.queues if queue.topic == request.topic}
        if not given and is_retry_topic(request.topic):
            return _averagely(request)
        return [queue for queue in request.queues if queue in given]
