"""Inbox: what our consumers got, from whatever thread or task, to be waited for and looked at."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import trio

from tests.interop.failure import InteropError

if TYPE_CHECKING:
    from rocketpy import MessageExt


class Inbox:
    """A listener that keeps what it gets."""

    def __init__(self) -> None:
        self._messages: list[MessageExt] = []
        self._changed = threading.Condition()

    @property
    def messages(self) -> list[MessageExt]:
        """What has come so far."""
        with self._changed:
            return list(self._messages)

    def take(self, message: MessageExt) -> None:
        """The listener."""
        with self._changed:
            self._messages.append(message)
            self._changed.notify_all()

    def wait_here(self, count: int, timeout: float = 30.0) -> list[MessageExt]:
        """Block until there are at least so many."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._messages) >= count, timeout):
                raise InteropError(f"{len(self._messages)} of {count} messages came within {timeout:g} s")
        return self.messages

    async def wait(self, count: int, timeout: float = 30.0) -> list[MessageExt]:
        """The same for a task; the loop goes on meanwhile."""
        return await trio.to_thread.run_sync(self.wait_here, count, timeout)
