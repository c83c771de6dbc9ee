"""QueueHooks: calls `on_assigned` and `on_revoked` when queues come and go.

For each queue, `on_assigned` and `on_revoked` alternate, beginning with `on_assigned`, whatever takes the queue away:
this class keeps that rule for consumers of all kinds. It makes one call at a time, so that the functions need no locks,
and each with a timeout, so that one that hangs does not keep queues from their next owner. Closing waits for a call
that has begun, and does not interrupt it. Queues of the retry topic are left out. Plays the part of
MessageQueueListener.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from rocketpy.consumer.listeners import let_pass
from rocketpy.logs import counted, get_logger
from rocketpy.wire.names import is_retry_topic

if TYPE_CHECKING:
    from rocketpy.config.sharing import SharingConfig
    from rocketpy.consumer.user_calls import UserCalls
    from rocketpy.message import MessageQueue

__all__ = ["QueueHooks"]

logger = get_logger(__name__)


class QueueHooks:
    """Calls `on_assigned` and `on_revoked` of one consumer.

    Args:
        config: has the functions, and their timeout.
        calls: calls them.
        start: starts a task that may run until the consumer has closed.

    Attributes:
        under_way: whether one of them is being called now.
    """

    def __init__(
        self, config: SharingConfig, calls: UserCalls, start: Callable[[Callable[[], Awaitable[None]]], None]
    ) -> None:
        self.under_way = False
        self._on_assigned = config.on_assigned
        self._on_revoked = config.on_revoked
        self._timeout = config.rebalance_hook_timeout
        self._calls = calls
        self._start = start
        self._lock = trio.Lock()
        self._told: set[MessageQueue] = set()
        """Queues for which `on_assigned` was called, and `on_revoked` not yet."""
        self._going: set[MessageQueue] = set()
        """Queues for which a call of `on_revoked` is waiting for its turn."""

    async def assigned(self, queues: Collection[MessageQueue], is_ours: Callable[[MessageQueue], bool]) -> None:
        """Call `on_assigned` with queues that this consumer now has, and starts to pull when this returns.

        Args:
            queues: the queues.
            is_ours: whether this consumer still has a queue; asked right before the call, which may have had to wait.
        """
        if self._on_assigned is not None:
            await self._in_turn(partial(self._tell_assigned, queues, is_ours))
        elif self._on_revoked is not None:
            self._note_assigned(queues)

    async def revoked(self, queues: Collection[MessageQueue]) -> None:
        """Call `on_revoked` with those of the queues for which `on_assigned` was called, and wait until it returns."""
        if queues and (self._on_assigned is not None or self._on_revoked is not None):
            self._going.update(queues)
            await trio.lowlevel.checkpoint()  # queues that go at the same moment share a call
            await self._in_turn(self._tell_revoked)

    async def close(self) -> None:
        """Call `on_revoked` with all queues that are left. The caller sets the deadline."""
        async with self._lock:
            self._going.update(self._told)
            await self._tell_revoked()

    async def _in_turn(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Make a call in a task of its own, so that cancelling this does not interrupt it."""
        ended = trio.Event()

        async def in_turn() -> None:
            try:
                async with self._lock:
                    await tell()
            finally:
                ended.set()

        self._start(in_turn)
        await ended.wait()

    async def _tell_assigned(self, queues: Collection[MessageQueue], is_ours: Callable[[MessageQueue], bool]) -> None:
        told = self._note_assigned(filter(is_ours, queues))
        await self._call("on_assigned", self._on_assigned, told, "they are consumed all the same")

    def _note_assigned(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        told = {queue for queue in queues if not is_retry_topic(queue.topic)} - self._told
        self._told |= told
        return told

    async def _tell_revoked(self) -> None:
        told, self._going = self._going & self._told, set()
        self._told -= told
        await self._call("on_revoked", self._on_revoked, told, "they are given up all the same")

    async def _call(
        self, name: str, function: Callable[..., Any] | None, queues: Collection[MessageQueue], so: str
    ) -> None:
        if function is None or not queues:
            return
        task = trio.lowlevel.current_task()
        self.under_way = True
        try:
            with trio.fail_after(self._timeout):
                await self._calls.call(function, tuple(sorted(queues)))
        except trio.TooSlowError:
            logger.error(
                "%s has not returned within %g s for %s: %s", name, self._timeout, counted(len(queues), "queue"), so
            )
        except BaseException as error:
            let_pass(error, task)
            logger.error("%s failed for %s: %s", name, counted(len(queues), "queue"), so, exc_info=error)
        finally:
            self.under_way = False
