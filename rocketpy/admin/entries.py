"""Entries: what a consume queue holds, and what of it a consumer group would get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.admin.reading import check_queue
from rocketpy.admin.results.entries import QueueEntries, QueueEntry
from rocketpy.client.api import query as query_api

if TYPE_CHECKING:
    from rocketpy.admin.servers import Servers
    from rocketpy.message import MessageQueue
    from rocketpy.wire.bodies.consume_queue import ConsumeQueueData
    from rocketpy.wire.bodies.subscription import SubscriptionData

__all__ = ["entries"]

_NO_FILTER = "null"


async def entries(servers: Servers, queue: MessageQueue, begin: int, count: int, group: str | None) -> QueueEntries:
    """Entries of a queue from an offset on.

    Raises:
        RocketMQError: as `Messages.entries` says.
    """
    address = await servers.one(queue.broker_name)
    await check_queue(servers, queue)
    pool, timeout = servers.client.pool, servers.timeout
    found = await query_api.queue_entries(pool, address, queue, begin, count, group=group, timeout=timeout)
    subscription = found.subscription_data
    return QueueEntries(
        queue=queue,
        begin=found.min_queue_index,
        end=found.max_queue_index,
        entries=tuple(_entry(begin + number, each, subscription) for number, each in enumerate(found.queue_data or ())),
        expression=None if subscription is None else subscription.sub_string or "*",
        filter=None if found.filter_data == _NO_FILTER else found.filter_data,
    )


def _entry(offset: int, found: ConsumeQueueData, subscription: SubscriptionData | None) -> QueueEntry:
    return QueueEntry(
        offset=offset,
        position=found.physic_offset,
        size=found.physic_size,
        tags_code=found.tags_code,
        delivered=None if subscription is None else _is_delivered(found, subscription),
        extension=found.extend_data_json or None,
        remark=found.msg or None,
    )


def _is_delivered(found: ConsumeQueueData, subscription: SubscriptionData) -> bool | None:
    """Whether the group would get the message, as far as that can be told without its properties.

    A broker answers "no" for all entries that have no bit map, also if the group subscribes to everything.
    """
    if subscription.is_tag:
        return subscription.sub_string in ("", "*") or found.tags_code in subscription.code_set
    return found.eval if found.extend_data_json else None
