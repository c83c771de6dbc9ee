"""Which queues a source reads: those of topics, of the topics that match a pattern, or those that are assigned."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rocketpy.client.api import name_server as name_server_api
from rocketpy.errors import ConfigError, TopicNotFoundError
from rocketpy.spark.source.options import Assigned, Pattern, Topics
from rocketpy.wire.names import is_system_topic

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.message import MessageQueue
    from rocketpy.spark.source.options import Choice

__all__ = ["chosen_queues"]

_DERIVED = "%"
"""What the names of retry and dead-letter topics begin with."""
_REPLIES = "_REPLY_TOPIC"


async def chosen_queues(client: MQClientInstance, choice: Choice) -> tuple[MessageQueue, ...]:
    """The queues that there are now, sorted. A pattern may match none.

    Raises:
        ConfigError: an assigned queue does not exist.
        RouteNotFoundError: a topic that was named cannot be found or read; the subclass says why.
    """
    if isinstance(choice, Topics):
        return await _queues(client, choice.names)
    if isinstance(choice, Pattern):
        return await _queues(client, await _matching(client, choice.expression), skip_missing=True)
    assert isinstance(choice, Assigned)
    there = await _queues(client, sorted({queue.topic for queue in choice.queues}))
    for queue in choice.queues:
        if queue not in there:
            raise ConfigError(f"{choice.option} names {queue}, which does not exist; {_existing(queue.topic, there)}")
    return tuple(sorted(choice.queues))


def _existing(topic: str, queues: tuple[MessageQueue, ...]) -> str:
    """The queues of a topic, for errors."""
    by_broker: dict[str, list[int]] = {}
    for queue in queues:
        if queue.topic == topic:
            by_broker.setdefault(queue.broker_name, []).append(queue.queue_id)
    said = "; ".join(f"{broker} has {', '.join(map(str, numbers))}" for broker, numbers in by_broker.items())
    return f"the queues of {topic}: {said}"


async def _queues(
    client: MQClientInstance, topics: tuple[str, ...] | list[str], *, skip_missing: bool = False
) -> tuple[MessageQueue, ...]:
    found: list[MessageQueue] = []
    for topic in topics:
        try:
            await client.routes.refresh(topic)
            found += await client.routes.ensure_subscribe(topic)
        except TopicNotFoundError:
            if not skip_missing:
                raise
    return tuple(sorted(found))


async def _matching(client: MQClientInstance, expression: str) -> list[str]:
    """The topics of users whose whole names match. Brokers and clusters have topics of their own names."""
    names = await name_server_api.all_topics(client.name_servers)
    info = await name_server_api.cluster_info(client.name_servers)
    servers = {*(info.broker_addr_table or {}), *(info.cluster_addr_table or {})}
    pattern = re.compile(expression)
    return sorted(
        name
        for name in names
        if pattern.fullmatch(name)
        and name not in servers
        and not is_system_topic(name)
        and not name.endswith(_REPLIES)
        and (expression.startswith(_DERIVED) or not name.startswith(_DERIVED))
    )
