"""Calls of listeners: what one is made of, and those that have ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from rocketpy.consumer.process_queue import ProcessQueue
    from rocketpy.consumer.subscription import Listener
    from rocketpy.message import MessageExt

__all__ = ["Call", "Finished", "messages_of"]

T = TypeVar("T")

Call: TypeAlias = "tuple[Listener, ProcessQueue, MessageExt | list[MessageExt]]"
"""One call of a listener, with the process queue that holds the messages. A plain tuple, as each message needs one."""

_MOST_TIMES = 10_000


def messages_of(call: Call) -> list[MessageExt]:
    """The messages of a call."""
    what = call[2]
    return what if isinstance(what, list) else [what]


class Finished:
    """Calls that have ended. Crews append them, from any thread; the consume service takes them."""

    def __init__(self) -> None:
        self.succeeded: list[Call] = []
        """Calls that returned None, True or SUCCESS."""
        self.others: list[tuple[Call, object]] = []
        """Calls that returned something else or raised, each with the result or a `Raised`."""
        self.times: deque[tuple[Hashable, int, float, float]] = deque(maxlen=_MOST_TIMES)
        """For calls made in a row: the key of the lane, their number, and the seconds that they and the last one took.
        Only the last one may have taken more than `YIELD_AFTER`."""
        self.out: list[Hashable] = []
        """The keys of lanes that were closed and that the last worker has left."""
        self.told = False
        """Whether the service was told of calls that have ended, and has not begun to take them."""
        self.untold = False
        """Whether calls have ended of which a thread will tell the service in a moment, unless it takes them before."""

    def divert(self, ended: list[Any]) -> None:
        """In the child of a fork: have calls that end from here on appended to this list instead."""
        self.succeeded = self.others = ended

    def take_succeeded(self) -> list[Call]:
        """Take the calls that succeeded since the last time."""
        return _take(self.succeeded)

    def take_others(self) -> list[tuple[Call, object]]:
        """Take the other calls that ended since the last time."""
        return _take(self.others)

    def take_times(self) -> list[tuple[Hashable, int, float, float]]:
        """Take the durations recorded since the last time."""
        return [self.times.popleft() for _ in range(len(self.times))]

    def take_out(self) -> list[Hashable]:
        """Take the keys of lanes that were left for good since the last time."""
        return _take(self.out)


def _take(ended: list[T]) -> list[T]:
    """Take what is there now. Threads may append at any moment: each step is one operation of the list."""
    taken = ended[:]
    del ended[: len(taken)]
    return taken
