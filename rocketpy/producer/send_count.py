"""The count of a producer's sends that are under way, for which closing waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.producer.closing import PATIENCE, say_waiting

if TYPE_CHECKING:
    from rocketpy.client.lifecycle import Lifecycle

__all__ = ["SendCount"]


class SendCount:
    """The sends of one producer that have begun in its loop and not ended. For that loop.

    Args:
        lifecycle: the lifecycle of the producer.

    Attributes:
        total: all of them. Each send of a trio task changes it by itself, because a call would take longer.
        outside: those of them that another surface has begun, and counts too.
    """

    __slots__ = ("_idle", "_lifecycle", "outside", "total")

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._idle = trio.Event()
        self.total = 0
        self.outside = 0

    @property
    def inside(self) -> int:
        """Those that only the trio loop knows of, such as frames of `send_many`. Thread-safe."""
        return max(0, self.total - self.outside)

    def begin(self) -> None:
        """A send has begun."""
        self.total += 1

    def end(self) -> None:
        """A send has ended."""
        self.total -= 1
        if not self.total:
            self.none_left()

    def begin_outside(self) -> None:
        """A send of another surface has begun."""
        self.outside += 1
        self.total += 1

    def end_outside(self) -> None:
        """A send of another surface has ended."""
        self.outside -= 1
        self.end()

    def none_left(self) -> None:
        """The last send that was under way has ended: a producer that closes has waited for it."""
        if not self._lifecycle.is_open:
            self._idle.set()

    async def wait_none(self, group: str) -> None:
        """Wait, while the producer of this group closes, until no send is under way."""
        if not self.total:
            return
        with trio.move_on_after(PATIENCE) as quiet:
            await self._idle.wait()
        if quiet.cancelled_caught:
            say_waiting(group, self.total, None)
            await self._idle.wait()
