"""Tracking: what each consumer group has done with a message. Plays the part of messageTrackDetail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.admin.clients import is_offline
from rocketpy.admin.results.clients import MessageTrack, TrackStatus
from rocketpy.client.api import admin as admin_api
from rocketpy.client.api import clients as clients_api
from rocketpy.client.api import group as group_api
from rocketpy.client.api import stats as stats_api
from rocketpy.errors import BrokerError, RequestCodeNotSupportedError, RocketMQError
from rocketpy.message import MessageQueue
from rocketpy.services import side_by_side
from rocketpy.wire.enums import ConsumeType, MessageModel
from rocketpy.wire.names import is_system_group

if TYPE_CHECKING:
    from rocketpy.admin.servers import Servers
    from rocketpy.message import MessageExt
    from rocketpy.wire.bodies.groups import ConsumerConnection

__all__ = ["groups_of", "topics_of", "track"]


async def track(servers: Servers, address: str, broker: str, message: MessageExt) -> tuple[MessageTrack, ...]:
    """What each group that consumes the topic of a message has done with it, sorted by group.

    Args:
        servers: the servers.
        address: the broker that holds the message.
        broker: its name.
        message: the message.

    Raises:
        RocketMQError: the broker did not say which groups consume the topic.
    """
    groups = await groups_of(servers, address, message.topic)
    queue = MessageQueue(message.topic, broker, message.queue_id)
    found: dict[str, MessageTrack] = {}

    async def look(group: str) -> None:
        try:
            found[group] = MessageTrack(group=group, status=await _status(servers, address, group, queue, message))
        except RocketMQError as error:
            found[group] = MessageTrack(group=group, status=TrackStatus.UNKNOWN, error=error)

    await side_by_side(look, groups)
    return tuple(found[group] for group in sorted(found))


async def groups_of(servers: Servers, address: str, topic: str) -> set[str]:
    """The groups that consume a topic on a broker, without groups of RocketMQ's own.

    Raises:
        RocketMQError: the broker does not answer, or refuses.
    """
    pool, timeout = servers.client.pool, servers.timeout
    found = await clients_api.groups_of_topic(pool, address, topic, timeout=timeout)
    if topic in found:  # Apache's brokers of 5.3 also list the name of the topic itself
        known = await admin_api.all_groups(pool, address, timeout=timeout)
        found = {group for group in found if group != topic or group in known.subscription_group_table}
    return {group for group in found if not is_system_group(group)}


async def topics_of(servers: Servers, address: str, group: str) -> set[str]:
    """The topics in which a group has offsets on a broker.

    Raises:
        RocketMQError: the broker does not answer, or refuses.
    """
    pool, timeout = servers.client.pool, servers.timeout
    try:
        return await clients_api.topics_of_group(pool, address, group, timeout=timeout)
    except RequestCodeNotSupportedError:  # 4.x
        stats = await stats_api.consume_stats(pool, address, group, timeout=timeout)
        return {queue.topic for queue in stats.offset_table}


async def _status(servers: Servers, address: str, group: str, queue: MessageQueue, message: MessageExt) -> TrackStatus:
    pool, timeout = servers.client.pool, servers.timeout
    connected: ConsumerConnection | None = None
    try:
        connected = await group_api.consumer_connections(pool, address, group, timeout=timeout)
    except BrokerError as error:
        if not is_offline(error):
            raise
    if connected is not None and connected.message_model is MessageModel.BROADCASTING:
        return TrackStatus.BROADCAST
    if connected is not None and connected.consume_type is ConsumeType.CONSUME_ACTIVELY:
        return TrackStatus.PULLED
    stats = await stats_api.consume_stats(pool, address, group, topic=queue.topic, timeout=timeout)
    known = stats.offset_table.get(queue)
    if known is None or known.consumer_offset <= message.queue_offset:
        return TrackStatus.OFFLINE if connected is None else TrackStatus.NOT_CONSUMED
    wanted = None if connected is None else connected.subscription_table.get(message.topic)
    if wanted is not None and wanted.is_tag and not wanted.matches_tag(message.tags):
        return TrackStatus.FILTERED
    return TrackStatus.CONSUMED
