"""Sharing out queues: what has to change, and the service that changes it.

Every member of a group computes the same shares from the same lists. `plan_rebalance` is pure; the service looks on
start, at an interval, and at once when members, routes or subscriptions change, and only applies what was planned.
Plays the part of RebalanceImpl, RebalancePushImpl and RebalanceService.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from rocketpy.client.api import group as group_api
from rocketpy.consumer.allocate import allocate, strategy
from rocketpy.errors import BrokerUnreachableError, RocketMQError
from rocketpy.logs import get_logger
from rocketpy.seams import random_source

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.config import PushConsumerConfig
    from rocketpy.consumer.assignment import Assignment
    from rocketpy.consumer.subscription import Subscriptions
    from rocketpy.message import MessageQueue

__all__ = ["Plan", "Rebalance", "plan_rebalance"]

logger = get_logger(__name__)

FIRST_RETRY = 1.0
"""Seconds until the next look while something is missing: a route, a list of members, an offset."""


class Plan(NamedTuple):
    """What has to change, in order."""

    add: tuple[MessageQueue, ...]
    drop: tuple[MessageQueue, ...]


def plan_rebalance(assigned: Collection[MessageQueue], current: Collection[MessageQueue]) -> Plan:
    """From what we should have and what we have to what to take and what to give up."""
    wanted, held = set(assigned), set(current)
    return Plan(tuple(sorted(wanted - held)), tuple(sorted(held - wanted)))


class Rebalance:
    """Shares out the queues of one consumer's topics.

    Args:
        client: how to reach brokers.
        config: of the consumer.
        subscriptions: which topics.
        assignment: what we have, and where it is changed.

    Attributes:
        balanced: whether the last look left nothing to be desired.
        rounds: how many looks there were.
        errors: by topic, why it is not shared out yet.
    """

    def __init__(
        self,
        client: MQClientInstance,
        config: PushConsumerConfig,
        subscriptions: Subscriptions,
        assignment: Assignment,
    ) -> None:
        self.balanced = False
        self.rounds = 0
        self.errors: dict[str, RocketMQError] = {}
        self._client = client
        self._config = config
        self._subscriptions = subscriptions
        self._assignment = assignment
        self._share_out = strategy(config.allocate_strategy)
        self._wanted = trio.Event()
        self._round_done = trio.Event()
        self._tell_brokers = True
        self._retry = FIRST_RETRY

    # --- when -----------------------------------------------------------------------------------------

    def soon(self) -> None:
        """Look at once. Many calls make one look."""
        self._wanted.set()

    def subscriptions_changed(self) -> None:
        """Look at once, after brokers have heard what we subscribe now: they refuse pulls of what they do not know."""
        self._tell_brokers = True
        self.soon()

    async def wait_round(self) -> None:
        """Wait for the end of the next look."""
        await self._round_done.wait()

    async def run(self) -> None:
        """The service. The first look is the business of whoever starts it."""
        try:
            while True:
                with trio.move_on_after(self._config.rebalance_interval if self.balanced else self._retry):
                    await self._wanted.wait()
                self._retry = FIRST_RETRY if self.balanced else min(2 * self._retry, self._config.rebalance_interval)
                await self.look()
        finally:
            # There is no next look: whoever waits for one goes on, and finds the consumer closed.
            self._round_done.set()

    async def look(self) -> None:
        """Share out the queues of every topic, now."""
        self._wanted = trio.Event()
        if self._tell_brokers:
            self._tell_brokers = False
            await self._find_routes()
            await self._client.heartbeats.send_all()
        topics = self._subscriptions.topics
        balanced = [await self._share(topic) for topic in topics]
        for topic in self._assignment.topics() - set(topics):
            await self._assignment.apply(topic, Plan((), self._assignment.queues(topic)))
        self.errors = {topic: error for topic, error in self.errors.items() if topic in topics}
        self.balanced = all(balanced)
        self.rounds += 1
        done, self._round_done = self._round_done, trio.Event()
        done.set()

    async def _find_routes(self) -> None:
        """Brokers can be told only when they are known. What fails here fails again, and is logged, in its turn."""
        for topic in self._subscriptions.topics:
            if self._client.routes.route(topic) is None:
                try:
                    await self._client.routes.ensure_subscribe(topic)
                except RocketMQError as error:
                    logger.debug("no route to %s yet: %s", topic, error)

    # --- what -----------------------------------------------------------------------------------------

    async def _share(self, topic: str) -> bool:
        """Take and give up queues of one topic. False when it has to be looked at again soon."""
        try:
            queues = await self._queues(topic)
            members = await self._members(topic)
        except RocketMQError as error:
            self._note_error(topic, error)
            return False
        if not members:
            # No broker counts us yet, or any more. That says nothing about the others: keep what we have.
            self._client.heartbeats.send_soon()
            return False
        mine = allocate(self._share_out, queues, members, self._client.client_id)
        plan = plan_rebalance(mine, self._assignment.queues(topic))
        if plan.add or plan.drop:
            logger.info(
                "%s: %d of %d queues are ours, as 1 of %d members; new %s, given up %s",
                topic,
                len(mine),
                len(queues),
                len(members),
                [f"{queue.broker_name}:{queue.queue_id}" for queue in plan.add],
                [f"{queue.broker_name}:{queue.queue_id}" for queue in plan.drop],
            )
        failure = await self._assignment.apply(topic, plan)
        if failure is not None:
            self._note_error(topic, failure)
            return False
        self.errors.pop(topic, None)
        if self._client.client_id not in members:
            self._client.heartbeats.send_soon()
            return False
        return True

    def _note_error(self, topic: str, error: RocketMQError) -> None:
        # Once a change of state; and the retry topic is made by the broker a moment after it first hears of us.
        quiet = topic in self.errors or topic == self._subscriptions.retry_topic
        logger.log(logging.DEBUG if quiet else logging.WARNING, "%s cannot be consumed yet: %s", topic, error)
        self.errors[topic] = error

    async def _queues(self, topic: str) -> Sequence[MessageQueue]:
        queues = self._client.routes.subscribe_queues(topic)
        return await self._client.routes.ensure_subscribe(topic) if queues is None else queues

    async def _members(self, topic: str) -> list[str]:
        """Ids of the members of our group, from any broker of the topic: all of them know all members."""
        failure: RocketMQError | None = None
        for address in self._brokers_in_any_order(topic):
            try:
                return await group_api.consumer_list(
                    self._client.pool, address, self._config.group, timeout=self._client.config.request_timeout
                )
            except RocketMQError as error:
                failure = error
        raise failure or BrokerUnreachableError(f"no broker of {topic} has an address now", topic=topic)

    def _brokers_in_any_order(self, topic: str) -> list[str]:
        route = self._client.routes.route(topic)
        names = sorted(route.brokers) if route is not None else []
        random_source().shuffle(names)
        found = [self._client.routes.broker_address(name, master=False) for name in names]
        return [address for address in found if address is not None]
