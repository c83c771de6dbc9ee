"""Entries: what a consume queue holds, and what of it a consumer group would get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.admin.reading import check_queue
from rocketpy.admin.results.entries import QueueEntries, QueueEntry
from rocketpy.client.api import query as query_api

if TYPE_CHECKING:
    from rocketpy.admin.servers import Servers
    from rocketpy.message import MessageQueue
    from rocketpy.wire.bodies.consume_queue import ConsumeQueueData, QueryConsumeQueueResponseBody

__all__ = ["entries"]


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
        entries=_entries(found, begin, with_group=group is not None and subscription is not None),
        expression=None if subscription is None else subscription.sub_string or "*",
        filter=found.filter_data,
    )


def _entries(found: QueryConsumeQueueResponseBody, begin: int, *, with_group: bool) -> tuple[QueueEntry, ...]:
    return tuple(
        _entry(begin + number, each, with_group=with_group) for number, each in enumerate(found.queue_data or ())
    )


def _entry(offset: int, found: ConsumeQueueData, *, with_group: bool) -> QueueEntry:
    return QueueEntry(
        offset=offset,
        position=found.physic_offset,
        size=found.physic_size,
        tags_code=found.tags_code,
        delivered=found.eval if with_group else None,
        extension=found.extend_data_json or None,
        remark=found.msg or None,
    )
