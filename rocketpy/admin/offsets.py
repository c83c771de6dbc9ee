"""Offsets: the lag of consumer groups, and looking up, resetting, committing and copying their offsets."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from rocketpy.admin.clients import is_offline
from rocketpy.admin.groups import brokers_with, check_known, unknown
from rocketpy.admin.part import Part
from rocketpy.admin.reading import bounds, check_queue
from rocketpy.admin.results.groups import GroupLag, QueueLag, QueueOffset
from rocketpy.admin.results.times import moment
from rocketpy.admin.slices import sorted_steps
from rocketpy.admin.tracking import topics_of
from rocketpy.client.api import group as group_api
from rocketpy.client.api import offset as offset_api
from rocketpy.client.api import stats as stats_api
from rocketpy.client.arguments import checked_offset, checked_queue
from rocketpy.errors import (
    BrokerError,
    ConfigError,
    GroupNotFoundError,
    OffsetOutOfRangeError,
    SubscriptionGroupNotExistError,
)
from rocketpy.message import MessageQueue
from rocketpy.moments import checked_moment
from rocketpy.wire.names import check_group, check_topic, is_system_group

if TYPE_CHECKING:
    from rocketpy.admin.servers import Servers
    from rocketpy.wire.bodies.stats import ConsumeStats, ConsumeStatsList

__all__ = ["Offsets", "Target"]

Target: TypeAlias = Literal["begin", "end"] | int | datetime
"""Where a group continues, at the oldest message, after the newest one, or at a store time."""

_END = -1
"""The time that means the end of a queue."""


class Offsets(Part):
    """The offsets of consumer groups: ``admin.offsets``."""

    __slots__ = ()

    # --- look -----------------------------------------------------------------------------------------

    async def lag(self, group: str, *, topic: str | None = None) -> GroupLag:
        """The lag of a group, with its committed offset in every queue.

        Args:
            group: the group.
            topic: only the queues of this topic; None for all topics that it consumes, including its retry topic.

        Raises:
            ConfigError: an argument cannot be used.
            GroupNotFoundError: no broker has the group.
            TopicNotFoundError: the topic does not exist.
            BrokersFailedError: some brokers did not answer; `result` has the queues of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        check_group(group)
        servers = self._usable()
        masters = await (servers.masters() if topic is None else servers.masters_of(topic))

        async def ask(name: str, address: str) -> ConsumeStats:
            pool, timeout = servers.client.pool, servers.timeout
            return await stats_api.consume_stats(pool, address, group, topic=topic, timeout=timeout)

        def combine(found: dict[str, ConsumeStats]) -> Generator[None, None, GroupLag]:
            return _lag(group, found.values())

        found = await servers.each_large(masters, ask, combine, doing=f"asking for the lag of the group {group}")
        if not found.queues:
            await check_known(servers, group)
        return found

    async def lags(
        self, *, brokers: Iterable[str] | None = None, cluster: str | None = None, internal: bool = False
    ) -> tuple[GroupLag, ...]:
        """The lag of every group, sorted by group.

        Args:
            brokers: only the queues on these brokers, given by name or address.
            cluster: only the queues on the brokers of this cluster.
            internal: whether to include groups of RocketMQ's own.

        Raises:
            ConfigError: the name of a broker cannot be used, or both brokers and a cluster are given.
            BrokerNotFoundError: there is no such broker or cluster, or no broker at all.
            BrokersFailedError: some brokers did not answer; `result` has the queues of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        servers = self._usable()

        async def ask(name: str, address: str) -> ConsumeStatsList:
            return await stats_api.all_consume_stats(servers.client.pool, address, timeout=servers.timeout)

        def combine(found: dict[str, ConsumeStatsList]) -> Generator[None, None, tuple[GroupLag, ...]]:
            return _lags((each for part in found.values() for each in part.consume_stats_list), internal=internal)

        masters = await servers.masters(brokers, cluster=cluster)
        return await servers.each_large(masters, ask, combine, doing="asking for the lag of all groups")

    async def at(self, queue: MessageQueue, time: int | datetime) -> int:
        """The offset of the first message that was stored at or after a time; the end of the queue if there is none.

        Args:
            queue: the queue.
            time: ms since 1970, or a datetime with a time zone.

        Raises:
            ConfigError: an argument cannot be used, or the broker has no such queue.
            TopicNotFoundError: the topic does not exist.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        checked_queue(queue)
        timestamp = checked_moment("time", time)
        servers = self._usable()
        pool, address = servers.client.pool, await servers.one(queue.broker_name)
        found = await offset_api.search_offset(pool, address, queue, timestamp, timeout=servers.timeout)
        if found == 0:  # also what brokers answer for a queue that they do not have
            await check_queue(servers, queue)
        return found

    # --- change ---------------------------------------------------------------------------------------

    async def reset(self, group: str, topic: str, to: Target) -> tuple[QueueOffset, ...]:
        """Set the offsets of a group in all queues of a topic. The group may be running.

        Running members continue at the new offsets with their next pull. They may still consume messages that they have
        already pulled.

        Args:
            group: the group.
            topic: the topic.
            to: "begin", "end", or the store time of the first message to consume, as ms since 1970 or a datetime.

        Returns:
            The new offsets, sorted by queue.

        Raises:
            ConfigError: an argument cannot be used, or it is a group of RocketMQ's own.
            GroupNotFoundError: no broker has the group, or the only broker of the topic does not.
            TopicNotFoundError: the topic does not exist.
            BrokersFailedError: some brokers did not reset the group; the others did, and `result` has their offsets.
            RocketMQError: the only broker refused or did not answer, or no name server answered.
        """
        _check_changeable(group)
        timestamp = _timestamp(to)
        servers = self._usable()
        route = await servers.route(topic)
        known = await brokers_with(servers, group)
        if not known:
            raise unknown(group)
        queues = {each.broker_name: each.read_queue_nums for each in route.queue_datas}

        async def reset(name: str, address: str) -> dict[MessageQueue, int]:
            pool, timeout = servers.client.pool, servers.timeout
            try:
                return await offset_api.reset_offset(pool, address, group, topic, timestamp=timestamp, timeout=timeout)
            except SubscriptionGroupNotExistError as error:
                raise _not_there(name, group) from error
            except BrokerError as error:
                # Brokers that only notify the members refuse if there are none, or if nothing was ever committed.
                if not is_offline(error):
                    raise
                if await group_api.consumer_list(pool, address, group, timeout=timeout):
                    raise
                if name not in known:  # brokers of 4.x store offsets of any group
                    raise _not_there(name, group) from error
            places = [MessageQueue(topic, name, number) for number in range(queues.get(name, 0))]
            return await _commit_at(servers, address, group, places, timestamp)

        masters = servers.masters_in(topic, route.broker_datas)
        return await servers.each(masters, reset, _offsets, doing=f"resetting {group} on {topic}")

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit an offset of a queue for a group that is not running; running members would overwrite it.

        Args:
            group: the group.
            queue: the queue.
            offset: the offset of the next message to consume.

        Raises:
            ConfigError: an argument cannot be used, the broker has no such queue, or it is a group of RocketMQ's own.
            OffsetOutOfRangeError: the offset lies outside of the queue.
            SubscriptionGroupNotExistError: the broker does not have the group.
            TopicNotFoundError: the topic does not exist.
            RocketMQError: the broker cannot be reached, does not answer, or refuses.
        """
        _check_changeable(group)
        checked_queue(queue)
        checked_offset(offset)
        servers = self._usable()
        address = await servers.one(queue.broker_name)
        await check_queue(servers, queue)
        begin, end = await bounds(servers, address, queue)
        if not begin <= offset <= end:
            raise OffsetOutOfRangeError(
                f"{queue} goes from offset {begin} to {end}, so {offset} cannot be committed",
                offset=offset,
                min_offset=begin,
                max_offset=end,
            )
        await _commit(servers, address, group, queue, offset)

    async def clone(self, source: str, target: str, topic: str) -> None:
        """Copy the committed offsets of a group in a topic to another group, which must not be running.

        In queues in which `source` has no offset, our brokers keep that of `target`, and Apache's delete it.

        Args:
            source: the group whose offsets are copied.
            target: the group to which they are copied.
            topic: the topic.

        Raises:
            ConfigError: an argument cannot be used, both groups are the same, or `target` is a group of RocketMQ's own.
            GroupNotFoundError: no broker has `source`, or none has `target`, or `source` has no offset in the topic.
            TopicNotFoundError: the topic does not exist.
            BrokersFailedError: some brokers did not copy the offsets; the others did.
            RocketMQError: the only broker refused or did not answer, or no name server answered.
        """
        check_group(source)
        _check_changeable(target)
        if source == target:
            raise ConfigError(f"the offsets of {source} cannot be copied to itself")
        check_topic(topic)
        servers = self._usable()
        masters = await servers.masters_of(topic)
        for group in (source, target):
            await check_known(servers, group)

        copied: list[str] = []

        async def copy(name: str, address: str) -> None:
            pool, timeout = servers.client.pool, servers.timeout
            if topic in await topics_of(servers, address, source):  # else a broker copies nothing, and says it did
                await offset_api.clone_offsets(pool, address, source, target, topic, timeout=timeout)
                await _follow(servers, address, source, target, topic)
                copied.append(name)

        doing = f"copying the offsets of {source} to {target}"
        await servers.each(masters, copy, lambda found: None, doing=doing)
        if not copied:
            raise GroupNotFoundError(
                f"the group {source} has no offset in {topic} on any broker: there is nothing to copy", group=source
            )


# --- steps ---------------------------------------------------------------------------------------------


def _check_changeable(group: str) -> None:
    check_group(group)
    if is_system_group(group):
        raise ConfigError(f"{group} is a group of RocketMQ's own")


def _timestamp(to: Target) -> int:
    """The time that a request for a reset names."""
    timestamp = {"begin": 0, "end": _END}.get(to) if isinstance(to, str) else None
    return checked_moment("to, unless it is 'begin' or 'end',", to) if timestamp is None else timestamp


def _not_there(broker: str, group: str) -> GroupNotFoundError:
    return GroupNotFoundError(f"{broker} does not have the group {group}", group=group)


def _lag(group: str, tables: Iterable[ConsumeStats]) -> Generator[None, None, GroupLag]:
    found = list(tables)
    queues = (
        QueueLag(
            queue=queue,
            end=each.broker_offset,
            committed=each.consumer_offset,
            pulled=max(each.pull_offset, each.consumer_offset),
            last_consumed_at=moment(each.last_timestamp),
        )
        for table in found
        for queue, each in table.offset_table.items()
    )
    rate = sum(table.consume_tps for table in found)
    return GroupLag(group=group, queues=(yield from sorted_steps(queues, key=lambda each: each.queue)), rate=rate)


def _lags(
    entries: Iterable[dict[str, list[ConsumeStats]]], *, internal: bool
) -> Generator[None, None, tuple[GroupLag, ...]]:
    """The lags of all groups, from entries that each have one group or several, on one broker."""
    tables: dict[str, list[ConsumeStats]] = {}
    for entry in entries:
        for group, stats in entry.items():
            tables.setdefault(group, []).extend(stats)
        yield
    found = []
    for group in sorted(tables):
        if internal or not is_system_group(group):
            found.append((yield from _lag(group, tables[group])))
        yield
    return tuple(found)


def _offsets(found: dict[str, dict[MessageQueue, int]]) -> tuple[QueueOffset, ...]:
    offsets = {queue: offset for table in found.values() for queue, offset in table.items()}
    return tuple(QueueOffset(queue=queue, offset=offsets[queue]) for queue in sorted(offsets))


async def _commit(servers: Servers, address: str, group: str, queue: MessageQueue, offset: int) -> None:
    """Commit an offset, also if the group was reset and no member has pulled since: brokers ignore commits then."""
    pool, timeout = servers.client.pool, servers.timeout
    if not await offset_api.update_consumer_offset(pool, address, group, queue, offset, wait=True, timeout=timeout):
        await offset_api.reset_offset(
            pool, address, group, queue.topic, queue_id=queue.queue_id, offset=offset, timeout=timeout
        )


async def _follow(servers: Servers, address: str, source: str, target: str, topic: str) -> None:
    """Commit for a group the offsets of another in queues where copying them has had no effect.

    Apache's brokers copy offsets, but not over those to which `target` was reset before.
    """
    pool, timeout = servers.client.pool, servers.timeout
    wanted = await stats_api.consume_stats(pool, address, source, topic=topic, timeout=timeout)
    found = await stats_api.consume_stats(pool, address, target, topic=topic, timeout=timeout)
    for queue, each in found.offset_table.items():
        model = wanted.offset_table.get(queue)
        if model is None or model.consumer_offset == each.consumer_offset:
            continue
        # The tables have 0 also where there is no offset.
        offset = await offset_api.query_consumer_offset(
            pool, address, source, queue, set_zero_if_not_found=False, timeout=timeout
        )
        if offset is not None:
            await _commit(servers, address, target, queue, offset)


async def _commit_at(
    servers: Servers, address: str, group: str, queues: Iterable[MessageQueue], timestamp: int
) -> dict[MessageQueue, int]:
    """Commit the offsets of a store time for a group without running members."""
    pool, timeout = servers.client.pool, servers.timeout
    found: dict[MessageQueue, int] = {}
    for queue in queues:
        if timestamp == _END:
            offset = await offset_api.max_offset(pool, address, queue, timeout=timeout)
        else:
            offset = await offset_api.search_offset(pool, address, queue, timestamp, timeout=timeout)
        await offset_api.update_consumer_offset(pool, address, group, queue, offset, wait=True, timeout=timeout)
        found[queue] = offset
    return found
