"""Background: the tasks of a consumer while it runs, what happens if one of them crashes, and how it leaves the group.

The tasks outlive the code that uses the consumer, which may be cancelled as a whole: offsets are committed all the
same. A bug in any of them ends the consumer, and is reported at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

import trio

from rocketpy.client.reports import Reports
from rocketpy.consumer.offsets.queue_offsets import QueueOffsets
from rocketpy.logs import counted, get_logger
from rocketpy.services import heard, tell_loop

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.roles import ConsumerRole, Driven
    from rocketpy.config.observed import ObservedConfig
    from rocketpy.consumer.offsets.offset_store import OffsetStore
    from rocketpy.consumer.rebalancing.assignment import Assignment
    from rocketpy.consumer.rebalancing.membership import Membership
    from rocketpy.consumer.rebalancing.rebalance import Rebalance
    from rocketpy.consumer.user_calls import UserCalls
    from rocketpy.errors import ServiceCrashedError
    from rocketpy.message import MessageQueue

__all__ = ["Background"]

logger = get_logger(__name__)


class Background(ABC):
    """What a consumer of any kind has only while it runs.

    Attributes:
        crash: the bug in one of its own or its client's services that ended it, if one did.
        ended: set when no task of it is left.
        now: the time of its loop, for any thread.
        client: how it reaches brokers.
        queue_offsets: asks brokers for offsets of its group.
        assignment: the queues that it has; made by each kind of consumer.
        rebalance: shares the queues out; likewise.
        membership: checks whether the group is sound; likewise.
        calls: calls the user's functions other than listeners; likewise.
        driven: carries out requests of brokers; likewise.
    """

    calls: UserCalls
    assignment: Assignment
    rebalance: Rebalance
    membership: Membership
    driven: Driven

    def __init__(self, client: MQClientInstance, group: str, offsets: OffsetStore) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self.client = client
        self._group = group
        self.queue_offsets = QueueOffsets(client, group)
        self._offsets = offsets
        self.crash: ServiceCrashedError | None = None
        self.ended = trio.Event()
        self.now = trio.lowlevel.current_clock().current_time
        self._hang_up = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._reports: Reports | None = None
        self._is_member = False
        self._sharing = trio.CancelScope()
        self._looking = trio.CancelScope()

    async def open(self, stack: AsyncExitStack, close_timeout: float) -> None:
        """Open what must be there before anything is consumed: the offset store, which is closed at the very end.

        Args:
            stack: closes it.
            close_timeout: seconds that closing may take.

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
        """Start the services that everything else needs."""

    @trio.lowlevel.enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the services until `_hang_up`.

        They run behind a shield, because listeners should finish even if the code that uses the consumer is cancelled
        as a whole. The shield ends with `close`, which has a deadline. A start that is cancelled stops at the
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
        """Close everything in order."""

    @trio.lowlevel.enable_ki_protection
    async def _assign(self, *, task_status: trio.TaskStatus[None]) -> None:
        with heard(f"consumer {self._group}", self._note_crash):
            await self.assignment.run(task_status=task_status)

    async def _share_out(self) -> None:
        with self._sharing:
            await self.rebalance.run()

    async def _look_at_group(self) -> None:
        """Check whether the group is sound, from the first rebalance on."""
        with self._looking:
            await self.rebalance.wait_round()
            await self.membership.run()

    @abstractmethod
    def subscriptions_changed(self) -> None:
        """The subscriptions have changed."""

    @abstractmethod
    def stop_pulling(self) -> None:
        """Stop pulling and rebalancing."""

    def start_reports(self, config: ObservedConfig, make: Callable[[], object], calls: UserCalls) -> None:
        """Tell the user's function the statistics at every interval, if there is one."""
        if config.on_statistics is not None:
            self._reports = Reports(f"consumer {self._group}", config, make, calls.call)
            self.start_service(self._reports.run)

    async def _end_reports(self) -> None:
        """Let a call that is under way end, and begin no other one."""
        if self._reports is not None:
            await self._reports.close()

    def start_service(self, service: Callable[[], Awaitable[None]]) -> None:
        """Run an async function until the consumer ends. An exception from it ends the consumer."""
        if self._nursery is None:
            raise AssertionError("services start in a consumer that runs")
        self._nursery.start_soon(self._guarded, service)

    @trio.lowlevel.enable_ki_protection
    async def _guarded(self, service: Callable[[], Awaitable[None]]) -> None:
        with heard(f"consumer {self._group}", self._note_crash):
            await service()

    def fail(self, crash: ServiceCrashedError) -> None:
        """The client below has crashed: end."""
        self._note_crash(crash)
        self._hang_up.set()

    def _note_crash(self, crash: ServiceCrashedError) -> None:
        self.crash = self.crash or crash

    def in_loop(self, function: Callable[[], object]) -> None:
        """Have a plain function called in the loop soon. For any thread, and for signal handlers.

        Even in the loop's own thread it is not called at once: a signal handler may have interrupted code that holds
        a lock which the function needs.
        """
        with suppress(trio.RunFinishedError):
            tell_loop(self._token, function)

    @trio.lowlevel.enable_ki_protection  # or Ctrl-C may leave a member that closing does not take away
    def join(self, role: ConsumerRole) -> None:
        """Join the group, which closing leaves then.

        Raises:
            ConfigError: the client has a consumer of that group.
            ClientClosedError: the client is not open.
        """
        self.client.register_consumer(self._group, role)
        self._is_member = True

    async def _commit_and_leave(self, queues: Collection[MessageQueue], deadline: float) -> None:
        """Commit, then leave the group, so that the next owners of the queues find the offsets.

        A broker that hangs takes up half of the time at most.
        """
        now = trio.current_time()
        left = self._offsets.unwritten(self.assignment.doubted())
        left += await self._offsets.commit_all(queues, deadline=now + (deadline - now) / 2)
        if left:
            logger.warning(
                "consumer %s closes, and the offsets of %s are not committed (%s): messages consumed since the "
                "last commit come again",
                self._group,
                counted(len(left), "queue"),
                ", ".join(map(str, left[:3])) + (", ..." if len(left) > 3 else ""),
            )
        await self._leave(deadline)

    async def _leave(self, deadline: float) -> None:
        """Leave the group, by a deadline on trio's clock.

        What did not join must not: the client may have another consumer of the group, and would leave for that one.
        """
        if not self._is_member:
            return
        with trio.move_on_at(deadline):
            await self.client.unregister_consumer(self._group)
