"""Failed sends that nobody looks at: counted, and told in one line a second at most.

A future that fails and is thrown away unseen is a message that is lost without a word. What is noted here says so when
it is collected; what is still there when the process ends is told then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakSet

import trio

from rocketpy.errors import ClientClosedError
from rocketpy.logs import get_logger

if TYPE_CHECKING:
    from rocketpy.portal import Portal

__all__ = ["Failure", "Failures"]

logger = get_logger(__name__)

_INTERVAL = 1.0


class Failure:
    """One failed send.

    Attributes:
        seen: whether somebody has looked at it.
    """

    __slots__ = ("__weakref__", "_error", "_forgotten", "seen")

    def __init__(self, error: str, forgotten: Callable[[str], object]) -> None:
        self._error = error
        self._forgotten = forgotten
        self.seen = False

    def __del__(self) -> None:
        """It is collected, and with it the last chance to look at it."""
        if not self.seen:
            self._forgotten(self._error)

    def take_error(self) -> str | None:
        """The error of one that nobody has seen, once."""
        seen, self.seen = self.seen, True
        return None if seen else self._error


class Failures:
    """The failed sends of one producer.

    Args:
        group: of the producer, for the log.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._home: Portal | None = None
        self._living: WeakSet[Failure] = WeakSet()
        self._forgotten: deque[str] = deque()
        self._asked = False
        self._told_at = -_INTERVAL

    def open(self, home: Portal) -> None:
        """Say where lines are written from: a finalizer may strike within the very code that writes logs."""
        self._home = home

    def note(self, error: BaseException) -> Failure:
        """Take note of a failed send. It is told when the result is collected unseen."""
        failure = Failure(str(error), self._forget)
        self._living.add(failure)
        return failure

    def _forget(self, error: str) -> None:
        self._forgotten.append(error)
        if not self._asked and self._home is not None:
            self._asked = True
            with suppress(ClientClosedError):
                self._home.post(self._home.start_soon, self._tell_soon)

    async def _tell_soon(self) -> None:
        """In the portal: tell at once, but not twice within a second."""
        await trio.sleep(max(0.0, self._told_at + _INTERVAL - monotonic()))
        self._asked = False
        self.tell()

    def tell(self) -> None:
        """Write the line, if there is anything to tell."""
        count, last = 0, ""
        while self._forgotten:
            count, last = count + 1, self._forgotten.popleft()
        if count:
            self._told_at = monotonic()
            logger.warning(
                "%d messages of producer %s were not acknowledged, and nobody looked at their futures; the last: %s",
                count,
                self._group,
                last,
            )

    def tell_all(self) -> None:
        """The process ends: tell of those, too, that somebody could still have looked at."""
        for failure in list(self._living):
            error = failure.take_error()
            if error is not None:
                self._forgotten.append(error)
        self.tell()
