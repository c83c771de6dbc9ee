"""ProcessQueue: the messages of one queue that were pulled and are not consumed yet. Pure: it never waits.

It knows how far a group may commit (nothing that is held lies below) and whether pulling has to pause. One is made when
a queue is assigned, and dropped with the assignment: what a listener says about a dropped one counts no more. Plays the
part of ProcessQueue.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from rocketpy.logs import counted

if TYPE_CHECKING:
    from rocketpy.message import MessageExt, MessageQueue

__all__ = ["FlowLimits", "Held", "ProcessQueue"]

_MIB = 1024 * 1024


class FlowLimits(NamedTuple):
    """What may be held of a queue. Pulling pauses above, not at, a limit, as in Java."""

    messages: int = 1000
    size: int = 100 * _MIB
    """Bytes as stored."""
    span: float = 2000
    """Distance between the lowest and the highest offset; infinity where order keeps it short by itself."""


class Held(NamedTuple):
    """What is held of a queue, as of a moment ago."""

    messages: int
    size: int
    span: int
    position: int
    commit_offset: int
    lowest: int
    """The lowest offset held; `position` when nothing is."""


DEFAULT_LIMITS = FlowLimits()
_OFFSET = itemgetter(0)


class ProcessQueue:
    """What is held of one queue.

    Attributes:
        queue: the queue.
        limits: what may be held.
        position: where to pull next. Everything below is held, consumed, or was not wanted.
        dropped: the queue is not ours any more.
        size: bytes held.
        last_pull: when it was pulled last, on the clock of whoever pulls.
        last_consume: when something of it was consumed last, on the same clock.
        last_lock: when its broker last confirmed its lock, where it has one; when it became ours before that.
        unlock_tries: how often it was to be given up, or still was, while its listener was at work.
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
        """By offset, lowest first. They come in that order nearly always, so that nothing has to be compared."""
        self._committed = position
        self._on_room: Callable[[], None] | None = None

    def __len__(self) -> int:
        """Messages held, those in the hands of a listener included."""
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
        """Hold messages that were pulled. One that is held already is not held twice."""
        held, position, size, late = self._held, self.position, 0, False
        for message in messages:
            offset = message.queue_offset
            if offset not in held:
                held[offset] = message
                size += message.store_size
            if offset >= position:
                position = offset + 1
            else:
                late = True  # somebody repeats himself, or offsets are pulled again
        if late:
            self._sort()
        self.size += size
        self.position = position

    def advance(self, position: int) -> None:
        """Pull from there next, as the broker says. Never backwards: an answer may be old, or wrong."""
        self.position = max(self.position, position)

    def excess(self) -> str | None:
        """Why pulling has to pause; None when there is room."""
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

    def call_when_room(self, callback: Callable[[], None] | None) -> None:
        """Call a plain function, once, when there is room again or the queue is dropped; None forgets it."""
        self._on_room = callback
        self._tell_room()

    def drop(self) -> None:
        """The queue is not ours any more: nothing of it is consumed or committed from now on."""
        self.dropped = True
        self._tell_room()

    def set_limits(self, limits: FlowLimits) -> None:
        """Hold more or less from now on."""
        self.limits = limits
        self._tell_room()

    def _tell_room(self) -> None:
        if self._on_room is not None and (self.dropped or self.excess() is None):
            callback, self._on_room = self._on_room, None
            callback()

    # --- consuming ------------------------------------------------------------------------------------

    def remove(self, messages: Iterable[MessageExt]) -> int:
        """These are dealt with. Returns the offset up to which the group may commit."""
        held = self._held
        for message in messages:
            if held.pop(message.queue_offset, None) is not None:
                self.size -= message.store_size
        if self._on_room is not None:
            self._tell_room()
        return self.commit_offset

    @property
    def commit_offset(self) -> int:
        """The lowest offset that is not dealt with. It never falls."""
        self._committed = max(self._committed, self._lowest() if len(self) else self.position)
        return self._committed

    # --- handing out: what is handed out is not held any more ---------------------------------------------

    def hand_out(self, count: int) -> list[MessageExt]:
        """The next messages in order, for somebody who says later, or never, that they are dealt with."""
        held = self._held
        if count >= len(held):
            messages = list(held.values())
            held.clear()
        else:
            messages = [held.popitem(last=False)[1] for _ in range(count)]
        self.size -= sum(message.store_size for message in messages)
        if self._on_room is not None:
            self._tell_room()
        return messages

    def give_back(self, messages: Iterable[MessageExt]) -> None:
        """Hold again what was handed out and reached nobody: it is handed out next."""
        for message in messages:
            if self._held.setdefault(message.queue_offset, message) is message:
                self.size += message.store_size
        self._sort()

    @property
    def next_offset(self) -> int:
        """Of what is handed out next: the lowest that is held, or where the next pull begins. It may fall again."""
        return self._lowest() if len(self) else self.position

    # --- looking --------------------------------------------------------------------------------------

    def look(self) -> Held:
        """What is held; of all methods this is the one for any thread."""
        position = self.position  # first: nothing that is held later lies below it
        offsets = self.offsets()
        lowest, highest = (min(offsets), max(offsets)) if offsets else (position, position)
        # All three may have moved on by now: what is told is no more than what was true at the beginning.
        committed = min(position, max(self._committed, lowest))
        return Held(len(offsets), self.size, highest - lowest, position, committed, lowest)

    def offsets(self) -> list[int]:
        """Those of all messages that are held, in no order. For any thread."""
        # Not in its own order, which may be in the middle of a change: what lies below is copied in one go.
        return list(dict.keys(self._held))

    def look_next(self) -> int:
        """`next_offset`, for any thread."""
        position = self.position  # first: nothing that is held later lies below it
        return min(list(dict.keys(self._held)), default=position)

    def is_pull_overdue(self, now: float, limit: float) -> bool:
        """Whether nobody has pulled for longer than there is any reason for."""
        return now - self.last_pull > limit and self.excess() is None

    def _lowest(self) -> int:
        return next(iter(self._held))

    def _highest(self) -> int:
        return next(reversed(self._held))

    def _sort(self) -> None:
        """Lowest first again. Another thread sees the one table or the other."""
        self._held = OrderedDict(sorted(self._held.items(), key=_OFFSET))
