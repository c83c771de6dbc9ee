"""Consumer groups: create, change, delete and list them, and set what they may read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rocketpy.admin.part import Part, changed, checked_attributes
from rocketpy.admin.results.groups import GroupSettings
from rocketpy.admin.slices import sorted_steps
from rocketpy.client.api import admin as admin_api
from rocketpy.client.arguments import checked_count, checked_flag
from rocketpy.durations import duration
from rocketpy.errors import AlreadyExistsError, BrokerError, ConfigError, GroupNotFoundError
from rocketpy.wire.bodies.groups import SubscriptionGroupConfig
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.names import check_group, check_topic, is_system_group

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.admin.servers import Servers
    from rocketpy.wire.bodies.groups import SubscriptionGroupWrapper

__all__ = ["Groups", "brokers_with", "check_known", "unknown"]

_MOST_RETRIES = 10_000
_MOST_QUEUES = 65_536
_MOST_TIMEOUT = 30 * 86_400
"""Seconds."""


class Groups(Part):
    """The consumer groups of a cluster: ``admin.groups``."""

    __slots__ = ()

    # --- look -----------------------------------------------------------------------------------------

    async def list(self, *, cluster: str | None = None, internal: bool = False) -> tuple[str, ...]:
        """The names of all consumer groups, sorted.

        Args:
            cluster: only groups on the brokers of this cluster.
            internal: whether to include groups of RocketMQ's own.

        Raises:
            BrokerNotFoundError: there is no such cluster, or no broker at all.
            BrokersFailedError: some brokers did not answer; `result` has the groups of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """

        def combine(found: dict[str, SubscriptionGroupWrapper]) -> Generator[None, None, tuple[str, ...]]:
            names = {name for each in found.values() for name in each.subscription_group_table}
            return sorted_steps((name for name in names if internal or not is_system_group(name)), key=str)

        servers = self._usable()
        masters = await servers.masters(cluster=cluster)
        return await servers.each_large(masters, _asks_for_all(servers), combine, doing="listing the groups")

    async def get(self, group: str) -> tuple[GroupSettings, ...]:
        """The settings of a group on each master that has it, sorted by broker.

        Raises:
            ConfigError: the group name is not valid.
            GroupNotFoundError: no broker has the group.
            BrokersFailedError: some brokers did not answer; `result` has the settings of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        check_group(group)
        servers = self._usable()

        def combine(found: dict[str, SubscriptionGroupWrapper]) -> tuple[GroupSettings, ...]:
            return tuple(
                _settings(name, table.subscription_group_table[group], table.forbidden_table.get(group, {}))
                for name, table in found.items()
                if group in table.subscription_group_table
            )

        masters = await servers.masters()
        found = await servers.each(masters, _asks_for_all(servers), combine, doing=f"looking at the group {group}")
        if not found:
            raise unknown(group)
        return found

    async def get_all(
        self, *, brokers: Iterable[str] | None = None, cluster: str | None = None, internal: bool = False
    ) -> tuple[GroupSettings, ...]:
        """The settings of all groups on all masters, sorted by group and broker.

        Args:
            brokers: only these brokers, given by name or address.
            cluster: only the brokers of this cluster.
            internal: whether to include groups of RocketMQ's own.

        Raises:
            ConfigError: the name of a broker cannot be used, or both brokers and a cluster are given.
            BrokerNotFoundError: there is no such broker or cluster, or no broker at all.
            BrokersFailedError: some brokers did not answer; `result` has the settings of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        servers = self._usable()

        def combine(found: dict[str, SubscriptionGroupWrapper]) -> Generator[None, None, tuple[GroupSettings, ...]]:
            settings = (
                _settings(name, config, table.forbidden_table.get(group, {}))
                for name, table in found.items()
                for group, config in table.subscription_group_table.items()
                if internal or not is_system_group(group)
            )
            return sorted_steps(settings, key=lambda each: (each.group, each.broker))

        masters = await servers.masters(brokers, cluster=cluster)
        doing = "asking for the settings of all groups"
        return await servers.each_large(masters, _asks_for_all(servers), combine, doing=doing)

    # --- change ---------------------------------------------------------------------------------------

    async def create(
        self,
        group: str,
        *,
        consume: bool = True,
        broadcast: bool = True,
        orderly: bool = False,
        max_retries: int = 16,
        retry_queues: int = 1,
        consume_timeout: float | timedelta = 900,
        attributes: Mapping[str, str] | None = None,
        brokers: Iterable[str] | None = None,
        cluster: str | None = None,
        exist_ok: bool = False,
    ) -> tuple[GroupSettings, ...]:
        """Create a consumer group.

        Args:
            group: the name.
            consume: whether it may consume at all.
            broadcast: whether it may use broadcasting.
            orderly: whether brokers of 5.x treat it as a group that consumes in order.
            max_retries: how many times a message is retried before it becomes a dead letter.
            retry_queues: number of queues of its retry topic.
            consume_timeout: seconds that a member may take for a message; a multiple of 60.
            attributes: attributes, for brokers of 5.x.
            brokers: the names or addresses of the brokers that create it; None for all masters.
            cluster: the cluster whose masters create it.
            exist_ok: whether to change a group that exists already.

        Returns:
            Its settings on each broker, sorted by broker.

        Raises:
            ConfigError: an argument cannot be used.
            AlreadyExistsError: the group exists already.
            BrokerNotFoundError: there is no such broker or cluster.
            BrokersFailedError: some brokers did not create it; the others did. Call it again with `exist_ok`.
            RocketMQError: the only broker refused or did not answer, or no name server answered.
        """
        _check_changeable(group)
        checked_flag("exist_ok", exist_ok)
        changes = _changes(consume, broadcast, orderly, max_retries, retry_queues, consume_timeout)
        config = changed(SubscriptionGroupConfig(group_name=group), attributes=_attributes(attributes), **changes)
        return await _create(self._usable(), config, brokers, cluster, exist_ok=exist_ok)

    async def update(
        self,
        group: str,
        *,
        consume: bool | None = None,
        broadcast: bool | None = None,
        orderly: bool | None = None,
        max_retries: int | None = None,
        retry_queues: int | None = None,
        consume_timeout: float | timedelta | None = None,
        attributes: Mapping[str, str | None] | None = None,
        brokers: Iterable[str] | None = None,
    ) -> tuple[GroupSettings, ...]:
        """Change settings of a group. Settings given as None are kept.

        Args:
            group: the name.
            consume: whether it may consume at all.
            broadcast: whether it may use broadcasting.
            orderly: whether brokers of 5.x treat it as a group that consumes in order.
            max_retries: how many times a message is retried before it becomes a dead letter.
            retry_queues: number of queues of its retry topic.
            consume_timeout: seconds that a member may take for a message; a multiple of 60.
            attributes: attributes to set; those whose value is None are removed.
            brokers: the names or addresses of the brokers that change it; None for all that have it.

        Returns:
            The new settings on each broker, sorted by broker.

        Raises:
            ConfigError: an argument cannot be used.
            GroupNotFoundError: no broker has the group, or one of `brokers` does not.
            BrokersFailedError: some brokers did not change it; the others did.
            RocketMQError: the only broker refused or did not answer, or no name server answered.
        """
        _check_changeable(group)
        changes = _changes(consume, broadcast, orderly, max_retries, retry_queues, consume_timeout)
        return await _update(self._usable(), group, changes, _attributes(attributes), brokers)

    async def delete(self, group: str, *, offsets: bool = False, cluster: str | None = None) -> None:
        """Delete a consumer group on all brokers that have it. Stop its members first: they would create it again.

        Its retry topic and its dead letters stay; `topics.delete` deletes the topics ``%RETRY%`` and ``%DLQ%`` followed
        by the name of the group.

        Args:
            group: the name.
            offsets: whether to delete its committed offsets too; a new group of that name then starts without any.
            cluster: delete it only on the brokers of this cluster.

        Raises:
            ConfigError: the group name is not valid, or it is a group of RocketMQ's own.
            GroupNotFoundError: no broker has the group, or none of `cluster`.
            BrokersFailedError: some brokers did not delete it; the others did.
            RocketMQError: the only broker refused or did not answer, or no name server answered.
        """
        _check_changeable(group)
        checked_flag("offsets", offsets)
        servers = self._usable()
        known = await brokers_with(servers, group, cluster=cluster)
        if not known:
            raise unknown(group, cluster)

        async def drop(name: str, address: str) -> None:
            await admin_api.delete_group(
                servers.client.pool, address, group, clean_offset=offsets, timeout=servers.timeout
            )

        masters = await servers.masters(known)
        await servers.each(masters, drop, lambda found: None, doing=f"deleting the group {group}")

    async def set_readable(self, group: str, topic: str, readable: bool) -> tuple[str, ...]:
        """Allow or forbid a group to read a topic, on all brokers that hold the topic; for brokers of 5.x.

        Args:
            group: the group.
            topic: the topic.
            readable: whether the group may read the topic.

        Returns:
            The names of these brokers, sorted.

        Raises:
            ConfigError: an argument cannot be used, or it is a group of RocketMQ's own.
            TopicNotFoundError: the topic does not exist.
            GroupNotFoundError: no broker has the group.
            BrokersFailedError: some brokers did not change it; the others did.
            RocketMQError: the only broker refused or did not answer, or no name server answered.
        """
        _check_changeable(group)
        check_topic(topic)
        wanted = checked_flag("readable", readable)
        servers = self._usable()
        await check_known(servers, group)

        async def put(name: str, address: str) -> None:
            pool, timeout = servers.client.pool, servers.timeout
            if await admin_api.group_readable(pool, address, group, topic, wanted, timeout=timeout) is not wanted:
                remark = f"the broker still says that {group} {'may not' if wanted else 'may'} read {topic}"
                raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, remark, address=address)

        masters = await servers.masters_of(topic)
        return await servers.each(masters, put, tuple, doing=f"changing whether {group} may read {topic}")


# --- for other parts too --------------------------------------------------------------------------------


async def brokers_with(servers: Servers, group: str, *, cluster: str | None = None) -> tuple[str, ...]:
    """The names of the brokers that have a group.

    Raises:
        BrokersFailedError: some brokers did not answer.
        RocketMQError: the only broker did not answer, or no name server did.
    """
    masters = await servers.masters(cluster=cluster)
    return await servers.each(
        masters,
        _asks_for_all(servers),
        lambda found: tuple(name for name, table in found.items() if group in table.subscription_group_table),
        doing=f"looking for the group {group}",
    )


async def check_known(servers: Servers, group: str) -> None:
    """Refuse a group that no broker has.

    Raises:
        GroupNotFoundError: no broker has it.
        RocketMQError: brokers or name servers did not answer.
    """
    if not await brokers_with(servers, group):
        raise unknown(group)


def unknown(group: str, cluster: str | None = None) -> GroupNotFoundError:
    """The error for a group that no broker has, or none of a cluster."""
    where = "" if cluster is None else f" of the cluster {cluster}"
    return GroupNotFoundError(f"no broker{where} has the group {group}: check the spelling", group=group)


def _asks_for_all(servers: Servers) -> Callable[[str, str], Awaitable[SubscriptionGroupWrapper]]:
    """Return a function that asks one broker for all its groups."""

    async def ask(name: str, address: str) -> SubscriptionGroupWrapper:
        return await admin_api.all_groups(servers.client.pool, address, timeout=servers.timeout)

    return ask


# --- steps ---------------------------------------------------------------------------------------------


async def _create(
    servers: Servers,
    config: SubscriptionGroupConfig,
    brokers: Iterable[str] | None,
    cluster: str | None,
    *,
    exist_ok: bool,
) -> tuple[GroupSettings, ...]:
    group = config.group_name
    masters = await servers.masters(brokers, cluster=cluster)
    if not exist_ok and await brokers_with(servers, group):
        raise AlreadyExistsError(
            f"the group {group} exists already: change it with update(), or pass exist_ok=True", name=group
        )

    async def put(name: str, address: str) -> GroupSettings:
        await admin_api.create_group(servers.client.pool, address, config, timeout=servers.timeout)
        return await _held(servers, group, name, address)

    return await servers.each(masters, put, _values, doing=f"creating the group {group}")


async def _update(
    servers: Servers,
    group: str,
    changes: Mapping[str, Any],
    attributes: Mapping[str, str],
    brokers: Iterable[str] | None,
) -> tuple[GroupSettings, ...]:
    known = await brokers_with(servers, group)
    if not known:
        raise unknown(group)
    masters = await servers.masters(known if brokers is None else brokers)

    async def put(name: str, address: str) -> GroupSettings:
        pool, timeout = servers.client.pool, servers.timeout
        table = await admin_api.all_groups(pool, address, timeout=timeout)
        config = table.subscription_group_table.get(group)
        if config is None:
            raise GroupNotFoundError(f"{name} does not have the group {group}", group=group)
        wanted = changed(config, **changes, attributes={**attributes})
        await admin_api.create_group(pool, address, wanted, timeout=timeout)
        return await _held(servers, group, name, address)

    return await servers.each(masters, put, _values, doing=f"changing the group {group}")


async def _held(servers: Servers, group: str, name: str, address: str) -> GroupSettings:
    """The settings of a group as a broker has them, after a change: some brokers ignore what they do not know."""
    table = await admin_api.all_groups(servers.client.pool, address, timeout=servers.timeout)
    config = table.subscription_group_table.get(group)
    if config is None:
        raise GroupNotFoundError(f"{name} accepted the group {group}, but does not have it", group=group)
    return _settings(name, config, table.forbidden_table.get(group, {}))


def _check_changeable(group: str) -> None:
    check_group(group)
    if is_system_group(group):
        raise ConfigError(f"{group} is a group of RocketMQ's own")


def _values(found: Mapping[str, GroupSettings]) -> tuple[GroupSettings, ...]:
    return tuple(found.values())


def _changes(
    consume: bool | None,
    broadcast: bool | None,
    orderly: bool | None,
    max_retries: int | None,
    retry_queues: int | None,
    consume_timeout: float | timedelta | None,
) -> dict[str, Any]:
    """The settings that are not None, by the names of SubscriptionGroupConfig."""
    found = {
        "consume_enable": _flag("consume", consume),
        "consume_broadcast_enable": _flag("broadcast", broadcast),
        "consume_message_orderly": _flag("orderly", orderly),
        "retry_max_times": _number("max_retries", max_retries, _MOST_RETRIES),
        "retry_queue_nums": _number("retry_queues", retry_queues, _MOST_QUEUES),
        "consume_timeout_minute": None if consume_timeout is None else _minutes(consume_timeout),
    }
    return {name: value for name, value in found.items() if value is not None}


def _flag(name: str, value: object) -> bool | None:
    return None if value is None else checked_flag(name, value)


def _number(name: str, value: int | None, most: int) -> int | None:
    return None if value is None else checked_count(name, value, most, least=0)


def _minutes(value: float | timedelta) -> int:
    seconds: object = duration(value)
    if not isinstance(seconds, float) or not 60 <= seconds <= _MOST_TIMEOUT or seconds % 60:
        raise ConfigError(f"consume_timeout must be whole minutes, in seconds, such as 60 or 900, not {value!r:.100}")
    return int(seconds // 60)


def _attributes(attributes: Mapping[str, str | None] | Mapping[str, str] | None) -> dict[str, str]:
    """Changes of attributes as the body has them: "+name" sets one, "-name" removes one."""
    found: dict[str, str] = {}
    for name, value in checked_attributes(attributes).items():
        if not _is_text(name) or name[0] in "+-" or not (value is None or _is_text(value)):
            raise ConfigError(f"an attribute is a name and a non-empty text, not {name!r:.50} with {value!r:.50}")
        found[f"{'-' if value is None else '+'}{name}"] = value or ""
    return found


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _settings(broker: str, config: SubscriptionGroupConfig, forbidden: Mapping[str, int]) -> GroupSettings:
    return GroupSettings(
        group=config.group_name,
        broker=broker,
        consume=config.consume_enable,
        broadcast=config.consume_broadcast_enable,
        orderly=config.consume_message_orderly,
        max_retries=config.retry_max_times,
        retry_queues=config.retry_queue_nums,
        consume_timeout=config.consume_timeout_minute * 60.0,
        forbidden_topics=tuple(sorted(topic for topic, bits in forbidden.items() if bits)),
        attributes={name.removeprefix("+"): value for name, value in config.attributes.items()},
    )
