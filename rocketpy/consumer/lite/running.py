"""RunningLitePull: what there is of a lite pull consumer only while it runs, and how it ends.

Order of closing: pull no more and share out no more; those who wait in a poll are told; within `close_timeout`, offsets
are committed and the brokers' answers awaited, and the group is left; what is under it closes. What the last poll has
handed out is not committed by that: only who asked for more, or committed, has said that it is dealt with. Plays the
part of DefaultLitePullConsumerImpl.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import trio

from rocketpy.consumer.assignment import Assignment
from rocketpy.consumer.background import Background
from rocketpy.consumer.filter_check import FilterCheck
from rocketpy.consumer.lite.cache import Cache
from rocketpy.consumer.lite.driven import DrivenLitePull
from rocketpy.consumer.lite.offsets import NotedOffsets
from rocketpy.consumer.pull import PullParts
from rocketpy.consumer.rates import ConsumerRates
from rocketpy.consumer.rebalance import Rebalance, Share
from rocketpy.consumer.start_position import StartPosition
from rocketpy.errors import RocketMQError
from rocketpy.services import heard, side_by_side, ticks

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import LitePullConsumerConfig
    from rocketpy.consumer.lite.wanted import Wishes
    from rocketpy.errors import ServiceCrashedError
    from rocketpy.message import MessageQueue

__all__ = ["RunningLitePull"]


class LiteRebalance(Rebalance):
    """Shares out what is subscribed; what is assigned is taken as it is. Plays the part of RebalanceLitePullImpl."""

    def __init__(
        self, client: MQClientInstance, config: LitePullConsumerConfig, wishes: Wishes, assignment: Assignment
    ) -> None:
        super().__init__(client, config, wishes, assignment)
        self._wishes = wishes
        self.filters = FilterCheck(client, config.group, wishes.filters)

    async def _share_of(self, topic: str) -> Share | None:
        chosen = self._wishes.chosen(topic)
        if chosen is None:
            return await super()._share_of(topic)
        self.under_way[topic] = "its route from a name server"
        await self._queues(topic)
        return Share(chosen, is_settled=True, why=f"{len(chosen)} queues are assigned")


class RunningLitePull(Background):
    """What there is of a lite pull consumer only while it runs.

    Attributes:
        closing: whether it is on its way to its end.
        driven: carries out what brokers ask.
        rates: what there was of each topic lately.
    """

    def __init__(self, client: MQClientInstance, config: LitePullConsumerConfig, wishes: Wishes) -> None:
        self.offsets = NotedOffsets(client, config.group, automatic=config.auto_commit)
        super().__init__(client, config.group, self.offsets)
        self._config = config
        self.closing = False
        self.rates = ConsumerRates(self.now)
        self.cache = Cache(config, self.offsets, self.rates)
        self.parts = PullParts(client, config, wishes, self.offsets, self.cache, self.cache, rates=self.rates)
        self.assignment = Assignment(self.parts, StartPosition(client, config, self.offsets))
        self.cache.assignment = self.assignment
        self.rebalance = LiteRebalance(client, config, wishes, self.assignment)
        self._sharing = trio.CancelScope()
        self.driven = DrivenLitePull(client, config, wishes, self, nursery=lambda: self._nursery)

    async def _begin(self, nursery: trio.Nursery) -> None:
        await nursery.start(self._assign)

    async def _assign(self, *, task_status: trio.TaskStatus[None]) -> None:
        with heard(f"consumer {self._group}", self._note_crash):
            await self.assignment.run(task_status=task_status)

    def start_services(self) -> None:
        """Begin what goes on at intervals."""
        self.start_service(self._share_out)
        self.start_service(self._persist_service)

    async def _share_out(self) -> None:
        with self._sharing:
            await self.rebalance.run()

    async def _persist_service(self) -> None:
        """Commit at every interval: what is new where that is automatic, and in any case once more what is noted."""
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
        """Something else is wanted now."""
        self.assignment.subscriptions_changed()
        self.rebalance.subscriptions_changed()

    # --- committing -------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit and wait for the brokers' answers, for all queues at the same time.

        Raises:
            RocketMQError: that of the first queue, in order, that is not committed. The others are, or are tried.
        """
        failures: dict[MessageQueue, RocketMQError] = {}

        async def tell(queue: MessageQueue) -> None:
            try:
                await self.offsets.tell(queue, offsets[queue], wait=True)
            except RocketMQError as error:
                failures[queue] = error

        await side_by_side(tell, sorted(offsets))
        if failures:
            raise failures[min(failures)]

    def commit_soon(self, queues: Collection[MessageQueue]) -> None:
        """Commit what is noted for these, without waiting."""

        async def persist() -> None:
            await self.offsets.persist(queues)

        self.start_service(persist)

    # --- closing ----------------------------------------------------------------------------------------

    def stop_pulling(self) -> None:
        """Get nothing new, and let nobody wait for it."""
        self.closing = True
        self._sharing.cancel()
        self.assignment.stop()
        self.cache.wake()

    async def close(self) -> None:
        """Close in order, within `close_timeout`: see the beginning of this module."""
        try:
            with trio.move_on_after(self._config.close_timeout, shield=True):
                self.stop_pulling()
                self.cache.collect()
                await self._say_goodbye(self.assignment.queues(), trio.current_time() + self._config.close_timeout)
        finally:
            self.assignment.drop_all()
            self._hang_up.set()
