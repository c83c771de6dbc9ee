"""What a client tells and asks brokers about groups: heartbeats, leaving, who is a member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.client.api.call import ask, body_of, request
from rocketpy.errors import BrokerError
from rocketpy.wire.bodies.groups import GetConsumerListByGroupResponseBody
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.group import (
    GetConsumerListByGroupRequestHeader,
    HeartbeatRequestHeader,
    UnregisterClientRequestHeader,
)

if TYPE_CHECKING:
    from rocketpy.remoting.pool import ConnectionPool
    from rocketpy.wire.bodies.heartbeat import HeartbeatData

__all__ = ["consumer_list", "heartbeat", "unregister"]


async def heartbeat(pool: ConnectionPool, address: str, data: HeartbeatData, *, timeout: float) -> int:
    """Tell a broker who is here. Returns the broker's version.

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
    """Leave a group, so that the broker shares out its queues at once and asks us nothing more.

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


async def consumer_list(pool: ConnectionPool, address: str, group: str, *, timeout: float) -> list[str]:
    """Ids of the clients that a broker knows in a consumer group; empty when it knows none.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    command = request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, GetConsumerListByGroupRequestHeader(consumer_group=group))
    try:
        answer = await ask(pool, address, command, timeout=timeout, doing=f"asking for the members of {group}")
    except BrokerError as error:
        # A broker that has never seen the group, or no member of it any more, says SYSTEM_ERROR.
        if error.code == ResponseCode.SYSTEM_ERROR:
            return []
        raise
    return body_of(GetConsumerListByGroupResponseBody, answer, address).consumer_id_list
