"""Rebalancing: sharing out the queues of each topic among the members of the group.

Every member computes the same shares from the same lists of queues and members. The service rebalances at the start, at
an interval, and at once when members, routes or subscriptions change; `plan_rebalance`, which is pure, tells what has
to change. Topics are processed concurrently, and brokers that answer are asked first, so a broker that hangs delays
only its own queues. Plays the part of RebalanceImpl, RebalancePushImpl and RebalanceService.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import trio

from rocketpy.client.api import group as group_api
from rocketpy.consumer.rebalancing.allocate import allocate, strategy
from rocketpy.consumer.rebalancing.rebalance_plan import RebalancePlan, plan_rebalance
from rocketpy.errors import BrokerUnreachableError, ConfigError, QueueLockedError, RocketMQError, TopicNotFoundError
from rocketpy.logs import Seldom, counted, get_logger
from rocketpy.results import MessageModel
from rocketpy.services import side_by_side
from rocketpy.wire.java_hash import string_hash
from rocketpy.wire.names import is_retry_topic, retry_topic

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.consumer.pulling.filter_check import FilterCheck
    from rocketpy.consumer.rebalancing.assignment import Assignment
    from rocketpy.consumer.rebalancing.rebalance_wakeup import RebalanceWakeup
    from rocketpy.consumer.rebalancing.strategies import AllocateStrategy
    from rocketpy.consumer.user_calls import UserCalls
    from rocketpy.message import MessageQueue
    from rocketpy.wire.bodies.subscription import SubscriptionData

__all__ = ["Rebalance", "Share", "Subscribed"]

logger = get_logger(__name__)

HEARTBEAT_PATIENCE = 1.0
"""Seconds for which a rebalance waits for brokers to answer heartbeats with new subscriptions; some may hang."""
_MOST_ANNOUNCED = 3
"""Changes of subscriptions that one rebalance tells of, one after the other."""
FIRST_RETRY = 1.0
"""Seconds until the next rebalance while something is missing: a route, a list of members, an offset."""
AT_ONCE, A_SECOND = 32.0, 10.0
"""How many rebalances may follow each other immediately, and how many more each second after that: a broker that keeps
reporting changes must not keep all brokers busy."""

_MOST_SAID = 5


class RebalanceSettings(Protocol):
    """The settings that rebalancing reads."""

    @property
    def group(self) -> str:
        """The consumer group."""
        ...

    @property
    def message_model(self) -> MessageModel:
        """Whether queues are shared out, or every member has all."""
        ...

    @property
    def allocate_strategy(self) -> str | AllocateStrategy:
        """The allocation strategy, or its name."""
        ...

    @property
    def rebalance_interval(self) -> float:
        """Seconds between two rebalances."""
        ...


class Subscribed(Protocol):
    """The subscriptions of a consumer."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Every subscribed topic."""
        ...

    def data(self) -> list[SubscriptionData]:
        """The subscriptions as heartbeats carry them. An empty list is compared with no member's subscription."""
        ...


class Share(NamedTuple):
    """One member's share of a topic."""

    queues: Sequence[MessageQueue]
    """The member's queues of the topic."""
    is_settled: bool
    """Whether the next rebalance can wait for the interval."""
    why: str
    """The reason for this share, for the log."""


