"""RunningConsumer: the part of a push consumer that exists only while it runs, and how it closes.

It closes in this order: stop pulling and rebalancing; give listeners `await_termination` seconds to finish; then,
within `close_timeout`, await `on_revoked`, commit offsets and wait for the answers, unlock the queues of an orderly
consumer, and leave the group; then close the client. A bug in any of its services ends the consumer, and is reported at
once; messages that listeners had finished are committed even then. A message whose listener was interrupted is neither
committed nor sent back, so the group gets it again. Plays the part of DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.assignment import Assignment
from rocketpy.consumer.background import Background
from rocketpy.consumer.closing import stop_listeners
from rocketpy.consumer.consume_concurrently import ConsumeMessageConcurrentlyService
from rocketpy.consumer.consume_orderly import ConsumeMessageOrderlyService
from rocketpy.consumer.driven import DrivenConsumer
from rocketpy.consumer.membership import Membership
from rocketpy.consumer.offset_choice import offset_store_of
from rocketpy.consumer.orderly_assignment import OrderlyAssignment
from rocketpy.consumer.pull_parts import PullParts
from rocketpy.consumer.pull_policy import PushPolicy
from rocketpy.consumer.queue_hooks import QueueHooks
from rocketpy.consumer.queue_offsets import QueueOffsets
from rocketpy.consumer.queue_resets import QueueResets
from rocketpy.consumer.rates import ConsumerRates
from rocketpy.consumer.rebalance import Rebalance
from rocketpy.consumer.send_back import SendBack
from rocketpy.consumer.start_position import StartPosition
from rocketpy.consumer.status import QueueStatus, queue_status
from rocketpy.consumer.user_calls import AsyncCaller, UserCalls
from rocketpy.results import MessageModel
from rocketpy.services import heard, ticks

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.consume_service import ConsumeService
    from rocketpy.consumer.consumed import Consumed
    from rocketpy.consumer.pauses import Pauses
    from rocketpy.consumer.runners import RunnerMaker
    from rocketpy.consumer.subscription import Subscriptions
    from rocketpy.message import MessageQueue

__all__ = ["RunningConsumer"]


class RunningConsumer(Background):
    """The part of a push consumer that exists only while it runs.

    Attributes:
        rates: recent figures for each topic.
        driven: carries out requests of brokers.
    """

    def __init__(
        self,
        client: MQClientInstance,
        config: PushConsumerConfig,
        subscriptions: Subscriptions,
        pauses: Pauses,
        runners: tuple[RunnerMaker, RunnerMaker],
        async_caller: AsyncCaller,
        consumed: Consumed,
    ) -> None:
        self._remembered = consumed
        self.calls = UserCalls(async_caller)
        super().__init__(client, config.group, offset_store_of(client, config, self.calls))
        self._config = config
        self._hooks = QueueHooks(config, self.calls, self.start_service)
        self.send_back = SendBack(client, config)
        self.rates = ConsumerRates(self.now)
        self.consume, self.parts, self.assignment = self._parts_of(subscriptions, pauses, runners)
        self.calls.owner = self.consume.owner
        self.rebalance = Rebalance(client, config, subscriptions, self.assignment, self.calls)
        if config.post_subscription_when_pull:
            self.parts.filters = self.rebalance.filters
        if isinstance(self.assignment, OrderlyAssignment):
            self.assignment.on_free = self.rebalance.soon
        self.membership = Membership(client, config, subscriptions)
        self._consuming = trio.CancelScope()
        self._patience = trio.CancelScope()
        self._consumed = trio.Event()
        self.driven = DrivenConsumer(
            client,
            config,
            subscriptions,
            self.parts,
            self.consume,
            self.assignment,
            QueueResets(config, self.parts, self.consume, self.assignment, self.rebalance, start=self.start_service),
            in_loop=self.in_loop,
            now=self.now,
            nursery=lambda: self._nursery,
        )

    def _parts_of(
        self, subscriptions: Subscriptions, pauses: Pauses, runners: tuple[RunnerMaker, RunnerMaker]
    ) -> tuple[ConsumeService, PullParts, Assignment]:
        """Make the consume service, the parts of pullers, and the assignment, for an orderly or concurrent consumer."""
        config, offsets = self._config, self._offsets
        position = StartPosition(self._client, config, offsets)
        kind = ConsumeMessageOrderlyService if config.orderly else ConsumeMessageConcurrentlyService
        consume = kind(
            config,
            subscriptions,
            offsets,
            self.send_back,
            plain=runners[0],
            tasks=runners[1],
            rates=self.rates,
            consumed=self._remembered,
        )
        policy = PushPolicy(config, offsets)
        parts = PullParts(self._client, config, subscriptions, offsets, consume, policy, pauses, rates=self.rates)
        parts.consumed = self._remembered
        if isinstance(consume, ConsumeMessageOrderlyService) and config.message_model is MessageModel.CLUSTERING:
            return consume, parts, OrderlyAssignment(parts, position, consume, self._hooks, config=config)
        return consume, parts, Assignment(parts, position, self._hooks)  # broadcasting needs no locks, even in order

    async def _begin(self, nursery: trio.Nursery) -> None:
        await nursery.start(self._consume)
        await nursery.start(self._assign)

    async def _consume(self, *, task_status: trio.TaskStatus[None]) -> None:
        try:
            with self._consuming, heard(f"consumer {self._config.group}", self._note_crash):
                await self.consume.run(task_status=task_status)
        finally:
            self._consumed.set()

    def start_services(self) -> None:
        """Start the services that run at intervals."""
        self.start_service(self._share_out)
        self.start_service(self._look_at_group)
        self.start_service(self._persist_service)

    async def _persist_service(self) -> None:
        """Commit offsets at every interval."""
        async for _ in ticks(self._config.persist_consumer_offset_interval):
            self.consume.collect()
            await self._offsets.persist(self.assignment.committable())

    def subscriptions_changed(self) -> None:
        """Subscriptions or listeners have changed."""
        self.consume.subscriptions_changed()
        self.assignment.subscriptions_changed()
        self.rebalance.subscriptions_changed()

    async def commit(self, queues: Collection[MessageQueue], *, deadline: float) -> list[MessageQueue]:
        """Commit what is consumed by now. Returns the queues that are not committed by the deadline."""
        self.consume.collect()
        return await self._offsets.commit_all(queues, deadline=deadline)

    async def lag(self) -> dict[MessageQueue, int]:
        """For each queue, how many messages lie between what is done and the end of the queue.

        Raises:
            RocketMQError: a broker cannot be reached, does not answer, or refuses.
        """
        offsets = QueueOffsets(self._client, self._config.group)
        ends = await offsets.of_each(offsets.end, self.assignment.queues())
        self.consume.collect()
        done = {queue: puller.process_queue for queue in ends if (puller := self.assignment.get(queue)) is not None}
        return {queue: max(0, ends[queue] - held.commit_offset) for queue, held in done.items()}

    def queues(self) -> dict[MessageQueue, QueueStatus]:
        """The status of each queue that the consumer has. For any thread."""
        now = self.now()
        since: dict[MessageQueue, float] = {}
        for call, began in self.consume.running():
            queue = call[1].queue
            since[queue] = min(began, since.get(queue, began))
        return {each.queue: queue_status(each, now, since.get(each.queue)) for each in self.assignment}

    # --- closing --------------------------------------------------------------------------------------

    def stop_pulling(self) -> None:
        """Stop pulling, rebalancing and checking the group."""
        self._sharing.cancel()
        self._looking.cancel()
        self.assignment.stop()

    def hurry(self) -> None:
        """While it closes: wait no longer for listeners."""
        self._patience.cancel()

    async def close(self) -> None:
        """Close within `await_termination` and `close_timeout`, in the order that the module's docstring gives."""
        config = self._config
        try:
            await self._end_reports()
            with trio.move_on_after(config.await_termination + config.close_timeout, shield=True):
                self.stop_pulling()
                with self._patience:
                    await stop_listeners(self.consume, config.group, config.await_termination)
                deadline = trio.current_time() + config.close_timeout
                self._consuming.cancel()
                await self._consumed.wait()
                self.consume.collect()
                with trio.move_on_after(config.close_timeout / 2):
                    await self._hooks.close()
                self.consume.collect()
                await self._commit_and_leave(self.assignment.committable(), deadline)
        finally:
            self.assignment.drop_all()
            self._hang_up.set()

    async def _leave(self, deadline: float) -> None:
        now = trio.current_time()
        await self.assignment.release(now + (deadline - now) / 2)
        await super()._leave(deadline)
