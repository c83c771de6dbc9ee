"""RunningConsumer: what there is of a push consumer only while it runs, and how it ends.

Order of closing: pull no more and share out no more; listeners get `await_termination` to finish; within
`close_timeout`, offsets are committed and the brokers' answers awaited, and the group is left; what is under it closes.
A bug in any of its services ends the consumer, and is told at once. A message that a listener had
finished is committed then, one that was cut off is neither acknowledged nor given back: somebody gets it again. Plays
the part of DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.assignment import Assignment
from rocketpy.consumer.consume_concurrently import ConsumeMessageConcurrentlyService
from rocketpy.consumer.offset_store import RemoteBrokerOffsetStore
from rocketpy.consumer.pull import PullParts
from rocketpy.consumer.rebalance import Rebalance
from rocketpy.consumer.send_back import SendBack
from rocketpy.consumer.start_position import StartPosition
from rocketpy.logs import get_logger
from rocketpy.services import heard, ticks

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.runners import RunnerMaker
    from rocketpy.consumer.subscription import Subscriptions
    from rocketpy.errors import ServiceCrashedError

__all__ = ["RunningConsumer"]

logger = get_logger(__name__)


class RunningConsumer:
    """What there is of a consumer only while it runs.

    Attributes:
        crash: what ended it, when that was a bug in a service of it or of its client.
        ended: set when nothing of it goes on any more.
        now: the time of its loop, for any thread.
    """

    def __init__(
        self,
        client: MQClientInstance,
        config: PushConsumerConfig,
        subscriptions: Subscriptions,
        runners: tuple[RunnerMaker, RunnerMaker],
    ) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._client = client
        self._config = config
        self._offsets = RemoteBrokerOffsetStore(client, config.group)
        self.send_back = SendBack(client, config)
        self.consume = ConsumeMessageConcurrentlyService(
            config, subscriptions, self._offsets, self.send_back, plain=runners[0], tasks=runners[1]
        )
        self.parts = PullParts(client, config, subscriptions, self._offsets, self.consume)
        self.assignment = Assignment(self.parts, StartPosition(client, config, self._offsets))
        self.rebalance = Rebalance(client, config, subscriptions, self.assignment)
        self.crash: ServiceCrashedError | None = None
        self.ended = trio.Event()
        self.now = trio.lowlevel.current_clock().current_time
        self._sharing = trio.CancelScope()
        self._consuming = trio.CancelScope()
        self._consumed = trio.Event()
        self._hang_up = trio.Event()
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """The services, until `_hang_up`.

        Behind a shield, because whoever uses the consumer may be cancelled as a whole, and listeners shall finish all
        the same. The shield ends with `close`, which has a deadline; a start that is cancelled comes to the checkpoint
        before the shield.
        """
        try:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as self._nursery:
                    await self._nursery.start(self._consume)
                    await self._nursery.start(self._assign)
                    task_status.started()
                    await trio.lowlevel.checkpoint_if_cancelled()
                    scope.shield = True
                    await self._hang_up.wait()
                    if self.crash is not None:
                        raise self.crash
                    self._nursery.cancel_scope.cancel()
        finally:
            self.ended.set()

    def fail(self, crash: ServiceCrashedError) -> None:
        """What is under it has crashed: end."""
        self._note_crash(crash)
        self._hang_up.set()

    def _note_crash(self, crash: ServiceCrashedError) -> None:
        self.crash = self.crash or crash

    async def _guarded(self, service: Callable[[], Awaitable[None]]) -> None:
        with heard(f"consumer {self._config.group}", self._note_crash):
            await service()

    def in_loop(self, function: Callable[[], object]) -> None:
        """Have a plain function called in the loop soon. For any thread, and for signal handlers.

        Not at once where this is the loop: a handler may have struck while a lock is held that the function wants.
        """
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function)

    async def _consume(self, *, task_status: trio.TaskStatus[None]) -> None:
        try:
            with self._consuming, heard(f"consumer {self._config.group}", self._note_crash):
                await self.consume.run(task_status=task_status)
        finally:
            self._consumed.set()

    async def _assign(self, *, task_status: trio.TaskStatus[None]) -> None:
        with heard(f"consumer {self._config.group}", self._note_crash):
            await self.assignment.run(task_status=task_status)

    def start_services(self) -> None:
        """Begin what goes on at intervals."""
        if self._nursery is None:
            raise AssertionError("services start in a consumer that runs")
        self._nursery.start_soon(self._guarded, self._share_out)
        self._nursery.start_soon(self._guarded, self._persist_service)

    async def _share_out(self) -> None:
        with self._sharing:
            await self.rebalance.run()

    async def _persist_service(self) -> None:
        """Commit offsets at every interval."""
        async for _ in ticks(self._config.persist_consumer_offset_interval):
            self.consume.collect()
            await self._offsets.persist(self.assignment.queues())

    def subscriptions_changed(self) -> None:
        """Topics or listeners came or went."""
        self.consume.subscriptions_changed()
        self.rebalance.subscriptions_changed()

    # --- closing --------------------------------------------------------------------------------------

    def stop_pulling(self) -> None:
        """Get nothing new."""
        self._sharing.cancel()
        self.assignment.stop()

    async def close(self) -> None:
        """Close in order, within `await_termination` and `close_timeout`: see the beginning of this module."""
        config = self._config
        try:
            with trio.move_on_after(config.await_termination + config.close_timeout, shield=True):
                self.stop_pulling()
                with trio.move_on_after(config.await_termination) as waiting:
                    await self.consume.stop()
                if waiting.cancelled_caught:
                    logger.warning(
                        "listeners of %s are still at work after %g s: what they have not finished comes again",
                        config.group,
                        config.await_termination,
                    )
                deadline = trio.current_time() + config.close_timeout
                self._consuming.cancel()
                await self._consumed.wait()
                self.consume.collect()
                await self._say_goodbye(deadline)
        finally:
            self.assignment.drop_all()
            self._hang_up.set()

    async def _say_goodbye(self, deadline: float) -> None:
        """Commit, then leave: who gets our queues is to find the offsets. One that hangs costs half the time."""
        now = trio.current_time()
        left = await self._offsets.commit_all(self.assignment.queues(), deadline=now + (deadline - now) / 2)
        if left:
            logger.warning(
                "consumer %s closes, and the offsets of %d queues are not committed (%s): what was consumed of them "
                "since the last commit comes again",
                self._config.group,
                len(left),
                ", ".join(map(str, left[:3])) + (", ..." if len(left) > 3 else ""),
            )
        with trio.move_on_at(deadline):
            await self._client.unregister_consumer(self._config.group)
