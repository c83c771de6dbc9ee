"""Allocation within the machine room of each broker. Plays the part of AllocateMachineRoomNearby. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import attrs

from rocketpy.consumer.rebalancing.strategies.request import AllocateRequest, AllocateStrategy
from rocketpy.errors import ConfigError
from rocketpy.message import MessageQueue
from rocketpy.reprs import Short

__all__ = ["AllocateMachineRoomNearby"]

_T = TypeVar("_T")


def _is_callable(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if not callable(value) or isinstance(value, type):
        raise ConfigError(f"{field.name} of AllocateMachineRoomNearby must be a function, not {value!r:.100}")


@attrs.frozen(repr=False)
class AllocateMachineRoomNearby(Short):
    """Gives the queues of a room to the members in it, and those of a room without members to all members.

    Args:
        inner: shares out queues within a room: a strategy such as `AllocateAveragely()`.
        room_of_queue: the room of the broker of a queue.
        room_of_client: the room of a member, from its client id; `client_ip` and `instance_name` are parts of it.

    Raises:
        ConfigError: one of these is not a function.
    """

    inner: AllocateStrategy = attrs.field(validator=_is_callable)
    room_of_queue: Callable[[MessageQueue], str] = attrs.field(validator=_is_callable)
    room_of_client: Callable[[str], str] = attrs.field(validator=_is_callable)

    @property
    def name(self) -> str:
        """What Java calls it."""
        return f"MACHINE_ROOM_NEARBY-{getattr(self.inner, 'name', 'unknown')}"

    def __call__(self, request: AllocateRequest) -> list[MessageQueue]:
        """The share of the queues in the member's own room, then of those in rooms without members.

        Raises:
            ValueError: one of the functions does not know a room.
        """
        queues_of = _by_room(self.room_of_queue, request.queues)
        members_of = _by_room(self.room_of_client, request.client_ids)
        own = self.room_of_client(request.client_id)
        found: list[MessageQueue] = []
        if own in queues_of:
            found += self._share(request, queues_of[own], members_of[own])
        for room in sorted(queues_of.keys() - members_of.keys()):
            found += self._share(request, queues_of[room], request.client_ids)
        return found

    def _share(
        self, request: AllocateRequest, queues: Iterable[MessageQueue], client_ids: Iterable[str]
    ) -> Iterable[MessageQueue]:
        return self.inner(attrs.evolve(request, queues=tuple(queues), client_ids=tuple(client_ids)))


def _by_room(room_of: Callable[[_T], str], members: Iterable[_T]) -> Mapping[str, list[_T]]:
    rooms: dict[str, list[_T]] = {}
    for each in members:
        room: object = room_of(each)
        if not isinstance(room, str) or not room:
            raise ValueError(f"the machine room of {each} is not known: {room_of!r:.100} says {room!r:.100}")
        rooms.setdefault(room, []).append(each)
    return rooms
