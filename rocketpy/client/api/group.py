"""Requests about groups: heartbeats, leaving, members, locks of queues, and checks of filter expressions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.client.call import ask, body_of, call, oneway, read_body, request
from rocketpy.errors import BrokerError, FilterRefusedError
from rocketpy.wire.bodies.groups import ConsumerConnection, GetConsumerListByGroupResponseBody
from rocketpy.wire.bodies.heartbeat import CheckClientRequestBody
from rocketpy.wire.bodies.locks import LockBatchRequestBody, LockBatchResponseBody, UnlockBatchRequestBody
from rocketpy.wire.bodies.running import ConsumerRunningInfo
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.group import (
    GetConsumerConnectionListRequestHeader,
    GetConsumerListByGroupRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    HeartbeatRequestHeader,
    LockBatchMqRequestHeader,
    UnlockBatchMqRequestHeader,
    UnregisterClientRequestHeader,
)

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.bodies.heartbeat import HeartbeatData
    from rocketpy.wire.bodies.subscription import SubscriptionData

__all__ = [
    "check_filter",
    "consumer_connections",
    "consumer_list",
    "heartbeat",
    "lock_batch",
    "running_info",
    "unlock_batch",
    "unregister",
]

_CANNOT_FILTER = (ResponseCode.SYSTEM_ERROR, ResponseCode.SUBSCRIPTION_PARSE_FAILED)
"""Other answers say nothing about the expression: the broker may be busy, or may not know the request."""


async def heartbeat(pool: ConnectionPool, address: str, data: HeartbeatData, *, timeout: float) -> int:
    """Send a heartbeat to a broker. Returns the broker's version.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = request(RequestCode.HEART_BEAT, HeartbeatRequestHeader(), data.encode())
    answer = await ask(pool, address, command, timeout=timeout, doing="a heartbeat")
    return answer.version


async def unregister(
    pool: ConnectionPool,
    address: str,
    client_id: str,
    *,
    producer_group: str | None = None,
    consumer_group: str | None = None,
    timeout: float,
) -> None:
    """Leave a group, so that its other members rebalance at once.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    header = UnregisterClientRequestHeader(
        client_id=client_id, producer_group=producer_group, consumer_group=consumer_group
    )
    command = request(RequestCode.UNREGISTER_CLIENT, header)
    group = producer_group or consumer_group
    await ask(pool, address, command, timeout=timeout, doing=f"leaving the group {group}")


async def check_filter(
    pool: ConnectionPool, address: str, client_id: str, group: str, wanted: SubscriptionData, *, timeout: float
) -> None:
    """Ask a broker whether it accepts the expression of a subscription.

    Raises:
        FilterRefusedError: it does not filter by expressions, or the expression is wrong.
        TransportError, RequestTimeoutError: it does not answer.
    """
    body = CheckClientRequestBody(client_id=client_id, group=group, subscription_data=wanted)
    answer = await call(pool, address, request(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode()), timeout=timeout)
    if answer.code in _CANNOT_FILTER:
        raise FilterRefusedError(
            answer.code,
            answer.remark or "",
            address=address,
            topic=wanted.topic,
            expression=wanted.sub_string or "",
        )


async def consumer_list(pool: ConnectionPool, address: str, group: str, *, timeout: float) -> list[str]:
    """The client ids of a consumer group's members that a broker knows; empty if it knows none.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroupRequestHeader(consumer_group=group))
    try:
        answer = await ask(pool, address, command, timeout=timeout, doing=f"asking for the members of {group}")
    except BrokerError as error:
        # A broker that does not know any member of the group answers SYSTEM_ERROR.
        if error.code == ResponseCode.SYSTEM_ERROR:
            return []
        raise
    return (await read_body(GetConsumerListByGroupResponseBody, answer, address)).consumer_id_list


async def consumer_connections(pool: ConnectionPool, address: str, group: str, *, timeout: float) -> ConsumerConnection:
    """The members of a consumer group that are connected to a broker, and the subscriptions that it has of the group.

    Raises:
        BrokerError: the broker refuses, or knows no member.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = request(
        RequestCode.GET_CONSUMER_CONNECTION_LIST, GetConsumerConnectionListRequestHeader(consumer_group=group)
    )
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking who is in the group {group}")
    return await read_body(ConsumerConnection, answer, address)


async def running_info(
    pool: ConnectionPool, address: str, group: str, client_id: str, *, stacks: bool = False, timeout: float
) -> ConsumerRunningInfo:
    """The state of a member of a consumer group, which the broker asks it for; with its stacks if `stacks`.

    Raises:
        BrokerError: the broker refuses, or the member is not connected to it.
        TransportError, RequestTimeoutError: it does not answer.
        RemoteProtocolError: the answer is damaged.
    """
    header = GetConsumerRunningInfoRequestHeader(consumer_group=group, client_id=client_id, jstack_enable=stacks)
    command = request(RequestCode.GET_CONSUMER_RUNNING_INFO, header)
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking how {client_id} of {group} is")
    return await read_body(ConsumerRunningInfo, answer, address)


async def lock_batch(
    pool: ConnectionPool, address: str, group: str, client_id: str, queues: Iterable[MessageQueue], *, timeout: float
) -> set[MessageQueue]:
    """Lock queues of a broker for a client of a group, or renew locks. Returns the queues that the client now holds.

    Other clients hold the others; a broker frees a lock that was not renewed for 60 s.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
        RemoteProtocolError: its answer is damaged.
    """
    body = LockBatchRequestBody(consumer_group=group, client_id=client_id, mq_set=set(queues))
    command = request(RequestCode.LOCK_BATCH_MQ, LockBatchMqRequestHeader(), body.encode())
    answer = await ask(pool, address, command, timeout=timeout, doing=f"locking queues for {group}")
    return body_of(LockBatchResponseBody, answer, address).lock_ok_mq_set & body.mq_set


async def unlock_batch(
    pool: ConnectionPool, address: str, group: str, client_id: str, queues: Iterable[MessageQueue], *, timeout: float
) -> None:
    """Unlock queues of a broker, without waiting for the answer: locks that are not renewed expire by themselves.

    Raises:
        ConnectError: the broker cannot be reached.
    """
    body = UnlockBatchRequestBody(consumer_group=group, client_id=client_id, mq_set=set(queues))
    command = request(RequestCode.UNLOCK_BATCH_MQ, UnlockBatchMqRequestHeader(), body.encode())
    await oneway(pool, address, command, timeout=timeout)
