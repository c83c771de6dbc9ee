"""Reading: the messages of a queue between two offsets, without changing the offset of any group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.client.api import offset as offset_api
from rocketpy.client.api.pull import pull_message
from rocketpy.errors import ConfigError
from rocketpy.results import PullStatus
from rocketpy.wire.bodies import subscription
from rocketpy.wire.headers.pull import PullMessageRequestHeader
from rocketpy.wire.names import LMQ_PREFIX, is_system_topic
from rocketpy.wire.sysflag import PullSysFlag

if TYPE_CHECKING:
    from rocketpy.admin.servers import Servers
    from rocketpy.message import MessageExt, MessageQueue
    from rocketpy.wire.bodies.subscription import SubscriptionData

__all__ = ["READER_GROUP", "bounds", "check_queue", "read"]

READER_GROUP = "TOOLS_CONSUMER"
"""The group of RocketMQ's own tools, which brokers have from the start."""
_BATCH = 32


async def bounds(servers: Servers, address: str, queue: MessageQueue) -> tuple[int, int]:
    """The offset of the oldest message of a queue, and the offset that its next message will get.

    Raises:
        RocketMQError: the broker cannot be reached, does not answer, or refuses.
    """
    pool, timeout = servers.client.pool, servers.timeout
    begin = await offset_api.min_offset(pool, address, queue, timeout=timeout)
    return begin, await offset_api.max_offset(pool, address, queue, timeout=timeout)


async def check_queue(servers: Servers, queue: MessageQueue) -> None:
    """Refuse a queue that its broker does not have. Brokers answer 0 for it, and some store offsets in it.

    Raises:
        ConfigError: the broker has no such queue.
        TopicNotFoundError: the topic does not exist.
        NameServerUnreachableError: no name server answered.
    """
    if queue.topic.startswith(LMQ_PREFIX) or is_system_topic(queue.topic):  # name servers may not know these
        return
    route = await servers.route(queue.topic)
    counts = {each.broker_name: max(each.read_queue_nums, each.write_queue_nums) for each in route.queue_datas}
    count = counts.get(queue.broker_name, 0)
    if queue.queue_id >= count and not route.topic_queue_mapping_by_broker:
        raise ConfigError(f"there is no {queue}: the topic has {count} queues on the broker {queue.broker_name!r:.100}")


async def read(
    servers: Servers,
    address: str,
    queue: MessageQueue,
    begin: int,
    end: int,
    count: int,
    *,
    tags: str | None = None,
    until: int | None = None,
) -> list[MessageExt]:
    """Read messages of a queue from the offset `begin` up to, but not including, the offset `end`.

    Args:
        count: the maximum number of messages.
        tags: the tags of the wanted messages; None for all messages.
        until: ms since 1970; reading ends at the first message that was stored later.

    Raises:
        ConfigError: the tags cannot be used.
        MessageDecodeError: a message is damaged.
        RocketMQError: the broker cannot be reached, does not answer, or refuses.
    """
    wanted = subscription.build(queue.topic, tags)
    found: list[MessageExt] = []
    position = begin
    while position < end:
        header = _header(queue, position, wanted)
        result = await pull_message(
            servers.client.pool, address, header, broker_name=queue.broker_name, timeout=servers.timeout
        )
        for message in result.messages:
            if len(found) == count or (until is not None and message.store_timestamp > until):
                return found
            if position <= message.queue_offset < end and wanted.matches_tag(message.tags):
                found.append(message)
        if result.status is PullStatus.NO_NEW_MSG or result.next_begin_offset <= position:
            break
        position = result.next_begin_offset
    return found


def _header(queue: MessageQueue, offset: int, wanted: SubscriptionData) -> PullMessageRequestHeader:
    return PullMessageRequestHeader(
        consumer_group=READER_GROUP,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=_BATCH,
        sys_flag=PullSysFlag.build(commit_offset=False, suspend=False, subscription=True, class_filter=False),
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=wanted.sub_string,
        sub_version=wanted.sub_version,
        expression_type=wanted.expression_type,
        bname=queue.broker_name,
    )
