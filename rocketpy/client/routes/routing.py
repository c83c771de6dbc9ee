"""The routes of the topics in use, and the addresses of the brokers in them.

Reading never waits, and returns immutable snapshots. If several tasks need the route of a topic at the same time, it is
looked up once. A usable route is kept while no name server answers or knows it: brokers may be reachable all the same,
and a name server that was restarted knows no topics for a while. Plays the part of topicRouteTable and brokerAddrTable
in MQClientInstance.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import attrs
import trio

from rocketpy.client.api import name_server as name_server_api
from rocketpy.client.name_server_errors import check_address
from rocketpy.client.routes.publish_info import TopicPublishInfo, TopicRoute, default_route, topic_route, usable_brokers
from rocketpy.client.routes.route_errors import cause_of, no_broker, no_master, route_error, unusable
from rocketpy.errors import (
    NameServerUnreachableError,
    RocketMQError,
    RouteNotFoundError,
    TopicNotExistError,
    TopicNotFoundError,
    rounded,
)
from rocketpy.logs import get_logger
from rocketpy.wire.bodies.route import MASTER_ID, TopicRouteData
from rocketpy.wire.names import is_retry_topic

if TYPE_CHECKING:
    from rocketpy.client.name_server import NameServers
    from rocketpy.message import MessageQueue

__all__ = ["NEARLY", "BrokerAddress", "RouteTable"]

logger = get_logger(__name__)

_ANY = "*"
"""Stands for every topic, while no name server answers."""
NEARLY = 0.01
"""Seconds before a deadline that count as having reached it: the last attempt gets a little less than the time left."""


class BrokerAddress(NamedTuple):
    """The address of a broker, and whether it is a slave."""

    address: str
    """`host:port`."""
    is_slave: bool
    """Whether it is any other than the master's."""


class _Default(NamedTuple):
    """The topic whose route is used for a topic that does not exist yet, and how many queues the new topic will get."""

    topic: str
    """Name of the topic whose route stands in."""
    queue_nums: int
    """The most queues that the new topic gets on each broker."""


class _Question(NamedTuple):
    """What a lookup asks; tasks with the same question share one."""

    topic: str
    """The topic whose route is asked for."""
    default: _Default | None
    """What stands in if the topic does not exist; None if nothing does."""
    explain: bool
    """Whether to find out, about a topic that no name server knows, if there is any broker that could have it."""


@attrs.define(eq=False)
class _Lookup:
    """One lookup at the name servers, which several tasks may wait for."""

    deadline: float
    """The deadline of the task that asks."""
    done: trio.Event = attrs.Factory(trio.Event)
    outcome: TopicRoute | RocketMQError | None = None
    """None if the task that asks was cancelled."""


