"""Failed sends that nobody looks at: counted, and logged in at most one line per second.

If a future fails and is dropped unseen, its message is lost silently. So each failure is noted here, and is logged when
its future is collected, or when the process ends.
"""

from __future__ import annotations

import os
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

__all__ = ["Failures", "UnseenFailure", "tell_everything"]

logger = get_logger(__name__)

_INTERVAL = 1.0
_BURST = 0.1

_all: WeakSet[Failures] = WeakSet()
_untold: set[Failures] = set()
"""Those with something to log, kept because their producer may be collected before that."""


class UnseenFailure:
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
        """Report the failure if nobody has seen it, now that nobody can any more."""
        if not self.seen:
            self._forgotten(self._error)

    def take_error(self) -> str | None:
        """Return the error if nobody has seen it, and mark it as seen."""
        seen, self.seen = self.seen, True
        return None if seen else self._error


class Failures:
    """The failed sends of one producer.

    Args:
        group: the group of the producer, for the log.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._home: Portal | None = None
        self._living: WeakSet[UnseenFailure] = WeakSet()
        self._forgotten: deque[str] = deque()
        self._asked = False
        self._told_at = -_INTERVAL
        _all.add(self)

    def open(self, home: Portal) -> None:
        """Log from this portal, because a finalizer may interrupt the code that writes logs."""
        self._home = home

    def note(self, error: BaseException) -> UnseenFailure:
        """Note a failed send. It is logged when the result is collected unseen."""
        failure = UnseenFailure(str(error), self._forget)
        self._living.add(failure)
        return failure

    def _forget(self, error: str) -> None:
        self._forgotten.append(error)
        _untold.add(self)
        if not self._asked and self._home is not None:
            self._asked = True
            with suppress(ClientClosedError):
                self._home.post(self._begin_to_tell, self._home)

    def _begin_to_tell(self, home: Portal) -> None:
        """In the portal."""
        try:
            home.start_soon(self._tell_soon)
        except ClientClosedError:  # the process ends: nothing is begun any more, and nobody tells later
            self.tell()

    async def _tell_soon(self) -> None:
        """In the portal: log soon, a whole burst together, and not twice within a second."""
        await trio.sleep(max(_BURST, self._told_at + _INTERVAL - monotonic()))
        self._asked = False
        self.tell()

    def tell(self) -> None:
        """Log what was collected unseen, if anything, in one line."""
        _untold.discard(self)
        count, last = 0, ""
        while self._forgotten:
            count, last = count + 1, self._forgotten.popleft()
        if count:
            self._told_at = monotonic()
            logger.warning(
                "%s of producer %s not acknowledged, and nobody looked at the results; the last error: %s",
                "1 message" if count == 1 else f"{count} messages",
                f"{self._group} was" if count == 1 else f"{self._group} were",
                last,
            )

    def _all_living(self) -> list[UnseenFailure]:
        while True:
            try:
                return list(self._living)
            except RuntimeError:  # another thread has noted one meanwhile
                continue

    def tell_all(self) -> None:
        """Log all unseen failures, as the process ends, even if somebody could still have looked at them."""
        for failure in self._all_living():
            error = failure.take_error()
            if error is not None:
                self._forgotten.append(error)
        self.tell()


def tell_everything() -> None:
    """Log all that nobody has looked at, as the process ends."""
    for failures in {*_all, *_untold}:
        failures.tell_all()


def _forget_all() -> None:
    _all.clear()  # those of the parent, which logs them itself
    _untold.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
