"""RunningConsumer: the part of a push consumer that exists only while it runs, and how it closes.

It closes in this order: stop pulling and rebalancing; give listeners `await_termination` seconds to finish; then,
within `close_timeout`, await `on_revoked`, commit offsets and wait for the answers, unlock the queues of an orderly
consumer, and leave the group; then close the client. A bug in any of its services ends the consumer, and is reported at
once; messages that listeners had finished are committed even then. A message whose listener was interrupted is neither
committed nor sent back, so the group gets it again. Plays the part of DefaultMQPushConsumerImpl.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.background import Background
from rocketpy.consumer.calling.consume_concurrently import ConsumeMessageConcurrentlyService
from rocketpy.consumer.calling.consume_orderly import ConsumeMessageOrderlyService
from rocketpy.consumer.calling.send_back import SendBack
from rocketpy.consumer.calls import Finished
from rocketpy.consumer.closing import stop_listeners
from rocketpy.consumer.offsets.offset_choice import offset_store_of
from rocketpy.consumer.offsets.start_position import StartPosition
from rocketpy.consumer.pulling.filter_check import FilterCheck
from rocketpy.consumer.pulling.pull_parts import PullParts
from rocketpy.consumer.pulling.pull_policy import PushPolicy
from rocketpy.consumer.rates import ConsumerRates
from rocketpy.consumer.rebalancing.assignment import Assignment
from rocketpy.consumer.rebalancing.membership import Membership
from rocketpy.consumer.rebalancing.ordered_broadcast import OrderedBroadcast
from rocketpy.consumer.rebalancing.orderly_assignment import OrderlyAssignment
from rocketpy.consumer.rebalancing.queue_hooks import QueueHooks
from rocketpy.consumer.rebalancing.rebalance import Rebalance
from rocketpy.consumer.rebalancing.rebalance_wakeup import RebalanceWakeup
from rocketpy.consumer.requests.driven_push import DrivenPush
from rocketpy.consumer.requests.queue_resets import QueueResets
from rocketpy.consumer.status import QueueStatus, queue_status
from rocketpy.consumer.user_calls import UserCalls
from rocketpy.results import MessageModel
from rocketpy.services import heard, ticks

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.calling.consume_service import ConsumeService
    from rocketpy.consumer.calling.runners import RunnerMaker
    from rocketpy.consumer.consumed import Consumed
    from rocketpy.consumer.pauses import Pauses
    from rocketpy.consumer.subscription import Subscriptions
    from rocketpy.consumer.surface import ConsumerSurface
    from rocketpy.message import MessageQueue

__all__ = ["RunningConsumer"]


class RunningConsumer(Background):
    """The part of a push consumer that exists only while it runs.

    It puts the parts together, and passes on what a part tells another one that was made after it.

    Attributes:
        rates: recent figures for each topic.
        filters: asks brokers whether they accept SQL expressions.
    """

    def __init__(
        self,
        client: MQClientInstance,
        config: PushConsumerConfig,
        subscriptions: Subscriptions,
        pauses: Pauses,
        surface: ConsumerSurface,
        consumed: Consumed,
    ) -> None:
        finished = Finished()
        self.calls = UserCalls(surface.async_caller, finished)
        super().__init__(client, config.group, offset_store_of(client, config, self.calls))
        self._config = config
        self._hooks = QueueHooks(config, self.calls, self.start_service)
        self.send_back = SendBack(client, config)
        self.rates = ConsumerRates(self.now)
        self.filters = FilterCheck(client, config.group, subscriptions.data)
        self.consume = self._consume_service(subscriptions, surface.async_runner, consumed, finished)
        self.parts = self._pull_parts(subscriptions, pauses, consumed)
        wakeup = RebalanceWakeup()
        self.assignment = self._new_assignment(wakeup)
        self.rebalance = Rebalance(client, config, subscriptions, self.assignment, self.calls, self.filters, wakeup)
        self._resets = QueueResets(
            config, self.parts, self.consume, self.assignment, self.rebalance, start=self.start_service
        )
        self.membership = Membership(client, config, subscriptions)
        self._consuming = trio.CancelScope()
        self._patience = trio.CancelScope()
        self._consumed = trio.Event()
        self.driven = DrivenPush(
            client,
            config,
            subscriptions,
            self.parts,
            self.consume,
            self.assignment,
            self._resets,
            in_loop=self.in_loop,
            now=self.now,
            nursery=lambda: self._nursery,
        )

    def _consume_service(
        self,
        subscriptions: Subscriptions,
        async_runner: RunnerMaker,
        consumed: Consumed,
        finished: Finished,
    ) -> ConsumeService:
        orderly = partial(ConsumeMessageOrderlyService, restart=self._restart)
        kind = orderly if self._config.orderly else ConsumeMessageConcurrentlyService
        return kind(
            self._config,
            subscriptions,
            self._offsets,
            self.send_back,
            tasks=async_runner,
            rates=self.rates,
            consumed=consumed,
            finished=finished,
        )

    def _pull_parts(self, subscriptions: Subscriptions, pauses: Pauses, consumed: Consumed) -> PullParts:
        config, offsets = self._config, self._offsets
        return PullParts(
            self.client,
            config,
            subscriptions,
            offsets,
            self.consume,
            PushPolicy(config, offsets),
            pauses,
            consumed,
            rates=self.rates,
            filters=self.filters if config.post_subscription_when_pull else None,
            moved=self._moved,
        )

    def _new_assignment(self, wakeup: RebalanceWakeup) -> Assignment:
        config, parts, consume = self._config, self.parts, self.consume
        position = StartPosition(self.client, config, self._offsets)
        if not isinstance(consume, ConsumeMessageOrderlyService):
            return Assignment(parts, position, self._hooks)
        if config.message_model is MessageModel.CLUSTERING:
            return OrderlyAssignment(parts, position, consume, self._hooks, config=config, wakeup=wakeup)
        return OrderedBroadcast(parts, position, consume, self._hooks, wakeup=wakeup)

    def _restart(self, queue: MessageQueue) -> None:
        """The consume service cannot go on with a queue."""
        self.assignment.restart(queue)

    def _moved(self, queue: MessageQueue, offset: int) -> None:
        """A puller was told that a broker has reset its queue."""
        self._resets.take(queue, offset)

    async def _begin(self, nursery: trio.Nursery) -> None:
        await nursery.start(self._consume)
        await nursery.start(self._assign)

    @trio.lowlevel.enable_ki_protection
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

    @trio.lowlevel.enable_ki_protection
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

    async def commit(self, *, deadline: float, is_waited_for: bool = False) -> list[MessageQueue]:
        """Commit what is consumed by now. Returns the queues that are not committed by the deadline.

        Queues whose locks are in doubt are committed as soon as these are valid again. Nothing can be committed of
        those that are lost or given up before. A hook does not wait for them: it is about other queues.

        Args:
            deadline: on trio's clock.
            is_waited_for: whether the caller may be a hook.
        """
        self.consume.collect()
        in_hook = is_waited_for and self._hooks.under_way
        doubted = set() if in_hook else set(self._offsets.unwritten(self.assignment.doubted()))
        left = await self._offsets.commit_all(self.assignment.committable(), deadline=deadline)
        with trio.move_on_at(deadline):
            await self._commit_doubted(doubted, left, deadline)
        return [*left, *sorted(doubted)]

    async def _commit_doubted(self, doubted: set[MessageQueue], left: list[MessageQueue], deadline: float) -> None:
        """Commit queues, and take them away, as their locks become valid; those that fail are added to `left`."""
        while doubted:
            sure = [queue for queue in self.assignment.committable() if queue in doubted]
            if sure:
                left += await self._offsets.commit_all(sure, deadline=deadline)
                doubted.difference_update(sure)
            elif doubted.isdisjoint(self.assignment.doubted()):
                return
            else:
                await self.assignment.wait_change()

    async def lag(self) -> dict[MessageQueue, int]:
        """For each queue, how many messages lie between what is done and the end of the queue.

        Raises:
            RocketMQError: a broker cannot be reached, does not answer, or refuses.
        """
        ends = await self.queue_offsets.of_each(self.queue_offsets.end, self.assignment.queues())
        self.consume.collect()
        done = {queue: puller.process_queue for queue in ends if (puller := self.assignment.get(queue)) is not None}
        return {queue: max(0, ends[queue] - held.commit_offset) for queue, held in done.items()}

    def queues(self) -> dict[MessageQueue, QueueStatus]:
        """The status of each queue that the consumer has. Thread-safe."""
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
                with trio.move_on_after(config.close_timeout / 4):  # a listener may shield itself against that
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
