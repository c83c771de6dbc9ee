"""Traffic: how much of a topic is stored, and how much of it each consumer group consumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from rocketpy.admin.results.topics import GroupTraffic, TopicTraffic
from rocketpy.admin.tracking import groups_of
from rocketpy.client.api import stats as stats_api
from rocketpy.errors import BrokerError, RocketMQError
from rocketpy.services import side_by_side
from rocketpy.wire.codes import ResponseCode

if TYPE_CHECKING:
    from rocketpy.admin.servers import Servers
    from rocketpy.wire.bodies.stats import BrokerStatsItem

__all__ = ["traffic"]

_Counts: TypeAlias = tuple[float, int]
"""Messages a second in the last minute, and messages of the last day."""


async def traffic(servers: Servers, topic: str) -> TopicTraffic:
    """The traffic of a topic, on all brokers that hold it.

    Raises:
        RocketMQError: as `Topics.traffic` says.
    """

    async def ask(name: str, address: str) -> TopicTraffic:
        rate, stored = await _counts(servers, address, "TOPIC_PUT_NUMS", topic)
        found: dict[str, GroupTraffic] = {}
        failures: list[RocketMQError] = []

        async def look(group: str) -> None:
            try:
                found[group] = await _of_group(servers, address, topic, group)
            except RocketMQError as error:
                failures.append(error)

        await side_by_side(look, await groups_of(servers, address, topic))
        if failures:
            raise failures[0]
        return TopicTraffic(topic=topic, put_rate=rate, puts=stored, groups=tuple(found.values()))

    masters = await servers.masters_of(topic)
    return await servers.each(
        masters, ask, lambda found: _sum(topic, list(found.values())), doing=f"asking for the traffic of {topic}"
    )


async def _of_group(servers: Servers, address: str, topic: str, group: str) -> GroupTraffic:
    pool, timeout = servers.client.pool, servers.timeout
    rate, consumed = await _counts(servers, address, "GROUP_GET_NUMS", f"{topic}@{group}")
    stats = await stats_api.consume_stats(pool, address, group, topic=topic, timeout=timeout)
    lag = sum(max(0, each.broker_offset - each.consumer_offset) for each in stats.offset_table.values())
    return GroupTraffic(group=group, lag=lag, get_rate=rate, gets=consumed)


async def _counts(servers: Servers, address: str, name: str, key: str) -> _Counts:
    try:
        found = await stats_api.broker_stats(servers.client.pool, address, name, key, timeout=servers.timeout)
    except BrokerError as error:
        if error.code == ResponseCode.SYSTEM_ERROR:  # nothing has been counted under this key
            return 0.0, 0
        raise
    spans = (found.stats_day, found.stats_hour, found.stats_minute)
    # Brokers note what the longer spans hold more seldom: one that holds nothing yet says nothing.
    return _rate(found.stats_minute), next((each.sum for each in spans if each is not None and each.sum), 0)


def _rate(minute: BrokerStatsItem | None) -> float:
    return 0.0 if minute is None else minute.tps


def _sum(topic: str, parts: list[TopicTraffic]) -> TopicTraffic:
    groups: dict[str, list[GroupTraffic]] = {}
    for part in parts:
        for each in part.groups:
            groups.setdefault(each.group, []).append(each)
    return TopicTraffic(
        topic=topic,
        put_rate=sum(each.put_rate for each in parts),
        puts=sum(each.puts for each in parts),
        groups=tuple(
            GroupTraffic(
                group=group,
                lag=sum(each.lag for each in groups[group]),
                get_rate=sum(each.get_rate for each in groups[group]),
                gets=sum(each.gets for each in groups[group]),
            )
            for group in sorted(groups)
        ),
    )