class RouteTable:
    """Routes by topic.

    Args:
        name_servers: asked for routes.
        timeout: seconds that a lookup may take if the caller sets no timeout.
        address_map: rewrites broker addresses.
        on_change: called with a topic after its route has changed.
    """

    def __init__(
        self,
        name_servers: NameServers,
        *,
        timeout: float = 3.0,
        address_map: Mapping[str, str] | None = None,
        on_change: Callable[[str], None] = lambda topic: None,
    ) -> None:
        self._name_servers = name_servers
        self._timeout = timeout
        self._address_map = address_map or {}
        self._on_change = on_change
        self._routes: dict[str, TopicRoute] = {}
        self._publish: dict[str, TopicPublishInfo] = {}
        self._brokers: dict[str, Mapping[int, str]] = {}
        self._defaults: dict[str, _Default] = {}
        self._lookups: dict[_Question, _Lookup] = {}
        self._stale: set[str] = set()
        """Topics whose last refresh failed, which was logged."""
        self.version = 0
        """Changes whenever anything that is read here may have changed."""

    # --- reading: plain, from any thread ---------------------------------------------------------------

    def publish_info(self, topic: str) -> TopicPublishInfo | None:
        """The queues to write to; None if the topic is not known yet, or not writable."""
        return self._publish.get(topic)

    def subscribe_queues(self, topic: str) -> tuple[MessageQueue, ...] | None:
        """The queues to read from, sorted; None if the topic is not known yet. There may be none."""
        route = self._routes.get(topic)
        return None if route is None else route.subscribe

    def route(self, topic: str) -> TopicRoute | None:
        """The route of a topic, None if it is not known."""
        return self._routes.get(topic)

    def broker_name(self, queue: MessageQueue) -> str:
        """The name of the broker that holds a queue. In static topics it may differ from `queue.broker_name`."""
        route = self._routes.get(queue.topic)
        return route.endpoints.get(queue, queue.broker_name) if route is not None else queue.broker_name

    def broker_address(self, broker_name: str, *, master: bool = True) -> str | None:
        """The address of a broker's master; with `master=False`, of a slave if there is no master."""
        addresses = self._brokers.get(broker_name)
        if not addresses:
            return None
        return addresses.get(MASTER_ID) if master else addresses[min(addresses)]

    def find_broker(self, broker_name: str, broker_id: int = MASTER_ID) -> BrokerAddress | None:
        """The broker to pull from: the one with `broker_id`, for a slave id also the next id, or any of that name."""
        addresses = self._brokers.get(broker_name)
        if not addresses:
            return None
        found = broker_id
        if found not in addresses and broker_id != MASTER_ID:
            found += 1
        if found not in addresses:
            found = min(addresses)
        return BrokerAddress(addresses[found], found != MASTER_ID)

    def brokers(self) -> dict[str, Mapping[int, str]]:
        """The addresses of every broker in any route, by broker name and id."""
        return dict(self._brokers)

    def topics(self) -> set[str]:
        """The topics that have a route."""
        return set(self._routes)

    # --- looking up -----------------------------------------------------------------------------------

    async def ensure(
        self,
        topic: str,
        *,
        timeout: float | None = None,
        default_topic: str | None = None,
        default_queue_nums: int = 4,
    ) -> TopicPublishInfo:
        """The queues to write to, looked up if they are not known.

        Args:
            topic: the topic to write to.
            timeout: seconds that this may take.
            default_topic: the topic whose brokers create `topic` at its first message; None if it must exist.
            default_queue_nums: how many queues it gets then.

        Raises:
            NameServerUnreachableError: no name server answered.
            TopicNotFoundError: the topic does not exist, and no broker would create it.
            TopicNotWritableError: it exists and may not be written.
            BrokerUnreachableError: it exists, and no broker that holds it has a master or a usable address; or no
                broker is registered with the name servers.
        """
        known = self._publish.get(topic)
        if known is not None:
            return known
        default = None if default_topic is None else _Default(default_topic, default_queue_nums)
        route = await self._look_up(topic, self._timeout if timeout is None else timeout, default, explain=True)
        if route.not_writable is not None:
            raise unusable(route, route.not_writable, "written")
        return route.publish

    async def ensure_subscribe(self, topic: str, *, timeout: float | None = None) -> tuple[MessageQueue, ...]:
        """The queues to read from, looked up if they are not known.

        Raises:
            NameServerUnreachableError: no name server answered.
            TopicNotFoundError: the topic does not exist.
            TopicNotWritableError: it exists and may not be read.
            BrokerUnreachableError: it exists, and no broker that holds it has a usable address; or no broker is
                registered with the name servers.
        """
        route = self._routes.get(topic)
        if route is None or route.not_readable is not None:
            route = await self._look_up(topic, self._timeout if timeout is None else timeout, None, explain=True)
        if route.not_readable is not None:
            raise unusable(route, route.not_readable, "read")
        return route.subscribe

    def why_not_readable(self, topic: str) -> RouteNotFoundError | None:
        """The error for a topic whose route is known but has no readable queue; None for other topics."""
        route = self._routes.get(topic)
        return None if route is None or route.not_readable is None else unusable(route, route.not_readable, "read")

    async def refresh_existing(self, topic: str) -> TopicRoute | None:
        """Look up one topic again. None if no name server knows it, whatever its first message would create.

        Raises:
            NameServerUnreachableError: no name server answered; the old route stays.
        """
        try:
            return await self._look_up(topic, self._timeout, None)
        except TopicNotFoundError:
            return None

    async def refresh(self, topic: str, *, timeout: float | None = None) -> TopicRoute | None:
        """Look up one topic again. If no name server knows it, the old route stays; None if there is none.

        Raises:
            NameServerUnreachableError: no name server answered; the old route stays.
        """
        budget = self._timeout if timeout is None else timeout
        try:
            return await self._look_up(topic, budget, self._defaults.get(topic))
        except TopicNotFoundError:
            return self._routes.get(topic)

    async def refresh_all(self, more: Iterable[str] = ()) -> None:
        """Look up every topic in use again, and `more`. Errors are logged, and the old routes stay."""
        wanted = sorted(self._routes.keys() | set(more))
        self._stale &= {*wanted, _ANY}
        for topic in wanted:
            try:
                if await self.refresh(topic) is None:
                    logger.debug("topic %s does not exist yet", topic)
                self._stale.discard(topic)
            except NameServerUnreachableError as error:
                if _ANY not in self._stale:
                    logger.warning("routes are not refreshed, the old ones stay: %s", error)
                self._stale.add(_ANY)
                return
            except RocketMQError as error:
                if topic not in self._stale:
                    logger.warning("the route of %s is not refreshed: %s", topic, error)
                self._stale.add(topic)
        if wanted and _ANY in self._stale:
            self._stale.discard(_ANY)
            logger.warning("routes are refreshed again")

    async def masters(self, topic: str, *, timeout: float) -> dict[str, str]:
        """The address of every registered master, by broker name: the brokers on which `topic` can be created.

        Raises:
            NameServerUnreachableError: no name server answered.
            BrokerUnreachableError: no broker is registered, or none has a master with a usable address.
        """
        found = (await name_server_api.cluster_info(self._name_servers, timeout=timeout)).broker_addr_table.values()
        if not found:
            raise no_broker(f"the topic {topic} cannot be created", topic, self._name_servers.current)
        brokers = usable_brokers(found, self._address_map)
        masters = {name: addresses[MASTER_ID] for name, addresses in brokers.items() if MASTER_ID in addresses}
        if not masters:
            raise no_master(topic, tuple(address for broker in found for address in broker.broker_addrs.values()))
        return masters

    def clean_offline_brokers(self) -> list[str]:
        """Forget brokers that are in no route any more. Returns the addresses at which none is left."""
        named: dict[str, set[str]] = {}
        for route in self._routes.values():
            for name, addresses in route.brokers.items():
                named.setdefault(name, set()).update(addresses.values())
        gone: list[str] = []
        for name, addresses in list(self._brokers.items()):
            kept = {number: each for number, each in addresses.items() if each in named.get(name, ())}
            gone += [each for each in addresses.values() if each not in kept.values()]
            if kept:
                self._brokers[name] = kept
            else:
                logger.info("broker %s is no longer in any route", name)
                del self._brokers[name]
        self.version += 1  # last: what other threads have cached by the old number is invalid from here on
        used = {address for addresses in self._brokers.values() for address in addresses.values()}
        return [address for address in gone if address not in used]  # a broker may have another name now

    async def _look_up(
        self, topic: str, timeout: float, default: _Default | None, *, explain: bool = False
    ) -> TopicRoute:
        """Ask the name servers, or wait for a task that is asking them already."""
        deadline = trio.current_time() + timeout
        # A broker makes a retry topic once it knows the group: that there is none yet is no failure to explain.
        question = _Question(topic, default, explain and not is_retry_topic(topic))
        while True:
            lookup = self._lookups.get(question)
            if lookup is None:
                return await self._lead(question, deadline)
            with trio.move_on_at(deadline):
                await lookup.done.wait()
            if isinstance(lookup.outcome, TopicRoute):
                return lookup.outcome
            if lookup.outcome is not None and not _ran_out_of_time(lookup, deadline):
                # Each waiter gets an error of its own, so that tracebacks do not pile up on a shared one.
                error = route_error(topic, lookup.outcome) or copy.copy(lookup.outcome)
                raise error from cause_of(lookup.outcome)
            if not lookup.done.is_set():
                raise self.too_late(topic, timeout)

    def too_late(self, topic: str, timeout: float) -> NameServerUnreachableError:
        """The error for a lookup whose time was up before a name server answered."""
        asked = self._name_servers.current
        return NameServerUnreachableError(
            f"no name server has answered about the topic {topic} within {rounded(timeout)} s (asked last: {asked}); "
            f"{check_address()}, and allow more time if it is slow",
            topic=topic,
            tried=(asked,),
        )

    async def _lead(self, question: _Question, deadline: float) -> TopicRoute:
        """Ask the name servers, for this task and those that wait for it."""
        topic, default, explain = question
        lookup = self._lookups[question] = _Lookup(deadline)
        try:
            data, derived = await self._ask(topic, deadline, default)
            lookup.outcome = topic_route(topic, data, address_map=self._address_map)
        except RocketMQError as exc:
            if explain and isinstance(exc, TopicNotExistError) and not await self._has_broker(deadline):
                lookup.outcome = no_broker(f"no route to the topic {topic}", topic, self._name_servers.current)
                raise lookup.outcome from exc
            lookup.outcome = exc
            if (translated := route_error(topic, exc)) is not None:
                raise translated from cause_of(exc)
            raise
        finally:
            del self._lookups[question]
            lookup.done.set()
        if derived and default is not None:
            self._defaults[topic] = default
        else:
            self._defaults.pop(topic, None)
        self._accept(lookup.outcome)
        return lookup.outcome

    async def _ask(self, topic: str, deadline: float, default: _Default | None) -> tuple[TopicRouteData, bool]:
        """The route of the topic, or the one that it will have once it is created, and whether it is the latter."""
        try:
            return await name_server_api.topic_route(self._name_servers, topic, timeout=_left(deadline)), False
        except TopicNotExistError:
            if default is None:
                raise
        data = await name_server_api.topic_route(self._name_servers, default.topic, timeout=_left(deadline))
        return default_route(data, default.queue_nums), True

    async def _has_broker(self, deadline: float) -> bool:
        """Whether any broker is registered with the name servers; True if they do not say."""
        try:
            found = await name_server_api.cluster_info(self._name_servers, timeout=_left(deadline))
        except RocketMQError as error:
            logger.debug("no name server has said which brokers there are: %s", error)
            return True
        return bool(found.broker_addr_table)

    def _accept(self, route: TopicRoute) -> None:
        """Replace the snapshots, then report a change."""
        before = self._routes.get(route.topic)
        self._routes[route.topic] = route
        if route.not_writable is None:
            self._publish[route.topic] = route.publish
        else:
            self._publish.pop(route.topic, None)
        self._brokers.update(route.brokers)
        self.version += 1
        if route != before:
            logger.info("route of %s: %d queues to write", route.topic, len(route.publish.queues))
            self._on_change(route.topic)


def _ran_out_of_time(lookup: _Lookup, deadline: float) -> bool:
    """Whether a lookup failed at the deadline of the task that asked, while the waiting task still has time left."""
    if not isinstance(lookup.outcome, NameServerUnreachableError):
        return False
    return lookup.deadline - NEARLY <= trio.current_time() < deadline - NEARLY


def _left(deadline: float) -> float:
    return max(0.001, deadline - trio.current_time())
