"""ProcessQueue: the messages of one queue that were pulled and are not consumed yet. Pure: it never waits.

It knows how far a group may commit (nothing that is held lies below) and whether pulling has to pause. One is made when
a queue is assigned, and dropped with the assignment: what a listener says about a dropped one counts no more. Plays the
part of ProcessQueue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from sortedcontainers import SortedDict

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
        self._held: SortedDict[int, MessageExt] = SortedDict()
        self._taken: SortedDict[int, MessageExt] = SortedDict()
        self._committed = position
        self._on_room: Callable[[], None] | None = None

    def __len__(self) -> int:
        """Messages held, those in the hands of a listener included."""
        return len(self._held) + len(self._taken)

    def __contains__(self, offset: int) -> bool:
        """Whether the message at an offset is held."""
        return offset in self._held or offset in self._taken

    def __repr__(self) -> str:
        """Short form for logs."""
        state = "dropped, " if self.dropped else ""
        return f"<ProcessQueue {self.queue} {state}{len(self)} held, next {self.position}>"

    # --- pulling --------------------------------------------------------------------------------------

    def put(self, messages: Iterable[MessageExt]) -> None:
        """Hold messages that were pulled. One that is held already is not held twice."""
        held = self._held
        for message in messages:
            offset = message.queue_offset
            if offset not in held and offset not in self._taken:
                held[offset] = message
                self.size += message.store_size
            if offset >= self.position:
                self.position = offset + 1

    def advance(self, position: int) -> None:
        """Pull from there next, as the broker says. Never backwards: an answer may be old, or wrong."""
        self.position = max(self.position, position)

    def excess(self) -> str | None:
        """Why pulling has to pause; None when there is room."""
        messages, size, span = self.limits
        if len(self) > messages:
            return f"{len(self)} messages held, over {messages}"
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

    # --- consuming, in any order ------------------------------------------------------------------------

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

    # --- consuming, in order --------------------------------------------------------------------------

    def take(self, count: int) -> list[MessageExt]:
        """The next messages in order, for a listener that must have them before any later one."""
        taken: list[MessageExt] = []
        while self._held and len(taken) < count:
            offset, message = self._held.popitem(0)
            self._taken[offset] = message
            taken.append(message)
        return taken

    def commit(self) -> int:
        """What was taken is dealt with. Returns the offset up to which the group may commit."""
        self.size -= sum(message.store_size for message in self._taken.values())
        self._taken.clear()
        self._tell_room()
        return self.commit_offset

    def rollback(self, messages: Iterable[MessageExt] | None = None) -> None:
        """Put back what was taken, all of it or some: it is taken again next."""
        back = list(self._taken.values()) if messages is None else list(messages)
        for message in back:
            if self._taken.pop(message.queue_offset, None) is not None:
                self._held[message.queue_offset] = message

    # --- handing out: what is handed out is not held any more ---------------------------------------------

    def hand_out(self, count: int) -> list[MessageExt]:
        """The next messages in order, for somebody who says later, or never, that they are dealt with."""
        held = self._held
        if count >= len(held):
            messages = list(held.values())
            held.clear()
        else:
            messages = [held.popitem(0)[1] for _ in range(count)]
        self.size -= sum(message.store_size for message in messages)
        if self._on_room is not None:
            self._tell_room()
        return messages

    def give_back(self, messages: Iterable[MessageExt]) -> None:
        """Hold again what was handed out and reached nobody: it is handed out next."""
        for message in messages:
            if self._held.setdefault(message.queue_offset, message) is message:
                self.size += message.store_size

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
        # Sorted dicts may be in the middle of a change. The plain ones below them are not, and are copied in one go.
        tables: list[dict[int, MessageExt]] = [self._held, self._taken]  # type: ignore[list-item]  # they are dicts
        return [offset for table in tables for offset in list(dict.keys(table))]

    def look_next(self) -> int:
        """`next_offset`, for any thread."""
        position = self.position  # first: nothing that is held later lies below it
        held: dict[int, MessageExt] = self._held  # type: ignore[assignment]  # it is a dict
        return min(list(dict.keys(held)), default=position)

    def is_pull_overdue(self, now: float, limit: float) -> bool:
        """Whether nobody has pulled for longer than there is any reason for."""
        return now - self.last_pull > limit and self.excess() is None

    def _lowest(self) -> int:
        firsts = [table.peekitem(0)[0] for table in (self._held, self._taken) if table]
        return min(firsts)

    def _highest(self) -> int:
        lasts = [table.peekitem(-1)[0] for table in (self._held, self._taken) if table]
        return max(lasts)
