"""Requests for messages by their position in the commit log, and by a key or a unique id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.client.call import ask, read_body, request
from rocketpy.errors import QueryNotFoundError
from rocketpy.wire.bodies.consume_queue import QueryConsumeQueueResponseBody
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.admin import QueryConsumeQueueRequestHeader
from rocketpy.wire.headers.query import QueryMessageRequestHeader, ViewMessageRequestHeader
from rocketpy.wire.message_codec import decode_messages, decode_record

if TYPE_CHECKING:
    from rocketpy.message import MessageExt, MessageQueue
    from rocketpy.remoting.pool import ConnectionPool

__all__ = ["query_messages", "queue_entries", "view_message"]


async def view_message(
    pool: ConnectionPool, address: str, offset: int, *, broker_name: str = "", topic: str | None = None, timeout: float
) -> MessageExt:
    """The message whose record begins at an offset of a broker's commit log.

    Args:
        broker_name: the broker name to set on the message.
        topic: its topic, which some versions of the broker require.

    Raises:
        BrokerError: there is no such message, or the broker refuses.
        MessageDecodeError: the record is damaged.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    command = request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(topic=topic, offset=offset))
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking for the message at {offset} of the log")
    return decode_record(bytes(answer.body), broker_name=broker_name)


async def query_messages(
    pool: ConnectionPool,
    address: str,
    topic: str,
    key: str,
    *,
    begin: int,
    end: int,
    count: int,
    unique: bool = False,
    broker_name: str = "",
    timeout: float,
) -> list[MessageExt]:
    """Messages that the index of a broker has under a key, including those whose keys have the same hash.

    Args:
        begin: the earliest store time, in ms since 1970.
        end: the latest store time, in ms since 1970.
        count: the maximum number of messages; brokers return at most 64.
        unique: whether the key is a unique id.
        broker_name: the broker name to set on the messages.

    Raises:
        BrokerError: the broker refuses.
        MessageDecodeError: a record is damaged.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    header = QueryMessageRequestHeader(
        topic=topic,
        key=key,
        max_num=count,
        begin_timestamp=begin,
        end_timestamp=end,
        unique_key_query=True if unique else None,
    )
    command = request(RequestCode.QUERY_MESSAGE, header)
    try:
        answer = await ask(pool, address, command, timeout=timeout, doing=f"looking for {key} in {topic}")
    except QueryNotFoundError:
        return []
    return decode_messages(bytes(answer.body), broker_name=broker_name)


async def queue_entries(
    pool: ConnectionPool,
    address: str,
    queue: MessageQueue,
    begin: int,
    count: int,
    *,
    group: str | None = None,
    timeout: float,
) -> QueryConsumeQueueResponseBody:
    """Entries of a consume queue, and which of them a group would get.

    Raises:
        BrokerError: the broker has no such queue, or refuses.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    header = QueryConsumeQueueRequestHeader(
        topic=queue.topic, queue_id=queue.queue_id, index=begin, count=count, consumer_group=group
    )
    command = request(RequestCode.QUERY_CONSUME_QUEUE, header)
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking for the entries of {queue}")
    return await read_body(QueryConsumeQueueResponseBody, answer, address)
