"""PendingResets: positions that an administrator has set for groups, and that their consumers have not taken up yet.

A pull that is told of a reset may have been given up by its client, which then discards the answer: the queue has moved
to another member, or the client pulls with another filter now. So every pull is told, until one from a client that was
told before asks for the new position. Apache's broker tells only one pull, whatever becomes of the answer. Plays the
part of the resetOffsetTable in ConsumerOffsetManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError

if TYPE_CHECKING:
    from rocketpy_broker_sim.serving.memory import TableRoom

__all__ = ["PendingResets", "size_of_resets"]

_MOST_TELLINGS = 5
"""How often one client is told of a reset. A client that goes on elsewhere after that ignores it."""
_BYTES_OF_RESETTING = 256
_BYTES_A_RESET = 112
_BYTES_OF_TELLING = 288
_BYTES_A_TELLING = 128


def size_of_resets(key: str, tellings: Iterable[int]) -> int:
    """The estimated bytes of the resets of a group on a topic.

    Args:
        key: the topic and the group.
        tellings: for each reset, how many clients were told of it.
    """
    sizes = [_size_of_one(told) for told in tellings]
    return _size_of_key(key) + sum(sizes) if sizes else 0


def _size_of_key(key: str) -> int:
    return _BYTES_OF_RESETTING + len(key)


def _size_of_one(told: int) -> int:
    return _BYTES_A_RESET + (_BYTES_OF_TELLING + _BYTES_A_TELLING * told if told else 0)


class _Reset:
    """A position to take up, and how often each client was told of it, by address."""

    __slots__ = ("offset", "told")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.told: dict[str, int] | None = None


class PendingResets:
    """The pending resets, by topic and group (a key of the table of offsets), and queue.

    Args:
        room: the room of the table of offsets, where they count.
    """

    def __init__(self, room: TableRoom) -> None:
        self._room = room
        self._by_key: dict[str, dict[int, _Reset]] = {}

    # --- looking ---------------------------------------------------------------------------------------

    def get(self, key: str, queue_id: int) -> int | None:
        """The position that a group has to take up in a queue; None without a reset."""
        queues = self._by_key.get(key)
        reset = None if queues is None else queues.get(queue_id)
        return None if reset is None else reset.offset

    def size(self, key: str) -> int:
        """The estimated bytes of the resets of a group on a topic."""
        return size_of_resets(key, (len(reset.told or ()) for reset in self._by_key.get(key, {}).values()))

    def size_of_all(self) -> int:
        """The estimated bytes of all resets."""
        return sum(map(self.size, self._by_key))

    def growth(self, key: str, offsets: Mapping[int, int]) -> int:
        """How many bytes more there would be with these resets."""
        others = [reset for queue_id, reset in self._by_key.get(key, {}).items() if queue_id not in offsets]
        told = [*(len(reset.told or ()) for reset in others), *(0 for _ in offsets)]
        return size_of_resets(key, told) - self.size(key)

    # --- changing --------------------------------------------------------------------------------------

    def put(self, key: str, offsets: Mapping[int, int]) -> None:
        """Set positions by queue, in place of those set before. The caller has taken the room for `growth`."""
        self._by_key.setdefault(key, {}).update((queue_id, _Reset(offset)) for queue_id, offset in offsets.items())

    def tell(self, key: str, queue_id: int, client: str, offset: int) -> int | None:
        """The position that a pull must be answered with; None if it may go on, perhaps because it takes up the reset.

        Args:
            key: the topic and the group.
            queue_id: the queue.
            client: the address that the pull comes from.
            offset: what it asks for.
        """
        queues = self._by_key.get(key)
        if queues is None or queue_id not in queues:
            return None
        reset = queues[queue_id]
        times = 0 if reset.told is None else reset.told.get(client, 0)
        if times and offset == reset.offset:
            self._forget(key, queue_id)
            return None
        if times + 1 == _MOST_TELLINGS or not self._note(reset, client, times + 1):
            self._forget(key, queue_id)
        return reset.offset

    def _note(self, reset: _Reset, client: str, times: int) -> bool:
        """Remember how often a client was told. False if there is no room for that."""
        told = reset.told
        if told is None or client not in told:
            try:
                self._room.take(_BYTES_A_TELLING if told else _BYTES_OF_TELLING + _BYTES_A_TELLING)
            except BrokerError:
                return False
            if told is None:
                told = reset.told = {}
        told[client] = times
        return True

    def _forget(self, key: str, queue_id: int) -> None:
        queues = self._by_key[key]
        reset = queues.pop(queue_id)
        size = _size_of_one(len(reset.told or ()))
        if not queues:
            del self._by_key[key]
            size += _size_of_key(key)
        self._room.note(-size)

    def remove(self, key: str) -> None:
        """Forget all resets of a group on a topic."""
        self._room.note(-self.size(key))
        self._by_key.pop(key, None)
