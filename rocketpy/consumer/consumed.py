"""Consumed: the memory of what listeners have consumed, by which copies are known.

It forgets on demand: messages that were consumed and then rolled back, and whole queues that somebody has moved back,
who wants their messages to be consumed again. Forgetting a queue takes no longer for a large memory than for a small
one: what is remembered of a queue belongs to a stay in it, and a new stay begins. A call of a listener belongs to the
stay in which it began, so that what it says after the queue was forgotten is not remembered. RocketMQ has nothing like
it; users of Java write it themselves.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from rocketpy.message import PropertyName

if TYPE_CHECKING:
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["Consumed", "Stay"]

_RETRIED = None
"""Where everything is said to come from that came back by the retry topic: its queues are not those of the messages."""


class Stay:
    """The time from one moment in which a queue was forgotten to the next."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False


class Consumed:
    """The last messages that were consumed, by an id. Any thread may use it: each step is one operation of a dict.

    Args:
        by: "unique_id" or "key"; None remembers nothing.
        size: how many are remembered.
    """

    def __init__(self, by: str | None, size: int) -> None:
        self._by = by
        self._size = size
        self._seen: dict[Hashable, tuple[Stay, int]] = {}
        """Each id with the stay in which it was consumed, and with the offset."""
        self._stays: dict[Hashable, Stay] = {}
        self._left: dict[MessageQueue, int] = {}
        """Where each queue was given up."""

    def clear(self) -> None:
        """Forget everything."""
        self._seen, self._stays, self._left = {}, {}, {}

    def _id(self, message: MessageExt) -> Hashable | None:
        """What two copies have in common; None when nothing tells."""
        found = message.keys if self._by == "key" else message.message_id
        return (message.topic, found) if found else None

    def stay(self, message: MessageExt) -> Stay:
        """The present one in the queue that a message comes from."""
        retried = PropertyName.RETRY_TOPIC in message.properties
        return self._stays.setdefault(_RETRIED if retried else message.queue, Stay())

    # --- remembering ------------------------------------------------------------------------------------

    def __contains__(self, message: MessageExt) -> bool:
        """Whether a copy of it was consumed."""
        return self._has(self._id(message))

    def _has(self, its: Hashable | None) -> bool:
        found = self._seen.get(its)
        return found is not None and not found[0].over

    def add(self, messages: Sequence[MessageExt], stay: Stay) -> None:
        """These are consumed, by a call that began in this stay. The oldest are forgotten when there are too many."""
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
                return  # another thread does the same

    def others(self, messages: Sequence[MessageExt]) -> list[int]:
        """The places of those that have to be consumed: no copies of what was, and each once."""
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
        """These are to be consumed again. What was consumed in their place, where they are copies, stays."""
        if self._by is None:
            return
        for message in messages:
            its = self._id(message)
            found = self._seen.get(its)
            if found is not None and found == (self.stay(message), message.queue_offset):
                self._seen.pop(its, None)

    def forget_queue(self, queue: MessageQueue) -> None:
        """All of a queue may come again; and all that was retried, which does not say from which queue it came."""
        for source in (queue, _RETRIED):
            stay = self._stays.pop(source, None)
            if stay is not None:
                stay.over = True

    def left(self, queue: MessageQueue, offset: int | None) -> None:
        """A queue is given up, and committed up to this offset."""
        if self._by is not None and offset is not None:
            self._left[queue] = offset

    def taken(self, queue: MessageQueue, offset: int) -> None:
        """A queue is ours again, from this offset on. If we had left it further on, somebody has moved it back."""
        if offset < self._left.pop(queue, 0):
            self.forget_queue(queue)
