"""PendingResets: positions that an administrator has set for groups, and that their consumers have not taken up yet.

A pull that is told of a reset may have been given up by its client, which then discards the answer: the queue has moved
to another member, or the client pulls with another filter now. So every pull is told, until one from a client that was
told before asks for the new position. A client whose connection ends between any two pulls comes from another address each
time, so a few told ones are enough in the end. Apache's broker tells only one pull, whatever becomes of the answer. Plays the
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
_MOST_ADDRESSES = 5
"""How many clients are told before one that was not counts as told if it asks for the new position."""
_BYTES_OF_RESETTING = 256
_BYTES_A_RESET = 48
_BYTES_OF_TELLING = 352
_BYTES_A_TELLING = 128


def size_of_resets(key: str, count: int, tellings: Iterable[int] = ()) -> int:
    """The estimated bytes of the resets of a group on a topic.

    Args:
        key: the topic and the group.
        count: how many resets there are.
        tellings: for each of them that clients were told of, how many clients.
    """
    if not count:
        return 0
    told = sum(_BYTES_OF_TELLING + _BYTES_A_TELLING * clients for clients in tellings)
    return _BYTES_OF_RESETTING + len(key) + _BYTES_A_RESET * count + told


class PendingResets:
    """The pending resets, by topic and group (a key of the table of offsets), and queue.

    Args:
        room: the room of the table of offsets, where they count.
    """

    def __init__(self, room: TableRoom) -> None:
        self._room = room
        self._offsets: dict[str, dict[int, int]] = {}
        self._told: dict[str, dict[int, dict[str, int]]] = {}
        """For each reset that clients were told of: how often, by their addresses."""

    # --- looking ---------------------------------------------------------------------------------------

    def get(self, key: str, queue_id: int) -> int | None:
        """The position that a group has to take up in a queue; None without a reset."""
        queues = self._offsets.get(key)
        return None if queues is None else queues.get(queue_id)

    def size(self, key: str) -> int:
        """The estimated bytes of the resets of a group on a topic."""
        return size_of_resets(key, len(self._offsets.get(key, ())), map(len, self._told.get(key, {}).values()))

    def size_of_all(self) -> int:
        """The estimated bytes of all resets."""
        return sum(map(self.size, self._offsets))

    # --- changing --------------------------------------------------------------------------------------

    def growth(self, key: str, offsets: Mapping[int, int]) -> int:
        """How many bytes more there will be when `put` has set these positions."""
        known, told = self._offsets.get(key, {}), self._told.get(key, {})
        count = len(known) + len(offsets.keys() - known.keys())
        stays = (len(clients) for queue_id, clients in told.items() if queue_id not in offsets)
        return size_of_resets(key, count, stays) - self.size(key)

    def put(self, key: str, offsets: Mapping[int, int]) -> None:
        """Set positions by queue, in place of those set before. The caller has taken the room for `growth`."""
        self._offsets.setdefault(key, {}).update(offsets)
        for queue_id in [each for each in self._told.get(key, ()) if each in offsets]:
            self._forget_tellings(key, queue_id)

    def tell(self, key: str, queue_id: int, client: str, offset: int) -> int | None:
        """The position that a pull must be answered with; None if it may go on, perhaps because it takes up the reset.

        Args:
            key: the topic and the group.
            queue_id: the queue.
            client: the address that the pull comes from.
            offset: what it asks for.
        """
        position = self.get(key, queue_id)
        if position is None:
            return None
        told = self._told.get(key, {}).get(queue_id, {})
        times = told.get(client, 0)
        if offset == position and (times or len(told) >= _MOST_ADDRESSES):
            self._end(key, queue_id)
            return None
        if times + 1 == _MOST_TELLINGS or not self._note(key, queue_id, client, times + 1):
            self._end(key, queue_id)
        return position

    def _note(self, key: str, queue_id: int, client: str, times: int) -> bool:
        """Remember how often a client was told. False if there is no room for that."""
        told = self._told.get(key, {}).get(queue_id, {})
        if client not in told:
            try:
                self._room.take(_BYTES_A_TELLING if told else _BYTES_OF_TELLING + _BYTES_A_TELLING)
            except BrokerError:
                return False
            told = self._told.setdefault(key, {}).setdefault(queue_id, {})
        told[client] = times
        return True

    def _end(self, key: str, queue_id: int) -> None:
        """A reset is not pending any more."""
        clients = self._forget_tellings(key, queue_id)
        queues = self._offsets[key]
        before = size_of_resets(key, len(queues), [clients] if clients else ())
        del queues[queue_id]
        if not queues:
            del self._offsets[key]
        self._room.note(size_of_resets(key, len(queues)) - before)

    def _forget_tellings(self, key: str, queue_id: int) -> int:
        """Returns how many clients were told."""
        told = self._told.get(key)
        if told is None or queue_id not in told:
            return 0
        clients = len(told.pop(queue_id))
        if not told:
            del self._told[key]
        return clients

    def remove(self, key: str) -> None:
        """Forget all resets of a group on a topic."""
        self._room.note(-self.size(key))
        self._offsets.pop(key, None)
        self._told.pop(key, None)
