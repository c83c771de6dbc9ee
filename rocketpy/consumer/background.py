"""Background: the tasks of a consumer while it runs, what becomes of a bug in one of them, and the goodbye.

They outlive the code that uses the consumer, which may be cancelled as a whole: what is to be committed is committed
all the same. A bug in any of them ends the consumer, and is told at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

import trio

from rocketpy.logs import get_logger
from rocketpy.services import heard

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.consumer.assignment import Assignment
    from rocketpy.consumer.membership import Membership
    from rocketpy.consumer.offset_store import OffsetStore
    from rocketpy.consumer.rebalance import Rebalance
    from rocketpy.errors import ServiceCrashedError
    from rocketpy.message import MessageQueue

__all__ = ["Background"]

logger = get_logger(__name__)


class Background(ABC):
    """What consumers of every kind have only while they run.

    Attributes:
        crash: what ended it, when that was a bug in a service of it or of its client.
        ended: set when nothing of it goes on any more.
        now: the time of its loop, for any thread.
        assignment: the queues that are ours; made by each kind.
        rebalance: what shares them out; likewise.
        membership: looks whether the group is sound; likewise.
    """

    assignment: Assignment
    rebalance: Rebalance
    membership: Membership

    def __init__(self, client: MQClientInstance, group: str, offsets: OffsetStore) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._client = client
        self._group = group
        self._offsets = offsets
        self.crash: ServiceCrashedError | None = None
        self.ended = trio.Event()
        self.now = trio.lowlevel.current_clock().current_time
        self._hang_up = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._sharing = trio.CancelScope()
        self._looking = trio.CancelScope()

    async def open(self, stack: AsyncExitStack, close_timeout: float) -> None:
        """Get ready what must be there before anything is consumed, and is given back at the very end.

        Args:
            stack: gives it back.
            close_timeout: seconds that this may take.

        Raises:
            OffsetStoreError: offsets cannot be kept.
        """

        async def release() -> None:
            with trio.CancelScope(deadline=trio.current_time() + close_timeout, shield=True):
                await self._offsets.close()

        stack.push_async_callback(release)
        await self._offsets.open()

    @abstractmethod
    async def _begin(self, nursery: trio.Nursery) -> None:
        """Start what has to run before anything else does."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """The services, until `_hang_up`.

        Behind a shield, because the code that uses the consumer may be cancelled as a whole, and listeners shall finish
        all the same. The shield ends with `close`, which has a deadline; a start that is cancelled comes to the
        checkpoint before the shield.
        """
        try:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as self._nursery:
                    await self._begin(self._nursery)
                    task_status.started()
                    await trio.lowlevel.checkpoint_if_cancelled()
                    scope.shield = True
                    await self._hang_up.wait()
                    if self.crash is not None:
                        raise self.crash
                    self._nursery.cancel_scope.cancel()
        finally:
            self.ended.set()

    @abstractmethod
    async def close(self) -> None:
        """Close in order."""

    async def _assign(self, *, task_status: trio.TaskStatus[None]) -> None:
        with heard(f"consumer {self._group}", self._note_crash):
            await self.assignment.run(task_status=task_status)

    async def _share_out(self) -> None:
        with self._sharing:
            await self.rebalance.run()

    async def _look_at_group(self) -> None:
        """Whether it is sound, from the first sharing out on."""
        with self._looking:
            await self.rebalance.wait_round()
            await self.membership.run()

    @abstractmethod
    def subscriptions_changed(self) -> None:
        """Something else is wanted now."""

    @abstractmethod
    def stop_pulling(self) -> None:
        """Get nothing new."""

    def start_service(self, service: Callable[[], Awaitable[None]]) -> None:
        """Run an async function until the consumer ends; a bug in it ends the consumer."""
        if self._nursery is None:
            raise AssertionError("services start in a consumer that runs")
        self._nursery.start_soon(self._guarded, service)

    async def _guarded(self, service: Callable[[], Awaitable[None]]) -> None:
        with heard(f"consumer {self._group}", self._note_crash):
            await service()

    def fail(self, crash: ServiceCrashedError) -> None:
        """What is under it has crashed: end."""
        self._note_crash(crash)
        self._hang_up.set()

    def _note_crash(self, crash: ServiceCrashedError) -> None:
        self.crash = self.crash or crash

    def in_loop(self, function: Callable[[], object]) -> None:
        """Have a plain function called in the loop soon. For any thread, and for signal handlers.

        Not at once where this is the loop: a handler may have struck while a lock is held that the function wants.
        """
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function)

    async def _say_goodbye(self, queues: Collection[MessageQueue], deadline: float) -> None:
        """Commit, then leave: who gets our queues is to find the offsets. One that hangs costs half the time."""
        now = trio.current_time()
        left = await self._offsets.commit_all(queues, deadline=now + (deadline - now) / 2)
        if left:
            logger.warning(
                "consumer %s closes, and the offsets of %d queues are not committed (%s): messages consumed since the "
                "last commit come again",
                self._group,
                len(left),
                ", ".join(map(str, left[:3])) + (", ..." if len(left) > 3 else ""),
            )
        await self._leave(deadline)

    async def _leave(self, deadline: float) -> None:
        """Leave the group, until a time of trio's clock."""
        with trio.move_on_at(deadline):
            await self._client.unregister_consumer(self._group)
