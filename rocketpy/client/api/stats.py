"""Requests for statistics of topics and of consumer groups, and of a broker over the last minute, hour and day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.client.call import ask, body_of, read_body, request
from rocketpy.wire.bodies.stats import BrokerStatsData, ConsumeStats, ConsumeStatsList, TopicStatsTable
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.admin import (
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    GetTopicStatsInfoRequestHeader,
    ViewBrokerStatsDataRequestHeader,
)

if TYPE_CHECKING:
    from rocketpy.remoting.pool import ConnectionPool

__all__ = ["all_consume_stats", "broker_stats", "consume_stats", "topic_stats"]


async def topic_stats(pool: ConnectionPool, address: str, topic: str, *, timeout: float) -> TopicStatsTable:
    """The first and last offsets of the queues of a topic on a broker.

    Raises:
        TopicNotExistError: the broker does not hold the topic.
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    command = request(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStatsInfoRequestHeader(topic=topic))
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking for the queues of {topic}")
    return await read_body(TopicStatsTable, answer, address)


async def consume_stats(
    pool: ConnectionPool, address: str, group: str, *, topic: str | None = None, timeout: float
) -> ConsumeStats:
    """The offsets of a group on a broker, in the queues of one topic or of all topics that it consumes.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
    command = request(RequestCode.GET_CONSUME_STATS, header)
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking for the lag of the group {group}")
    return await read_body(ConsumeStats, answer, address)


async def all_consume_stats(pool: ConnectionPool, address: str, *, timeout: float) -> ConsumeStatsList:
    """The offsets of all groups on a broker.

    Raises:
        BrokerError: the broker refuses.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    header = GetConsumeStatsInBrokerHeader(is_order=False)
    command = request(RequestCode.GET_BROKER_CONSUME_STATS, header)
    answer = await ask(pool, address, command, timeout=timeout, doing="asking for the lag of all groups")
    return await read_body(ConsumeStatsList, answer, address)


async def broker_stats(pool: ConnectionPool, address: str, name: str, key: str, *, timeout: float) -> BrokerStatsData:
    """One statistic of a broker, such as TOPIC_PUT_NUMS of a topic.

    Raises:
        BrokerError: the broker refuses, or has no such statistic.
        TransportError, RequestTimeoutError: the broker does not answer.
    """
    header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
    command = request(RequestCode.VIEW_BROKER_STATS_DATA, header)
    answer = await ask(pool, address, command, timeout=timeout, doing=f"asking for {name} of {key}")
    return body_of(BrokerStatsData, answer, address)
