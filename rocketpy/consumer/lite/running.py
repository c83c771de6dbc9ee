"""RunningLitePull: the part of a lite pull consumer that exists only while it runs, and how it closes.

It closes in this order: stop pulling and rebalancing, and wake polls that wait; then, within `close_timeout`, await
`on_revoked`, commit offsets and wait for the answers, and leave the group; then close the client. Messages from the
last poll are not committed by that: only another poll or a commit says that they are done. Plays the part of
DefaultLitePullConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.background import Background
from rocketpy.consumer.lite.assigned_twice import AssignedTwice
from rocketpy.consumer.lite.cache import Cache
from rocketpy.consumer.lite.driven_lite_pull import DrivenLitePull
from rocketpy.consumer.lite.offsets import NotedOffsets
from rocketpy.consumer.offsets.offset_choice import offset_store_of
from rocketpy.consumer.offsets.start_position import StartPosition
from rocketpy.consumer.pulling.filter_check import FilterCheck
from rocketpy.consumer.pulling.pull_parts import PullParts
from rocketpy.consumer.rates import ConsumerRates
from rocketpy.consumer.rebalancing.assignment import Assignment
from rocketpy.consumer.rebalancing.membership import Membership
from rocketpy.consumer.rebalancing.queue_hooks import QueueHooks
from rocketpy.consumer.rebalancing.rebalance import Rebalance, Share
from rocketpy.consumer.rebalancing.rebalance_wakeup import RebalanceWakeup
from rocketpy.logs import counted
from rocketpy.results import MessageModel
from rocketpy.services import ticks

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import LitePullConsumerConfig
    from rocketpy.consumer.lite.selection import Selection
    from rocketpy.consumer.pulling.pull import QueuePuller
    from rocketpy.consumer.user_calls import UserCalls
    from rocketpy.errors import ServiceCrashedError
    from rocketpy.message import MessageQueue
    from rocketpy.trace.consumes import ConsumeTracer

__all__ = ["RunningLitePull"]


class LiteRebalance(Rebalance):
    """Shares out the queues of subscribed topics, or takes assigned ones. Plays the part of RebalanceLitePullImpl."""

    def __init__(
        self,
        client: MQClientInstance,
        config: LitePullConsumerConfig,
        selection: Selection,
        assignment: Assignment,
        calls: UserCalls,
        filters: FilterCheck,
        wakeup: RebalanceWakeup,
    ) -> None:
        super().__init__(client, config, selection, assignment, calls, filters, wakeup)
        self._selection = selection

    async def _share_of(self, topic: str) -> Share | None:
        chosen = self._selection.chosen(topic)
        if chosen is None:
            return await super()._share_of(topic)
        self.under_way[topic] = "its route from a name server"
        await self._queues(topic)
        return Share(chosen, is_settled=True, why=f"assigned: {counted(len(chosen), 'queue')}")


class LiteHooks(QueueHooks):
    """Hands out no more messages of a queue once `on_revoked` is called, so that a commit in it covers all of them."""

    def __init__(
        self,
        config: LitePullConsumerConfig,
        calls: UserCalls,
        start: Callable[[Callable[[], Awaitable[None]]], None],
        cache: Cache,
    ) -> None:
        super().__init__(config, calls, start)
        self._cache = cache

    async def revoked(self, queues: Collection[MessageQueue]) -> None:
        """Call `on_revoked` with queues that are not pulled any more, and are given up when this returns."""
        self._cache.leave(queues)
        await super().revoked(queues)

    async def close(self) -> None:
        """All are given up that are left."""
        self._cache.leave()
        await super().close()


class RunningLitePull(Background):
    """The part of a lite pull consumer that exists only while it runs. It puts the parts together.

    Args:
        client: how to reach brokers.
        config: the consumer's settings.
        selection: its subscribed topics or assigned queues.
        calls: calls the user's functions.
        tracer: makes records of what polls return; None if they are not traced.

    Attributes:
        closing: whether it is being closed.
        filters: asks brokers whether they accept SQL expressions.
        rates: recent figures for each topic.
        hooks: calls `on_assigned` and `on_revoked`.
        tracer: the same.
    """

    def __init__(
        self,
        client: MQClientInstance,
        config: LitePullConsumerConfig,
        selection: Selection,
        calls: UserCalls,
        tracer: ConsumeTracer | None,
    ) -> None:
        self.offsets = NotedOffsets(offset_store_of(client, config, calls), automatic=config.auto_commit)
        super().__init__(client, config.group, self.offsets)
        self._config = config
        self._selection = selection
        self.closing = False
        self.calls = calls
        self.tracer = tracer
        self.rates = ConsumerRates(self.now)
        self.filters = FilterCheck(client, config.group, selection.filters)
        pullers: dict[MessageQueue, QueuePuller] = {}
        self.cache = Cache(config, self.offsets, pullers, self.rates)
        self.hooks = LiteHooks(config, calls, self.start_service, self.cache)
        self.parts = PullParts(
            client,
            config,
            selection,
            self.offsets,
            self.cache,
            self.cache,
            rates=self.rates,
            filters=self.filters,
        )
        position = StartPosition(client, config, self.offsets)
        self.assignment = Assignment(self.parts, position, self.hooks, pullers)
        wakeup = RebalanceWakeup()
        self.rebalance = LiteRebalance(client, config, selection, self.assignment, calls, self.filters, wakeup)
        self.membership = Membership(client, config, selection)
        self.driven = DrivenLitePull(
            client,
            config,
            selection,
            offsets=self.offsets,
            cache=self.cache,
            assignment=self.assignment,
            rates=self.rates,
            start=self.start_service,
            nursery=lambda: self._nursery,
        )

    async def _begin(self, nursery: trio.Nursery) -> None:
        await nursery.start(self._assign)

    def start_services(self) -> None:
        """Start the services that run at intervals."""
        self.start_service(self._share_out)
        self.start_service(self._look_at_group)
        self.start_service(self._persist_service)
        if self._config.message_model is MessageModel.CLUSTERING:  # broadcasting members share no offsets
            self.start_service(AssignedTwice(self.client, self._config.group, self._selection).run)

    @trio.lowlevel.enable_ki_protection
    async def _persist_service(self) -> None:
        """Commit the recorded offsets at every interval; with automatic commits, record progress first."""
        config = self._config
        async for _ in ticks(
            config.auto_commit_interval if config.auto_commit else config.persist_consumer_offset_interval
        ):
            self.cache.collect()
            await self.offsets.persist(self.assignment.queues())

    def _note_crash(self, crash: ServiceCrashedError) -> None:
        super()._note_crash(crash)
        self.cache.wake()

    def subscriptions_changed(self) -> None:
        """The subscriptions or assigned queues have changed."""
        self.assignment.subscriptions_changed()
        self.rebalance.subscriptions_changed()

    # --- committing -------------------------------------------------------------------------------------

    def commit_soon(self, queues: Collection[MessageQueue]) -> None:
        """Commit the recorded offsets of these queues, without waiting."""

        async def persist() -> None:
            await self.offsets.persist(queues)

        self.start_service(persist)

    # --- closing ----------------------------------------------------------------------------------------

    def stop_pulling(self) -> None:
        """Stop pulling and rebalancing, and wake polls that wait."""
        self.closing = True
        self._sharing.cancel()
        self._looking.cancel()
        self.assignment.stop()
        self.cache.wake()

    async def close(self) -> None:
        """Close in order, within `close_timeout`; the module's docstring has the order."""
        try:
            await self._end_reports()
            with trio.move_on_after(self._config.close_timeout, shield=True):
                deadline = trio.current_time() + self._config.close_timeout
                self.stop_pulling()
                self.cache.collect()
                with trio.move_on_after(self._config.close_timeout / 2):
                    await self.hooks.close()
                self.cache.collect()
                await self._commit_and_leave(self.assignment.queues(), deadline)
        finally:
            self.assignment.drop_all()
            self._hang_up.set()
