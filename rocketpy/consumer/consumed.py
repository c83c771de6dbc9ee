"""Consumed: remembers the messages that listeners have consumed, so that duplicates can be recognised.

It forgets messages that are rolled back, and queues whose offset is moved back, since their messages are to be consumed
again. Forgetting a queue takes the same time however much is remembered: each message is remembered with a `Stay`, the
period since its queue was last forgotten, and forgetting the queue ends that stay. A listener's call belongs to the
stay in which it started, so its messages are not remembered if the queue was forgotten meanwhile. Java's client has no
such memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from rocketpy.message import PropertyName

if TYPE_CHECKING:
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["Consumed", "Stay"]

MOST_LEFT: Final = 10_000
"""The largest number of queues that were given up and are remembered: ever new ones come where topics come and go."""
_RETRIED = None
"""Stands for the queue of all retried messages: they do not say which queue they were in at first."""


class Stay:
    """The period between two moments at which a queue is forgotten."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False


class Consumed:
    """The ids of the messages that were consumed last. Any thread may use it: each step is one operation of a dict.

    Args:
        by: "unique_id" or "key"; None remembers nothing.
        size: how many are remembered.
    """

    def __init__(self, by: str | None, size: int) -> None:
        self._by = by
        self._size = size
        self._seen: dict[Hashable, tuple[Stay, int]] = {}
        """For each id, the stay and the offset of the consumed message."""
        self._stays: dict[Hashable, Stay] = {}
        self._left: dict[MessageQueue, int] = {}
        """The offset of each queue when it was given up."""

    def clear(self) -> None:
        """Forget everything."""
        self._seen, self._stays, self._left = {}, {}, {}

    def _id(self, message: MessageExt) -> Hashable | None:
        """What two copies of a message have in common; None if the message has no such id."""
        found = message.keys if self._by == "key" else message.message_id
        return (message.topic, found) if found else None

    def stay(self, message: MessageExt) -> Stay:
        """The current stay in the queue of a message."""
        retried = PropertyName.RETRY_TOPIC in message.wire_properties
        return self._stays.setdefault(_RETRIED if retried else message.queue, Stay())

    # --- remembering ------------------------------------------------------------------------------------

    def __contains__(self, message: MessageExt) -> bool:
        """Whether a copy of a message was consumed."""
        return self._has(self._id(message))

    def _has(self, its: Hashable | None) -> bool:
        found = self._seen.get(its)
        return found is not None and not found[0].over

    def add(self, messages: Sequence[MessageExt], stay: Stay) -> None:
        """Remember messages consumed by a call that started in this stay; forget the oldest if there are too many."""
        seen = self._seen
        for message in messages:
            its = self._id(message)
            if its is not None:
                seen.pop(its, None)
                seen[its] = stay, message.queue_offset
        while len(seen) > self._size:
            try:
                seen.pop(next(iter(seen)), None)
            except (RuntimeError, StopIteration):
                return  # another thread is forgetting old ones too

    def others(self, messages: Sequence[MessageExt]) -> list[int]:
        """The indexes of the messages to consume: each message once, and no copies of consumed ones."""
        found: list[int] = []
        here: set[Hashable] = set()
        for place, message in enumerate(messages):
            its = self._id(message)
            if its is None or (not self._has(its) and its not in here):
                found.append(place)
                here.add(its)
        return found

    # --- forgetting -------------------------------------------------------------------------------------

    def forget(self, messages: Iterable[MessageExt]) -> None:
        """Forget these messages. If one is a copy of another consumed message, that one stays remembered."""
        if self._by is None:
            return
        for message in messages:
            its = self._id(message)
            found = self._seen.get(its)
            if found is not None and found == (self.stay(message), message.queue_offset):
                self._seen.pop(its, None)

    def forget_queue(self, queue: MessageQueue) -> None:
        """Forget the messages of a queue, and all retried messages, since any of them may come from it."""
        for source in (queue, _RETRIED):
            stay = self._stays.pop(source, None)
            if stay is not None:
                stay.over = True

    def left(self, queue: MessageQueue, offset: int | None) -> None:
        """Note that a queue is given up, and committed up to this offset."""
        if self._by is None or offset is None:
            return
        self._left.pop(queue, None)
        self._left[queue] = offset
        if len(self._left) > MOST_LEFT:
            oldest = next(iter(self._left))
            del self._left[oldest]
            self.forget_queue(oldest)

    def taken(self, queue: MessageQueue, offset: int) -> None:
        """Note that a queue is taken from this offset on; forget it if the offset was moved back meanwhile."""
        if offset < self._left.pop(queue, 0):
            self.forget_queue(queue)
