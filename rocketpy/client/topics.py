"""Creating a topic on all brokers at once and waiting until it can be used.

Plays the part of MQAdminImpl.createTopic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.client.api import admin as admin_api
from rocketpy.errors import (
    ConfigError,
    NameServerUnreachableError,
    RequestTimeoutError,
    RouteNotFoundError,
    TopicNotFoundError,
)
from rocketpy.remoting.backoff import FullJitter, retrying
from rocketpy.wire.bodies.route import MASTER_ID
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.names import AUTO_CREATE_TOPIC, check_topic, is_system_topic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rocketpy.client.instance import MQClientInstance
    from rocketpy.client.routes.publish_info import TopicRoute

__all__ = ["create_topic"]

_visible = FullJitter(0.01, 0.5)


async def create_topic(
    client: MQClientInstance, topic: str, *, queues: int | None, default_queues: int, key: str, timeout: float
) -> None:
    """Create a topic on every registered master, or change its queues; return once routes have it.

    Fewer queues than a broker has are fewer to write to. All can still be read, so that no message is out of reach.

    Args:
        client: asks and tells the servers.
        topic: the name of the topic.
        queues: queues to write to on each broker; None for `default_queues` on brokers that do not have the topic, and
            no change on the others.
        default_queues: the number for None.
        key: a topic of the user's choice, whose masters get the new one; TBW102 for every registered master.
        timeout: seconds for everything.

    Raises:
        ConfigError: the name or the number of queues cannot be used.
        NameServerUnreachableError: no name server answered.
        BrokerUnreachableError: no broker is registered, or no master has a usable address.
        TopicNotFoundError: no broker holds `key`, or the name servers do not show the new topic in time.
        BrokerError, TransportError, RequestTimeoutError: a broker refused or did not answer.
    """
    check_topic(topic)
    if is_system_topic(topic):
        raise ConfigError(f"{topic} is a topic of RocketMQ's own")
    if queues is not None:
        _check(queues)
    deadline, masters = trio.current_time() + timeout, None
    with trio.move_on_at(deadline):
        masters = await _masters(client, topic, key, timeout)
    if masters is None:
        raise client.routes.too_late(topic, timeout)
    number = default_queues if queues is None else queues
    try:
        with trio.fail_at(deadline):
            existing = await client.routes.refresh_existing(topic)
            wanted: dict[str, int] = {}
            for name, address in masters.items():
                readable, writable = _queues_of(existing, name)
                if queues is None and writable:
                    continue
                wanted[name] = number
                config = TopicConfig(topic_name=topic, read_queue_nums=max(number, readable), write_queue_nums=number)
                await admin_api.create_topic(client.pool, address, config, default_topic=key, timeout=timeout)
            await _wait_visible(client, topic, wanted)
    except trio.TooSlowError as exc:
        raise _too_late(topic, timeout) from exc


def _too_late(topic: str, timeout: float) -> RequestTimeoutError:
    return RequestTimeoutError(
        f"the topic {topic} was not there within {timeout:g} s: see whether all brokers and name servers answer, "
        "and create it again, with a longer timeout if they are slow",
        timeout=timeout,
    )


def _check(queues: object) -> None:
    if isinstance(queues, bool) or not isinstance(queues, int):
        raise ConfigError(f"queues must be a whole number, not {queues!r}")
    if not 1 <= queues <= 65_536:
        raise ConfigError(f"a topic has 1 to 65536 queues on each broker, not {queues!r}")


async def _masters(client: MQClientInstance, topic: str, key: str, timeout: float) -> dict[str, str]:
    """Names and addresses of the masters that get the topic."""
    if key == AUTO_CREATE_TOPIC:  # which only brokers with autoCreateTopicEnable have: here it chooses none
        return await client.routes.masters(topic, timeout=timeout)
    try:
        await client.routes.ensure(key, timeout=timeout)
    except TopicNotFoundError as error:
        raise TopicNotFoundError(
            f"the topic {topic} cannot be created: create_topic_key={key!r} means the brokers with that topic, and it "
            "does not exist; create it first, or leave create_topic_key out for all registered brokers",
            topic=topic,
            tried=error.tried,
        ) from error
    route = client.routes.route(key)
    brokers = {} if route is None else route.brokers
    return {name: addresses[MASTER_ID] for name, addresses in brokers.items() if MASTER_ID in addresses}


def _queues_of(route: TopicRoute | None, broker_name: str) -> tuple[int, int]:
    """How many queues of a broker can be read, and written; none of a topic that it does not have."""
    if route is None:
        return 0, 0
    readable = sum(queue.broker_name == broker_name for queue in route.subscribe)
    return readable, sum(queue.broker_name == broker_name for queue in route.publish.queues)


async def _wait_visible(client: MQClientInstance, topic: str, wanted: Mapping[str, int]) -> None:
    """Wait until name servers know the topic, with these queues, which brokers register by themselves."""

    async def look() -> None:
        route = await client.routes.refresh_existing(topic)
        await client.routes.ensure(topic)
        if route is None or route.endpoints:
            return
        for name, number in wanted.items():
            if _queues_of(route, name)[1] not in (0, number):
                raise TopicNotFoundError(f"{name} has not registered the {number} queues of {topic} yet", topic=topic)

    policy = retrying(attempts=1000, wait=_visible, worth_it=_not_there_yet)
    await policy(look)


def _not_there_yet(error: BaseException) -> bool:
    return isinstance(error, RouteNotFoundError) and not isinstance(error, NameServerUnreachableError)
