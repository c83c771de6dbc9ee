"""Consumers that are connected to brokers, and their state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocketpy.admin.clients import is_offline, merged
from rocketpy.admin.groups import check_known
from rocketpy.admin.part import Part, check_texts
from rocketpy.admin.results.clients import (
    ConnectedConsumers,
    ConsumerState,
    DirectConsumption,
    DirectOutcome,
    GroupSubscription,
    MemberOffset,
    QueueState,
    TopicState,
)
from rocketpy.admin.results.times import moment
from rocketpy.admin.tracking import groups_of, topics_of
from rocketpy.client.api import clients as clients_api
from rocketpy.client.api import group as group_api
from rocketpy.errors import (
    BrokerError,
    ConfigError,
    GroupNotFoundError,
    SubscriptionGroupNotExistError,
)
from rocketpy.message import MessageExt
from rocketpy.wire.enums import ConsumeType
from rocketpy.wire.names import check_group, check_topic

if TYPE_CHECKING:
    from rocketpy.admin.servers import Servers
    from rocketpy.wire.bodies.groups import ConsumerConnection
    from rocketpy.wire.bodies.running import ConsumerRunningInfo
    from rocketpy.wire.bodies.subscription import SubscriptionData

__all__ = ["Consumers"]

_PASSED_ON = 11.0
"""Timeout, in seconds, of requests that a broker passes on to a client; the broker waits ten for the client."""
_DIGITS = 20
"""More digits than any time in milliseconds has."""


class Consumers(Part):
    """Connected consumers: ``admin.consumers``."""

    __slots__ = ()

    # --- groups ---------------------------------------------------------------------------------------

    async def connections(self, group: str) -> ConnectedConsumers:
        """The connected members of a consumer group, of which there may be none, and the subscriptions of the group.

        Raises:
            ConfigError: the group name is not valid.
            GroupNotFoundError: no broker has the group.
            BrokersFailedError: some brokers did not answer; `result` has the answers of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        check_group(group)
        servers = self._usable()

        async def ask(name: str, address: str) -> ConsumerConnection | None:
            try:
                return await group_api.consumer_connections(
                    servers.client.pool, address, group, timeout=servers.timeout
                )
            except BrokerError as error:
                if is_offline(error) or isinstance(error, SubscriptionGroupNotExistError):
                    return None
                raise

        masters = await servers.masters()
        found = await servers.each(
            masters, ask, lambda found: _connected(group, found), doing=f"asking for the consumers of {group}"
        )
        if not found.clients:
            await check_known(servers, group)
        return found

    async def of_topic(self, topic: str) -> tuple[str, ...]:
        """The groups that subscribe to a topic or have offsets in it, sorted.

        Groups of RocketMQ's own are left out, such as the one that its tools read with.

        Raises:
            ConfigError: the topic name is not valid.
            TopicNotFoundError: the topic does not exist.
            BrokersFailedError: some brokers did not answer; `result` has the groups of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        servers = self._usable()

        async def ask(name: str, address: str) -> set[str]:
            return await groups_of(servers, address, topic)

        masters = await servers.masters_of(topic)
        return await servers.each(masters, ask, _union, doing=f"asking which groups consume {topic}")

    async def topics(self, group: str) -> tuple[str, ...]:
        """The topics in which a group has offsets, sorted, including its retry topic.

        Raises:
            ConfigError: the group name is not valid.
            GroupNotFoundError: no broker has the group.
            BrokersFailedError: some brokers did not answer; `result` has the topics of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        check_group(group)
        servers = self._usable()
        await check_known(servers, group)

        async def ask(name: str, address: str) -> set[str]:
            return await topics_of(servers, address, group)

        return await servers.each(await servers.masters(), ask, _union, doing=f"asking which topics {group} consumes")

    # --- one member -----------------------------------------------------------------------------------

    async def state(self, group: str, client_id: str, *, stacks: bool = False) -> ConsumerState:
        """The state of a member of a group, as the member reports it: its queues, rates and settings.

        Args:
            group: the group.
            client_id: the member, as `connections` names it.
            stacks: whether to include the stacks of its threads and tasks.

        Raises:
            ConfigError: an argument cannot be used.
            GroupNotFoundError: no broker has the group, or the member is not connected.
            BrokerError: the member did not answer the broker.
            RocketMQError: the broker did not answer, or no name server did.
        """
        servers = self._usable()
        address = await self._broker_of(servers, group, client_id)
        timeout = max(servers.timeout, _PASSED_ON)
        pool = servers.client.pool
        info = await group_api.running_info(pool, address, group, client_id, stacks=stacks, timeout=timeout)
        return _state(group, client_id, info)

    async def offsets(self, group: str, topic: str, *, client_id: str | None = None) -> tuple[MemberOffset, ...]:
        """The offsets in a topic that the members of a group report, sorted by queue.

        Args:
            group: the group.
            topic: the topic.
            client_id: only this member; None for all.

        Raises:
            ConfigError: an argument cannot be used.
            GroupNotFoundError: no broker has the group.
            TopicNotFoundError: the topic does not exist.
            BrokersFailedError: some brokers did not answer; `result` has the answers of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        check_group(group)
        check_topic(topic)
        if client_id is not None:
            check_texts(client_id=client_id)
        servers = self._usable()
        masters = await servers.masters_of(topic)

        async def ask(name: str, address: str) -> list[MemberOffset]:
            timeout = max(servers.timeout, _PASSED_ON)
            try:
                found = await clients_api.consumer_status(
                    servers.client.pool, address, group, topic, client_id=client_id, timeout=timeout
                )
            except BrokerError as error:
                if is_offline(error):
                    return []
                raise
            return [
                MemberOffset(client_id=member, queue=queue, offset=offset)
                for member, table in found.consumer_table.items()
                for queue, offset in table.items()
            ]

        def combine(found: dict[str, list[MemberOffset]]) -> tuple[MemberOffset, ...]:
            # Each broker asks all members, and each member answers with the queues of all brokers.
            offsets = {(each.queue, each.client_id): each for part in found.values() for each in part}
            return tuple(offsets[key] for key in sorted(offsets))

        doing = f"asking for the offsets of the members of {group}"
        offsets = await servers.each(masters, ask, combine, doing=doing)
        if not offsets:
            await check_known(servers, group)
        return offsets

    async def consume(self, group: str, client_id: str, message: MessageExt) -> DirectConsumption:
        """Have a member of a group consume one stored message now. This does not depend on offsets, nor change them.

        Args:
            group: the group.
            client_id: the member, as `connections` names it.
            message: a message that was read from a broker.

        Raises:
            ConfigError: an argument cannot be used.
            GroupNotFoundError: no broker has the group, or the member is not connected.
            BrokerError: the member did not answer the broker, or does not consume the topic.
            RocketMQError: the broker did not answer, or no name server did.
        """
        if not isinstance(message, MessageExt):
            raise ConfigError(f"only a message that was read from a broker can be consumed, not {message!r:.100}")
        servers = self._usable()
        address = await self._broker_of(servers, group, client_id, message.broker_name)
        found = await clients_api.consume_directly(
            servers.client.pool,
            address,
            group,
            client_id,
            message.topic,
            message.offset_message_id,
            timeout=max(servers.timeout, _PASSED_ON),
        )
        return DirectConsumption(
            outcome=None if found.consume_result is None else DirectOutcome(found.consume_result.value),
            remark=found.remark or "",
            seconds=found.spent_time_mills / 1000,
            orderly=found.order,
        )

    async def _broker_of(self, servers: Servers, group: str, client_id: str, broker: str = "") -> str:
        """The address of a broker that a member is connected to; that of `broker`, if given.

        Raises:
            GroupNotFoundError: the member is not connected.
        """
        connected = await self.connections(group)
        member = next((each for each in connected.clients if each.client_id == client_id), None)
        if member is None or (broker and broker not in member.brokers):
            known = ", ".join(each.client_id for each in connected.clients[:5]) or "none"
            where = f" to {broker}" if member is not None else ""
            raise GroupNotFoundError(
                f"the group {group} has no member {client_id!r:.100} that is connected{where}; connected members: "
                f"{known}",
                group=group,
            )
        return await servers.one(broker or member.brokers[0])


# --- steps ---------------------------------------------------------------------------------------------


def _union(found: dict[str, set[str]]) -> tuple[str, ...]:
    return tuple(sorted({name for names in found.values() for name in names}))


def _subscriptions(found: Iterable[SubscriptionData]) -> tuple[GroupSubscription, ...]:
    by_topic = {each.topic: each for each in found}
    return tuple(
        GroupSubscription(topic=topic, expression=each.sub_string or "*", is_sql=not each.is_tag)
        for topic, each in sorted(by_topic.items())
    )


def _connected(group: str, found: dict[str, ConsumerConnection | None]) -> ConnectedConsumers:
    parts = {name: each for name, each in found.items() if each is not None}
    first = next(iter(parts.values()), None)
    start = None if first is None else first.consume_from_where
    return ConnectedConsumers(
        group=group,
        clients=merged(group, {name: each.connection_set for name, each in parts.items()}),
        subscriptions=_subscriptions(data for each in parts.values() for data in each.subscription_table.values()),
        message_model=None if first is None else first.message_model,
        is_push=first is not None and first.consume_type is ConsumeType.CONSUME_PASSIVELY,
        consume_from_where=None if start is None else start.name,
    )


def _state(group: str, client_id: str, info: ConsumerRunningInfo) -> ConsumerState:
    started = info.properties.get("PROP_CONSUMER_START_TIMESTAMP", "")
    queues = (
        QueueState(
            queue=queue,
            commit_offset=each.commit_offset,
            cached_messages=each.cached_msg_count,
            cached_mib=each.cached_msg_size_in_mi_b,
            locked=each.locked,
            dropped=each.droped,
            last_pull_at=moment(each.last_pull_timestamp),
            last_consume_at=moment(each.last_consume_timestamp),
        )
        for queue, each in sorted(info.mq_table.items())
    )
    topics = (
        TopicState(
            topic=topic,
            pull_time=each.pull_rt / 1000,
            pull_rate=each.pull_tps,
            consume_time=each.consume_rt / 1000,
            consume_rate=each.consume_ok_tps,
            failure_rate=each.consume_failed_tps,
            failed=each.consume_failed_msgs,
        )
        for topic, each in sorted(info.status_table.items())
    )
    return ConsumerState(
        group=group,
        client_id=client_id,
        started_at=moment(int(started)) if started.isdecimal() and len(started) < _DIGITS else None,
        subscriptions=_subscriptions(info.subscription_set),
        queues=tuple(queues),
        topics=tuple(topics),
        settings=dict(info.properties),
        stacks=info.jstack or None,
    )
