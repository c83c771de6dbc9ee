"""QueueHooks: calls `on_assigned` and `on_revoked` when queues come and go.

One call at a time, so that the functions need no locks, and each with a timeout, so that one that hangs does not keep
queues from their next owner. Queues of the retry topic are left out. Plays the part of MessageQueueListener.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
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

    Attributes:
        under_way: whether one of them is being called now.
    """

    def __init__(self, config: SharingConfig, calls: UserCalls) -> None:
        self.under_way = False
        self._on_assigned = config.on_assigned
        self._on_revoked = config.on_revoked
        self._timeout = config.rebalance_hook_timeout
        self._calls = calls
        self._turn = trio.Lock()

    async def assigned(self, queues: Collection[MessageQueue]) -> None:
        """Call `on_assigned` with queues that this consumer now has, and starts to pull when this returns."""
        await self._tell("on_assigned", self._on_assigned, queues, "they are consumed all the same")

    async def revoked(self, queues: Collection[MessageQueue]) -> None:
        """Call `on_revoked` with queues that are not pulled any more, and are given up when this returns."""
        await self._tell("on_revoked", self._on_revoked, queues, "they are given up all the same")

    async def _tell(
        self, name: str, function: Callable[..., Any] | None, queues: Collection[MessageQueue], so: str
    ) -> None:
        told = tuple(sorted(queue for queue in queues if not is_retry_topic(queue.topic)))
        if function is None or not told:
            return
        task = trio.lowlevel.current_task()
        async with self._turn:
            self.under_way = True
            try:
                with trio.fail_after(self._timeout):
                    await self._calls.call(function, told)
            except trio.TooSlowError:
                logger.error(
                    "%s has not returned within %g s for %s: %s", name, self._timeout, counted(len(told), "queue"), so
                )
            except BaseException as error:
                let_pass(error, task)
                logger.error("%s failed for %s: %s", name, counted(len(told), "queue"), so, exc_info=error)
            finally:
                self.under_way = False
