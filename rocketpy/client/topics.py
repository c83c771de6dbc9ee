"""Creating a topic on all brokers at once and waiting until it can be used.

Plays the part of MQAdminImpl.createTopic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from rocketpy.client.api import admin as admin_api
from rocketpy.errors import ConfigError, NameServerUnreachableError, RequestTimeoutError, RouteNotFoundError
from rocketpy.remoting.backoff import FullJitter, retrying
from rocketpy.wire.bodies.route import MASTER_ID
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.names import check_topic, is_system_topic

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance

__all__ = ["create_topic"]

_visible = FullJitter(0.01, 0.5)


async def create_topic(client: MQClientInstance, topic: str, *, queues: int, key: str, timeout: float) -> None:
    """Create a topic on every master that holds the topic `key`, or change its queues; return once routes have it.

    Raises:
        ConfigError: the name or the number of queues cannot be used.
        RouteNotFoundError: no broker holds `key`, or the name servers do not show the new topic in time.
        BrokerError, TransportError, RequestTimeoutError: a broker refused or did not answer.
    """
    check_topic(topic)
    if is_system_topic(topic):
        raise ConfigError(f"{topic} is a topic of RocketMQ's own")
    if isinstance(queues, bool) or not isinstance(queues, int):
        raise ConfigError(f"queues must be a whole number, not {queues!r}")
    if not 1 <= queues <= 65_536:
        raise ConfigError(f"a topic has 1 to 65536 queues on each broker, not {queues!r}")
    try:
        with trio.fail_after(timeout):
            await _create(
                client, TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues), key, timeout
            )
            await _wait_visible(client, topic)
    except trio.TooSlowError as exc:
        raise RequestTimeoutError(f"the topic {topic} was not there within {timeout:g} s", timeout=timeout) from exc


async def _create(client: MQClientInstance, config: TopicConfig, key: str, timeout: float) -> None:
    await client.routes.ensure(key, timeout=timeout)
    route = client.routes.route(key)
    masters = [] if route is None else [ids[MASTER_ID] for ids in route.brokers.values() if MASTER_ID in ids]
    for address in masters:
        await admin_api.create_topic(client.pool, address, config, default_topic=key, timeout=timeout)


async def _wait_visible(client: MQClientInstance, topic: str) -> None:
    """Wait until name servers know the topic, which brokers register by themselves."""

    async def look() -> None:
        await client.routes.refresh(topic)
        await client.routes.ensure(topic)

    policy = retrying(attempts=1000, wait=_visible, worth_it=_not_there_yet)
    await policy(look)


def _not_there_yet(error: BaseException) -> bool:
    return isinstance(error, RouteNotFoundError) and not isinstance(error, NameServerUnreachableError)
