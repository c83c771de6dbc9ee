"""Allocation of the queues in certain machine rooms. Plays the part of AllocateMessageQueueByMachineRoom. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import attrs

from rocketpy.errors import ConfigError
from rocketpy.reprs import Short

if TYPE_CHECKING:
    from rocketpy.consumer.rebalancing.strategies.request import AllocateRequest
    from rocketpy.message import MessageQueue

__all__ = ["AllocateByMachineRoom"]


def _rooms(value: Iterable[str]) -> frozenset[str]:
    given: object = value
    found = [] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if not found or not all(isinstance(each, str) for each in found):
        raise ConfigError(f'AllocateByMachineRoom wants the names of rooms, such as ["room1"], not {given!r:.100}')
    return frozenset(found)


@attrs.frozen(repr=False)
class AllocateByMachineRoom(Short):
    """Shares out the queues of brokers named "room@name" in these rooms; nobody gets the others.

    Args:
        rooms: names of machine rooms.

    Raises:
        ConfigError: these are not names.
    """

    name: ClassVar[str] = "MACHINE_ROOM"
    """What Java calls it."""
    rooms: frozenset[str] = attrs.field(converter=_rooms)

    def __call__(self, request: AllocateRequest) -> list[MessageQueue]:
        """A run of consecutive queues, and one of the remaining queues if there are enough."""
        queues = [queue for queue in request.queues if self._is_inside(queue)]
        members, index = len(request.client_ids), request.index
        share = len(queues) // members
        left_over = index + share * members
        return queues[index * share : (index + 1) * share] + queues[left_over : left_over + 1]

    def _is_inside(self, queue: MessageQueue) -> bool:
        # Java's split drops empty strings at the end: "room1@a@" counts as "room1@a".
        parts = queue.broker_name.rstrip("@").split("@")
        return len(parts) == 2 and parts[0] in self.rooms
