"""ProcessQueue: the messages of one queue that were pulled and are not consumed yet. Pure.

It knows the offset up to which the group may commit (no message that is held lies below it) and whether pulling has to
pause. It is made when a queue is assigned, and dropped when the queue is given up; from then on, results of listeners
have no effect. Plays the part of ProcessQueue.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketpy.logs import counted

if TYPE_CHECKING:
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["FlowLimits", "Held", "ProcessQueue"]

_MIB = 1024 * 1024


class FlowLimits(NamedTuple):
    """How much of a queue may be held. As in Java, pulling pauses above a limit, not at it."""

    messages: int = 1000
    """Number of messages."""
    size: int = 100 * _MIB
    """Bytes as stored."""
    span: float = 2000
    """Distance between the lowest and the highest offset; infinite in an orderly consumer, where it stays short."""


class Held(NamedTuple):
    """A snapshot of what is held of a queue."""

    messages: int
    """How many messages are held."""
    size: int
    """Their stored bytes."""
    span: int
    """The distance from the lowest to the highest offset held."""
    position: int
    """The offset to pull next."""
    commit_offset: int
    """The offset that may be committed."""
    lowest: int
    """The lowest offset held; `position` when nothing is."""


DEFAULT_LIMITS = FlowLimits()
_KEY = itemgetter(0)
_SIZE: Final = 0
_OFFSET: Final = 5
"""Where `RecordHead` has the size and the offset: every message is looked at here, without a call for each property."""


class ProcessQueue:
    """The messages held of one queue.

    Args:
        queue: the queue.
        position: the offset to pull first.
        limits: how much may be held.
        now: the time on the puller's clock, in seconds.

    Attributes:
        queue: the queue.
        limits: how much may be held.
        position: the offset to pull next. Messages below it are held, consumed, or were filtered out.
        dropped: whether the queue was given up.
        size: bytes held.
        last_pull: when it was last pulled, on the puller's clock.
        last_consume: when a message of it was last consumed, on the same clock.
        last_lock: when its broker last confirmed its lock; until then, or without a lock, when the queue was taken.
        unlock_tries: how many rebalances found that it should go while its listener was running.
    """

    def __init__(
        self, queue: MessageQueue, position: int, limits: FlowLimits = DEFAULT_LIMITS, *, now: float = 0.0
    ) -> None:
        self.queue = queue
        self.limits = limits
        self.position = position
        self.dropped = False
        self.size = 0
        self.last_pull = now
        self.last_consume = now
        self.last_lock = now
        self.unlock_tries = 0
        self._held: OrderedDict[int, MessageExt] = OrderedDict()
        """By offset, lowest first. Messages nearly always come in that order, so it is rarely sorted."""
        self._committed = position
        self._on_room: Callable[[], None] | None = None

    def __len__(self) -> int:
        """How many messages are held, those that a listener has included."""
        return len(self._held)

    def __contains__(self, offset: int) -> bool:
        """Whether the message at an offset is held."""
        return offset in self._held

    def __repr__(self) -> str:
        """Short form for logs."""
        state = "dropped, " if self.dropped else ""
        return f"<ProcessQueue {self.queue} {state}{len(self)} held, next {self.position}>"

    # --- pulling --------------------------------------------------------------------------------------

    def put(self, messages: Iterable[MessageExt]) -> None:
        """Add pulled messages. A message that is held already is not added again."""
        held, position, size, late = self._held, self.position, 0, False
        for message in messages:
            head = message._head
            offset = head[_OFFSET]
            if offset not in held:
                held[offset] = message
                size += head[_SIZE]
            if offset >= position:
                position = offset + 1
            else:
                late = True  # the broker repeats a message, or the offset was pulled again
        if late:
            self._sort()
        self.size += size
        self.position = position

    def advance(self, position: int) -> None:
        """Pull from `position` next, as the broker says. Never backwards: an answer may be late or wrong."""
        self.position = max(self.position, position)

    def excess(self) -> str | None:
        """The limit that is exceeded, in words, so that pulling has to pause; None if there is room."""
        messages, size, span = self.limits
        if len(self) > messages:
            return f"{counted(len(self), 'message')} held, over {messages}"
        if self.size > size:
            return f"{self.size / _MIB:.1f} MiB held, over {size / _MIB:g}"
        if self.span > span:
            return f"offsets held over a span of {self.span}, over {span:g}"
        return None

    @property
    def span(self) -> int:
        """Distance between the lowest and the highest offset held."""
        return self._highest() - self._lowest() if len(self) else 0

    @property
    def is_awaited(self) -> bool:
        """Whether pulling waits for room. Thread-safe."""
        return self._on_room is not None

    def call_when_room(self, callback: Callable[[], None] | None) -> None:
        """Have a plain function called once when there is room or the queue is dropped; None cancels that."""
        self._on_room = callback
        self._tell_room()

    def drop(self) -> None:
        """Mark the queue as given up: nothing of it is consumed or committed from now on."""
        self.dropped = True
        self._tell_room()

    def set_limits(self, limits: FlowLimits) -> None:
        """Set how much may be held from now on."""
        self.limits = limits
        self._tell_room()

    def _tell_room(self) -> None:
        if self._on_room is not None and (self.dropped or self.excess() is None):
            callback, self._on_room = self._on_room, None
            callback()

    # --- consuming ------------------------------------------------------------------------------------

    def remove(self, messages: Iterable[MessageExt]) -> int:
        """Remove messages that are done. Returns the offset up to which the group may commit."""
        pop, size = self._held.pop, 0
        for message in messages:
            head = message._head
            if pop(head[_OFFSET], None) is not None:
                size += head[_SIZE]
        self.size -= size
        if self._on_room is not None:
            self._tell_room()
        return self.commit_offset

    @property
    def commit_offset(self) -> int:
        """The offset up to which the group may commit, the lowest that is not done. It never decreases."""
        self._committed = max(self._committed, self._lowest() if len(self) else self.position)
        return self._committed

    # --- handing out: a message handed out is not held any more -------------------------------------------

    def hand_out(self, count: int) -> list[MessageExt]:
        """Remove and return up to `count` messages, lowest offset first; the caller keeps track of what is done."""
        held = self._held
        if count >= len(held):
            messages = list(held.values())
            held.clear()
        else:
            messages = [held.popitem(last=False)[1] for _ in range(count)]
        self.size -= sum(message._head[_SIZE] for message in messages)
        if self._on_room is not None:
            self._tell_room()
        return messages

    def give_back(self, messages: Iterable[MessageExt]) -> None:
        """Hold messages again that were handed out and have reached nobody: they are handed out next."""
        for message in messages:
            if self._held.setdefault(message.queue_offset, message) is message:
                self.size += message.store_size
        self._sort()

    @property
    def next_offset(self) -> int:
        """The offset handed out next: the lowest that is held, or `position` if none is. It may decrease."""
        return self._lowest() if len(self) else self.position

    # --- looking --------------------------------------------------------------------------------------

    def look(self) -> Held:
        """A snapshot of what is held. Thread-safe."""
        position = self.position  # read first: messages added later have higher offsets
        offsets = self.offsets()
        lowest, highest = (min(offsets), max(offsets)) if offsets else (position, position)
        # Other fields may have changed by now: report no more than was true at the beginning.
        committed = min(position, max(self._committed, lowest))
        return Held(
            messages=len(offsets),
            size=self.size,
            span=highest - lowest,
            position=position,
            commit_offset=committed,
            lowest=lowest,
        )

    def offsets(self) -> list[int]:
        """The offsets of all messages held, in no particular order. Thread-safe."""
        # dict.keys, as OrderedDict's own order may be changing in another thread; this copies in one operation.
        return list(dict.keys(self._held))

    def look_next(self) -> int:
        """`next_offset`, for any thread."""
        position = self.position  # read first: messages added later have higher offsets
        return min(list(dict.keys(self._held)), default=position)

    def is_pull_overdue(self, now: float, limit: float) -> bool:
        """Whether the last pull was more than `limit` seconds before `now`, although there is room."""
        return now - self.last_pull > limit and self.excess() is None

    def _lowest(self) -> int:
        return next(iter(self._held))

    def _highest(self) -> int:
        return next(reversed(self._held))

    def _sort(self) -> None:
        """Restore the order by offset. Other threads see either the old or the new table."""
        self._held = OrderedDict(sorted(self._held.items(), key=_KEY))