class Rebalance:
    """Rebalances one consumer.

    Args:
        client: how to reach brokers.
        config: the consumer's settings.
        subscriptions: the consumer's topics.
        assignment: the queues that the consumer has.
        calls: calls the user's allocation strategy.
        filters: asks brokers whether they accept SQL expressions.
        wakeup: wakes this when a rebalance is due.

    Attributes:
        balanced: whether the last rebalance succeeded for every topic.
        rounds: how many rebalances there were.
        errors: by topic, why it could not be rebalanced.
        under_way: by topic, what the rebalance in progress waits for.
        unknown: by topic, why the share of this member is not known.
    """

    def __init__(
        self,
        client: MQClientInstance,
        config: RebalanceSettings,
        subscriptions: Subscribed,
        assignment: Assignment,
        calls: UserCalls,
        filters: FilterCheck,
        wakeup: RebalanceWakeup,
    ) -> None:
        self.balanced = False
        self.rounds = 0
        self.errors: dict[str, RocketMQError] = {}
        self.under_way: dict[str, str] = {}
        self.unknown: dict[str, str] = {}
        self._seldom = Seldom(logger, clock=trio.current_time)
        self._client = client
        self._config = config
        self._subscriptions = subscriptions
        self._assignment = assignment
        self._broadcasts = config.message_model is MessageModel.BROADCASTING
        self._share_out = strategy(config.allocate_strategy)
        self._is_users = not isinstance(config.allocate_strategy, str)
        self._calls = calls
        self._lock = trio.Lock()
        self._plans: dict[str, RebalancePlan] = {}
        self._round_done = trio.Event()
        self._latest_change = self._latest_shared = object()
        self._told: object = None
        self._retry = FIRST_RETRY
        self._left, self._counted = AT_ONCE, trio.current_time()
        self._filters = filters
        self._wakeup = wakeup

    # --- when -----------------------------------------------------------------------------------------

    def soon(self) -> None:
        """Rebalance at once, or after a pause if there were many recently: see `RebalanceWakeup`."""
        self._wakeup.soon()

    def note_change(self) -> None:
        """A subscription has changed, which the next rebalance takes into account. Thread-safe."""
        self._latest_change = object()

    @property
    def is_up_to_date(self) -> bool:
        """Whether the last rebalance succeeded for every topic, and no subscription is newer. Thread-safe."""
        return self.balanced and self._latest_shared is self._latest_change

    def subscriptions_changed(self) -> None:
        """Send heartbeats and rebalance at once: brokers refuse pulls with subscriptions that they do not know."""
        self._told = None
        self.soon()

    async def wait_round(self) -> None:
        """Wait for the end of the next rebalance."""
        await self._round_done.wait()

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Run the service."""
        try:
            while True:
                await self._wait_for_turn()
                await self.look()
                with trio.move_on_after(self._config.rebalance_interval if self.balanced else self._retry):
                    await self._wakeup.wait()
                self._retry = (
                    FIRST_RETRY
                    if self.balanced or self._waits_for_locks
                    else min(2 * self._retry, self._config.rebalance_interval)
                )
        finally:
            # There is no next rebalance: wake those that wait for one, and they find the consumer closed.
            self._round_done.set()

    async def _wait_for_turn(self) -> None:
        """Wait until there were few enough rebalances recently."""
        now = trio.current_time()
        self._left = min(AT_ONCE, self._left + (now - self._counted) * A_SECOND) - 1
        self._counted = now
        if self._left < 0:
            await trio.sleep(-self._left / A_SECOND)

    @property
    def _waits_for_locks(self) -> bool:
        """Whether a lock that another member holds is wanted: it may become free at any moment, without a notice."""
        return any(isinstance(error, QueueLockedError) for error in self.errors.values())

    async def look(self) -> None:
        """Rebalance every topic now."""
        self._wakeup.begin()
        change = await self._announce_changes()  # before the topics are read
        topics = self._subscriptions.topics
        balanced: list[bool] = []

        async def share(topic: str) -> None:
            try:
                balanced.append(await self._share(topic))
            finally:
                del self.under_way[topic]

        self.under_way = dict.fromkeys(topics, "its turn")
        await side_by_side(share, topics)
        for topic in sorted(self._assignment.topics() - set(topics)):
            await self._assignment.apply(topic, RebalancePlan((), self._assignment.queues(topic)))
        self.errors = _causes({topic: error for topic, error in self.errors.items() if topic in topics})
        self.unknown = {topic: why for topic, why in self.unknown.items() if topic in topics}
        self._plans = {topic: plan for topic, plan in self._plans.items() if topic in topics}
        self.balanced, self._latest_shared = all(balanced), change
        self.rounds += 1
        done, self._round_done = self._round_done, trio.Event()
        done.set()

    async def _announce_changes(self) -> object:
        """Have brokers know the subscriptions before their topics are shared out; return the change that they know.

        Subscriptions may change meanwhile, in any thread, and brokers refuse pulls from topics that they have not heard
        of: those are told, too, but a program that changes them all the time does not keep all queues waiting.
        """
        for _ in range(_MOST_ANNOUNCED):
            change = self._latest_change
            if self._told is not change:
                self._told = change
                await self._announce()
            with trio.move_on_after(HEARTBEAT_PATIENCE):
                await self._filters.ask()
            if self._told is self._latest_change:
                break
        return change

    async def _announce(self) -> None:
        """Send heartbeats with the subscriptions, once routes are known. Failures here are retried later."""
        announced = self._assignment.announced  # by the end, others may have to be announced
        missing = [topic for topic in self._subscriptions.topics if self._client.routes.route(topic) is None]
        self.under_way = dict.fromkeys(missing, "its route from a name server")
        await side_by_side(self._find_route, missing)
        heartbeats = self._client.heartbeats
        self.under_way = dict.fromkeys(self._subscriptions.topics, "brokers to answer a heartbeat")
        with trio.move_on_after(HEARTBEAT_PATIENCE) as waiting:
            await heartbeats.send_all()
        if waiting.cancelled_caught:
            heartbeats.send_soon()
        announced.set()

    async def _find_route(self, topic: str) -> None:
        try:
            await self._client.routes.ensure_subscribe(topic)
        except RocketMQError as error:
            logger.debug("no route to %s yet: %s", topic, error)

    @property
    def told(self) -> list[str]:
        """The topics that heartbeats tell of, without the group's retry topic."""
        retries = retry_topic(self._config.group)
        return [data.topic for data in self._subscriptions.data() if data.topic != retries]

    def problems(self) -> dict[str, RocketMQError]:
        """By topic, why it cannot be consumed, as far as is known. Thread-safe."""
        refused = self._client.heartbeats.refusals(self._config.group, self.told)
        return _causes(self.errors | refused | self._filters.refused)

    def missing(self) -> str:
        """The topics that could not be rebalanced yet, and why, for error texts; empty if there are none."""
        waiting = {topic: f"{topic} waits for {what}" for topic, what in self.under_way.items()}
        refused = self._client.heartbeats.refusals(self._config.group, self.told)
        unknown = {topic: f"{topic}: {why}" for topic, why in self.unknown.items() if not is_retry_topic(topic)}
        causes = _causes(self.errors | refused, among=len(unknown))
        failed = {topic: str(error) for topic, error in causes.items()}
        said = list(dict.fromkeys((waiting | unknown | failed).values()))
        return "; ".join(said[:_MOST_SAID]) + (f"; and {len(said) - _MOST_SAID} more" if len(said) > _MOST_SAID else "")

    # --- what -----------------------------------------------------------------------------------------

    async def _share(self, topic: str) -> bool:
        """Take and give up queues of one topic. False if the next rebalance should come soon."""
        try:
            share = await self._share_of(topic)
        except RocketMQError as error:
            self.unknown.pop(topic, None)
            self._note_error(topic, error)
            return False
        if share is None:
            return False
        plan = plan_rebalance(share.queues, self._assignment.queues(topic))
        if (plan.add or plan.drop) and plan != self._plans.get(topic):  # the same plan again while a lock is missing
            logger.info(
                "%s: %s; new %s, given up %s",
                topic,
                share.why,
                [f"{queue.broker_name}:{queue.queue_id}" for queue in plan.add],
                [f"{queue.broker_name}:{queue.queue_id}" for queue in plan.drop],
            )
        self._plans[topic] = plan
        brokers = sorted({queue.broker_name for queue in plan.add + plan.drop})
        self.under_way[topic] = f"offsets, from {', '.join(brokers)}"
        failure = await self._assignment.apply(topic, plan)
        if failure is not None:
            self._note_error(topic, failure)
            return False
        self.errors.pop(topic, None)
        return share.is_settled

    async def _share_of(self, topic: str) -> Share | None:
        """This member's share of a topic; None if it is unknown for now, and the member keeps its queues."""
        self.under_way[topic] = "its route from a name server"
        queues = await self._queues(topic)
        members = [self._client.client_id] if self._broadcasts else await self._members(topic)
        is_member = self._client.client_id in members
        if is_member:
            self.unknown.pop(topic, None)
        else:
            self.unknown[topic] = "the brokers do not know yet that this consumer is in the group"
            self._client.heartbeats.send_soon()
        if not members:
            # The broker does not know any member, so the shares of the others are unknown too.
            self.errors.pop(topic, None)
            return None
        try:
            mine = await self._allocate(topic, queues, members)
        except ConfigError as error:
            self._note_mistake(topic, error)
            return None
        why = f"ours are {len(mine)} of {counted(len(queues), 'queue')}, as 1 of {counted(len(members), 'member')}"
        return Share(mine, is_member, why)

    async def _allocate(self, topic: str, queues: Sequence[MessageQueue], members: Sequence[str]) -> list[MessageQueue]:
        if self._broadcasts:
            return sorted(queues)
        me, group = self._client.client_id, self._config.group
        share = partial(allocate, self._share_out, queues, members, me, group=group, topic=topic)
        if not self._is_users:
            return share()
        self.under_way[topic] = "its allocation strategy"
        async with self._lock:
            found: list[MessageQueue] = await self._calls.call(share)
        return found

    def _note_mistake(self, topic: str, error: ConfigError) -> None:
        """Record a mistake in the strategy, which only the user can correct."""
        self._seldom.error(("strategy", topic), "%s", error, exc_info=error.__cause__)
        self.errors[topic] = error

    def _note_error(self, topic: str, error: RocketMQError) -> None:
        if is_retry_topic(topic) and isinstance(error, TopicNotFoundError):
            error = _no_retry_topic(topic, error)
        # Log the first of several failures in a row; not for the retry topic, which a broker makes after a heartbeat.
        if isinstance(error, QueueLockedError):
            logger.debug("%s: %s", topic, error)  # normal for a moment when members change; a longer wait is logged
        elif topic not in self.errors and not is_retry_topic(topic):
            # One broker that is away may concern many topics: log it once for all of them.
            cause = getattr(error, "address", None) or topic
            self._seldom.warning(cause, "%s cannot be consumed yet: %s", topic, error)
        self.errors[topic] = error

    async def _queues(self, topic: str) -> Sequence[MessageQueue]:
        queues = self._client.routes.subscribe_queues(topic)
        return await self._client.routes.ensure_subscribe(topic) if queues is None else queues

    async def _members(self, topic: str) -> list[str]:
        """The client ids of the group's members, from any broker of the topic, as each knows all members."""
        failure: RocketMQError | None = None
        addresses = self._brokers_by_health(topic)
        deadline = trio.current_time() + self._client.config.request_timeout
        for tried, address in enumerate(addresses):
            # A broker that hangs may use up its share of the time, but not that of the others.
            share = max(0.001, (deadline - trio.current_time()) / (len(addresses) - tried))
            self.under_way[topic] = f"the members of the group, from {address}"
            try:
                return await group_api.consumer_list(self._client.pool, address, self._config.group, timeout=share)
            except RocketMQError as error:
                failure = error
        if failure is None:
            failure = self._client.routes.why_not_readable(topic)
        raise failure or BrokerUnreachableError(f"no broker of {topic} has an address now", topic=topic)

    def _brokers_by_health(self, topic: str) -> list[str]:
        """Broker addresses in the order in which all members of the group ask, those without heartbeat answers last.

        Brokers may disagree about the members until all of them have noticed that one is gone, so all members ask the
        same broker first. Different groups start with different brokers, to share the load.
        """
        route = self._client.routes.route(topic)
        names = sorted(route.brokers) if route is not None else []
        first = string_hash(self._config.group) % len(names) if names else 0
        names = names[first:] + names[:first]
        found = [self._client.routes.broker_address(name, master=False) for name in names]
        answering = self._client.heartbeats.answering
        return sorted((address for address in found if address is not None), key=lambda each: each not in answering)


def _no_retry_topic(topic: str, error: TopicNotFoundError) -> TopicNotFoundError:
    """What to tell about a retry topic, which is none of the user's to create."""
    told = TopicNotFoundError(
        f"the topic {topic} for retries is not there yet: a broker creates it when it first hears of the group",
        topic=topic,
        tried=error.tried,
    )
    told.__cause__ = error
    return told


def _causes(errors: dict[str, RocketMQError], *, among: int = 0) -> dict[str, RocketMQError]:
    """Without a retry topic that is not there for want of a broker that the consumer can reach by its other topics.

    Args:
        errors: by topic.
        among: how many other topics are known to fail.
    """
    if len(errors) + among < 2:
        return errors
    return {
        topic: error
        for topic, error in errors.items()
        if not (is_retry_topic(topic) and isinstance(error, TopicNotFoundError))
    }
