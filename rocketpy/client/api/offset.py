"""Requests about offsets: the committed ones of groups, the first and last ones of queues, and resets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.client.call import ask, header_of, oneway, read_body, request
from rocketpy.errors import QueryNotFoundError
from rocketpy.wire.bodies.offsets import ResetOffsetBody
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.offset import (
    CloneGroupOffsetRequestHeader,
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    ResetOffsetRequestHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.enums import BoundaryType

__all__ = [
    "clone_offsets",
    "earliest_store_time",
    "max_offset",
    "min_offset",
    "query_consumer_offset",
    "reset_offset",
    "search_offset",
    "update_consumer_offset",
]


_IGNORED = "Offset has been previously reset"
"""The remark of the answer to a commit that was ignored, from our brokers and from Apache's."""


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
) -> bool:
    """Commit the offset of the next message that a group will consume in a queue.

    Args:
        wait: whether to wait for the broker's answer; otherwise the request is one-way, as commits are repeated anyway.

    Returns:
        Whether the broker took it, as far as is known. With `wait`, False means that the group was reset and that no
        member has pulled since: until then, brokers ignore commits, and answer that they have succeeded.

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
        answer = await ask(pool, address, command, timeout=timeout, doing=f"committing {offset} of {group} in {queue}")
        return answer.remark != _IGNORED
    await oneway(pool, address, command, timeout=timeout)
    return True


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


async def reset_offset(
    pool: ConnectionPool,
    address: str,
    group: str,
    topic: str,
    *,
    timestamp: int = 0,
    queue_id: int = -1,
    offset: int | None = None,
    timeout: float,
) -> dict[MessageQueue, int]:
    """Have a group continue elsewhere in the queues of a topic on a broker, even while it runs.

    Args:
        timestamp: the store time to continue at, in ms since 1970; -1 for the ends.
        queue_id: the only queue; -1 for all. Only brokers that keep resets themselves know it.
        offset: with `queue_id`, the offset to continue at, instead of a store time.

    Returns:
        The new offsets.

    Raises:
        BrokerError: the broker refuses, or must tell the members of the group and none is connected to it.
        TransportError, RequestTimeoutError: it does not answer.
    """
    header = ResetOffsetRequestHeader(
        group=group, topic=topic, timestamp=timestamp, is_force=True, queue_id=queue_id, offset=offset
    )
    command = request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    answer = await ask(pool, address, command, timeout=timeout, doing=f"resetting {group} on {topic}")
    return (await read_body(ResetOffsetBody, answer, address)).offset_table


async def clone_offsets(
    pool: ConnectionPool, address: str, source: str, target: str, topic: str, *, timeout: float
) -> None:
    """Copy the committed offsets of a group in a topic to another group, on a broker.

    The request says that the first group is offline: otherwise a broker leaves out topics to which its connected
    members do not subscribe, and still answers that it has succeeded.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    header = CloneGroupOffsetRequestHeader(src_group=source, dest_group=target, topic=topic, offline=True)
    command = request(RequestCode.CLONE_GROUP_OFFSET, header)
    await ask(pool, address, command, timeout=timeout, doing=f"copying the offsets of {source} to {target}")
