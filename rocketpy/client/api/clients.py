"""Requests about the producers and consumers that are connected to a broker, and to the consumers themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.client.call import ask, body_of, read_body, request
from rocketpy.wire.bodies.groups import GroupList, ProducerConnection, ProducerTableInfo
from rocketpy.wire.bodies.offsets import GetConsumerStatusBody
from rocketpy.wire.bodies.running import ConsumeMessageDirectlyResult
from rocketpy.wire.bodies.topics import TopicList
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.group import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetAllProducerInfoRequestHeader,
    GetProducerConnectionListRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
)
from rocketpy.wire.headers.offset import GetConsumerStatusRequestHeader

if TYPE_CHECKING:
    from rocketpy.remoting.pool import ConnectionPool

__all__ = [
    "all_producers",
    "consume_directly",
    "consumer_status",
    "groups_of_topic",
    "producer_connections",
    "topics_of_group",
]


async def producer_connections(pool: ConnectionPool, address: str, group: str, *, timeout: float) -> ProducerConnection:
    """The members of a producer group that are connected to a broker.

    Raises:
        BrokerError: the broker refuses, or no member is connected to it.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    command = request(
        RequestCode.GET_PRODUCER_CONNECTION_LIST, GetProducerConnectionListRequestHeader(producer_group=group)
    )
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking for the producers of {group}")
    return await read_body(ProducerConnection, answer, address)


async def all_producers(pool: ConnectionPool, address: str, *, timeout: float) -> ProducerTableInfo:
    """All producers that are connected to a broker.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    command = request(RequestCode.GET_ALL_PRODUCER_INFO, GetAllProducerInfoRequestHeader())
    answer = await ask(pool, address, command, timeout=timeout, doing="asking for all producers")
    return await read_body(ProducerTableInfo, answer, address)


async def groups_of_topic(pool: ConnectionPool, address: str, topic: str, *, timeout: float) -> set[str]:
    """The groups that subscribe to a topic on a broker, or have offsets in it.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    command = request(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, QueryTopicConsumeByWhoRequestHeader(topic=topic))
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking which groups consume {topic}")
    return (await read_body(GroupList, answer, address)).group_list


async def topics_of_group(pool: ConnectionPool, address: str, group: str, *, timeout: float) -> set[str]:
    """The topics in which a group has offsets on a broker.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    command = request(RequestCode.QUERY_TOPICS_BY_CONSUMER, QueryTopicsByConsumerRequestHeader(group=group))
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking which topics {group} consumes")
    return (await read_body(TopicList, answer, address)).topic_list


async def consumer_status(
    pool: ConnectionPool, address: str, group: str, topic: str, *, client_id: str | None = None, timeout: float
) -> GetConsumerStatusBody:
    """The offsets in a topic of the members of a group. The broker asks each member for them.

    Raises:
        BrokerError: the broker refuses, or no member is connected to it.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    header = GetConsumerStatusRequestHeader(topic=topic, group=group, client_addr=client_id)
    command = request(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
    doing = f"asking for the offsets of the members of {group}"
    answer = await ask(pool, address, command, timeout=timeout, doing=doing)
    return await read_body(GetConsumerStatusBody, answer, address)


async def consume_directly(
    pool: ConnectionPool, address: str, group: str, client_id: str, topic: str, message_id: str, *, timeout: float
) -> ConsumeMessageDirectlyResult:
    """Have a member of a group consume one stored message now.

    Args:
        message_id: the offset message id.

    Raises:
        BrokerError: the broker refuses, or the member is not connected to it or does not consume the topic.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    header = ConsumeMessageDirectlyResultRequestHeader(
        consumer_group=group, client_id=client_id, msg_id=message_id, topic=topic
    )
    command = request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
    answer = await ask(pool, address, command, timeout=timeout, doing=f"having {client_id} consume {message_id}")
    return body_of(ConsumeMessageDirectlyResult, answer, address)
