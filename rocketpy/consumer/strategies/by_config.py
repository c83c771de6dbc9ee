"""Queues that are given by hand. Plays the part of AllocateMessageQueueByConfig. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import attrs

from rocketpy.consumer.strategies.averagely import AllocateAveragely
from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from rocketpy.wire.names import is_retry_topic

if TYPE_CHECKING:
    from rocketpy.consumer.strategies.request import AllocateRequest

__all__ = ["AllocateByConfig"]

_averagely = AllocateAveragely()


def _queues(value: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
    given: object = value
    found = tuple(given) if isinstance(given, Iterable) else (given,)
    for each in found:
        if not isinstance(each, MessageQueue):
            raise ConfigError(f"AllocateByConfig wants the queues of this member, as MessageQueue, not {each!r:.100}")
    return found


@attrs.frozen
class AllocateByConfig:
    """This member consumes these queues and no others, whatever the other members do.

    Nobody checks that the members together have each queue once. A queue that is not in the route is left out until
    it is. The retry topic of the group is shared out evenly unless some of its queues are given too: in Java nobody
    consumes it then.

    Args:
        queues: the queues of this member, of all its topics.

    Raises:
        ConfigError: there is something else than queues.
    """

    name: ClassVar[str] = "CONFIG"
    """What Java calls it."""
    queues: tuple[MessageQueue, ...] = attrs.field(converter=_queues)

    def __call__(self, request: AllocateRequest) -> list[MessageQueue]:
        """Those that were given, of this topic."""
        given = {queue for queue in self.queues if queue.topic == request.topic}
        if not given and is_retry_topic(request.topic):
            return _averagely(request)
        return [queue for queue in request.queues if queue in given]
