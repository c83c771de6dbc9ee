"""PendingResets: positions that an administrator has set for groups, and that their consumers have not taken up yet.

The client may have given up the pull whose answer reports a reset, and then discards the answer: because the queue has
moved to another member, or because the client now pulls with another filter. So every pull is answered with the new
position, until a client that has got such an answer asks for that position. A client whose connection ends between any
two pulls comes from another address each time, so it is enough in the end that a few addresses have got the answer.
Apache's broker answers only one pull that way, whatever becomes of the answer. Plays the part of resetOffsetTable in
ConsumerOffsetManager.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError

if TYPE_CHECKING:
    from rocketpy_broker_sim.serving.memory import TableRoom

__all__ = ["PendingResets", "count_new", "size_of_resets"]

_MOST_TELLINGS = 5
"""How often a reset is reported to one client. A client that still pulls from another position then ignores resets."""
_MOST_ADDRESSES = 5
"""How many clients a reset is reported to before any client that asks for the new position ends it."""
_BYTES_OF_RESETTING = 256
_BYTES_A_RESET = 48
_BYTES_OF_TELLING = 352
_BYTES_A_TELLING = 128


def size_of_resets(key: str, count: int, tellings: Iterable[int] = ()) -> int:
    """The estimated bytes of the resets of a group on a topic.

    Args:
        key: the topic and the group.
        count: how many resets there are.
        tellings: for each reset that was reported to clients, to how many.
    """
    if not count:
        return 0
    told = sum(_BYTES_OF_TELLING + _BYTES_A_TELLING * clients for clients in tellings)
    return _BYTES_OF_RESETTING + len(key) + _BYTES_A_RESET * count + told


def count_new(queues: Collection[int], known: Container[int]) -> int:
    """How many queues are not among the known ones, without a set of as many as a topic may have."""
    return len(queues) - sum(map(known.__contains__, queues))


class PendingResets:
    """The pending resets, by topic and group (a key of the table of offsets), and queue.

    Args:
        room: the room of the offset table, which resets count towards.
    """

    def __init__(self, room: TableRoom) -> None:
        self._room = room
        self._offsets: dict[str, dict[int, int]] = {}
        self._told: dict[str, dict[int, dict[str, int]]] = {}
        """For each reset that was reported to clients: how often, by the clients' addresses."""

    # --- looking ---------------------------------------------------------------------------------------

    def get(self, key: str, queue_id: int) -> int | None:
        """The position to which a queue of a group was reset; None without a reset."""
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
        """By how many bytes the size grows if `put` sets these positions."""
        known, told = self._offsets.get(key, {}), self._told.get(key, {})
        count = len(known) + count_new(offsets, known)
        stays = (len(clients) for queue_id, clients in told.items() if queue_id not in offsets)
        return size_of_resets(key, count, stays) - self.size(key)

    def put(self, key: str, offsets: dict[int, int]) -> None:
        """Set positions by queue, replacing earlier ones. The caller has taken the room for `growth`.

        The first positions of a group on a topic are kept as given, without a copy: the caller no longer changes them.
        """
        for queue_id in [each for each in self._told.get(key, ()) if each in offsets]:
            self._forget_tellings(key, queue_id)
        known = self._offsets.setdefault(key, offsets)
        if known is not offsets:
            known.update(offsets)

    def tell(self, key: str, queue_id: int, client: str, offset: int) -> int | None:
        """The position that a pull must be answered with; None if it may proceed, as when it takes up the reset.

        Args:
            key: the topic and the group.
            queue_id: the queue.
            client: the address that the pull comes from.
            offset: the offset that it asks for.
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
        """Remember how often a reset was reported to a client. False if there is no room for that."""
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
        """Remove a reset, which is no longer pending."""
        clients = self._forget_tellings(key, queue_id)
        queues = self._offsets[key]
        before = size_of_resets(key, len(queues), [clients] if clients else ())
        del queues[queue_id]
        if not queues:
            del self._offsets[key]
        self._room.note(size_of_resets(key, len(queues)) - before)

    def _forget_tellings(self, key: str, queue_id: int) -> int:
        """Forget to which clients a reset was reported; returns how many they were."""
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
