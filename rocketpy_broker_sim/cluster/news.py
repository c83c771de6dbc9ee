"""News: wakes the calls that wait until something has happened in a cluster."""

from __future__ import annotations

import trio

__all__ = ["News"]


class News:
    """Something has happened: a message was stored, a broker was started, or the cluster has ended."""

    def __init__(self) -> None:
        self._next: trio.Event | None = None

    async def wait(self) -> None:
        """Return when something happens."""
        if self._next is None:
            self._next = trio.Event()
        await self._next.wait()

    def note(self, _: object = None) -> None:
        """Wake all that wait."""
        waited_for, self._next = self._next, None
        if waited_for is not None:
            waited_for.set()
