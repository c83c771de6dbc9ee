"""Requests about offsets: the committed offsets of groups, and the first and last offsets of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.client.call import ask, header_of, oneway, request
from rocketpy.errors import QueryNotFoundError
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.offset import (
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.enums import BoundaryType

__all__ = [
    "earliest_store_time",
    "max_offset",
    "min_offset",
    "query_consumer_offset",
    "search_offset",
    "update_consumer_offset",
]


async def query_consumer_offset(
    pool: ConnectionPool,
    address: str,
    group: str,
    queue: MessageQueue,
    *,
    set_zero_if_not_found: bool | None = None,
    timeout: float,
) -> int | None:
    """The committed offset of a group in a queue, which is the next one to consume; None if the broker has none.

    For a group without an offset, a broker answers 0 if the queue begins at 0 and is still in memory, unless
    `set_zero_if_not_found` is False, which brokers of 4.x do not know.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    header = QueryConsumerOffsetRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        set_zero_if_not_found=set_zero_if_not_found,
        bname=queue.broker_name,
    )
    command = request(RequestCode.QUERY_CONSUMER_OFFSET, header)
    try:
        answer = await ask(
            pool, address, command, timeout=timeout, doing=f"asking for the offset of {group} in {queue}"
        )
    except QueryNotFoundError:
        return None
    return header_of(QueryConsumerOffsetResponseHeader, answer, address).offset


async def update_consumer_offset(
    pool: ConnectionPool,
    address: str,
    group: str,
    queue: MessageQueue,
    offset: int,
    *,
    wait: bool = False,
    timeout: float,
) -> None:
    """Commit the offset of the next message that a group will consume in a queue.

    Args:
        wait: whether to wait for the broker's answer; otherwise the request is one-way, as commits are repeated anyway.

    Raises:
        BrokerError: with `wait`, the broker refuses.
        TransportError, RequestTimeoutError: it cannot be reached or does not answer.
    """
    header = UpdateConsumerOffsetRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        commit_offset=offset,
        bname=queue.broker_name,
    )
    command = request(RequestCode.UPDATE_CONSUMER_OFFSET, header)
    if wait:
        await ask(pool, address, command, timeout=timeout, doing=f"committing {offset} of {group} in {queue}")
    else:
        await oneway(pool, address, command, timeout=timeout)


async def max_offset(pool: ConnectionPool, address: str, queue: MessageQueue, *, timeout: float) -> int:
    """The offset that the next message of a queue will get.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    header = GetMaxOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
    command = request(RequestCode.GET_MAX_OFFSET, header)
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking for the end of {queue}")
    return header_of(GetMaxOffsetResponseHeader, answer, address).offset


async def min_offset(pool: ConnectionPool, address: str, queue: MessageQueue, *, timeout: float) -> int:
    """The offset of the oldest message that a queue still has.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    header = GetMinOffsetRequestHeader(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
    command = request(RequestCode.GET_MIN_OFFSET, header)
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking for the beginning of {queue}")
    return header_of(GetMinOffsetResponseHeader, answer, address).offset


async def search_offset(
    pool: ConnectionPool,
    address: str,
    queue: MessageQueue,
    timestamp: int,
    *,
    boundary: BoundaryType | None = None,
    timeout: float,
) -> int:
    """The offset of the first message that was stored at a time or after it.

    Args:
        timestamp: ms since 1970.
        boundary: which one to choose if several were stored in that millisecond; the first if None.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    header = SearchOffsetRequestHeader(
        topic=queue.topic,
        queue_id=queue.queue_id,
        timestamp=timestamp,
        boundary_type=boundary,
        bname=queue.broker_name,
    )
    command = request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
    answer = await ask(pool, address, command, timeout=timeout, doing=f"searching {queue} for {timestamp}")
    return header_of(SearchOffsetResponseHeader, answer, address).offset


async def earliest_store_time(pool: ConnectionPool, address: str, queue: MessageQueue, *, timeout: float) -> int:
    """When the oldest message of a queue was stored, in ms since 1970; -1 if there is none.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    header = GetEarliestMsgStoretimeRequestHeader(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
    command = request(RequestCode.GET_EARLIEST_MSG_STORETIME, header)
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking for the age of {queue}")
    return header_of(GetEarliestMsgStoretimeResponseHeader, answer, address).timestamp
