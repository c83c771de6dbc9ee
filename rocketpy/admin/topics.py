"""Topics: create, change, delete, list and inspect them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rocketpy.admin.ordering import drop_order, write_order
from rocketpy.admin.part import Part, changed, checked_attributes
from rocketpy.admin.results.times import moment
from rocketpy.admin.results.topics import QueueStats, TopicOnBroker, TopicRoute, TopicSettings, TopicStats
from rocketpy.admin.slices import sorted_steps
from rocketpy.admin.traffic import traffic
from rocketpy.admin.visible import PermissionText, permission_bits, permission_text, wait_visible
from rocketpy.client.api import admin as admin_api
from rocketpy.client.api import name_server as name_server_api
from rocketpy.client.api import stats as stats_api
from rocketpy.client.arguments import checked_count, checked_flag
from rocketpy.errors import AlreadyExistsError, ConfigError, TopicNotFoundError
from rocketpy.remoting.rounds import in_slices
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.names import DLQ_PREFIX, LMQ_PREFIX, check_topic, is_retry_topic, is_system_topic

if TYPE_CHECKING:
    from rocketpy.admin.results.topics import TopicTraffic
    from rocketpy.admin.servers import Servers
    from rocketpy.wire.bodies.stats import TopicStatsTable
    from rocketpy.wire.bodies.topics import TopicConfigSerializeWrapper

__all__ = ["Topics"]

_MOST_QUEUES = 65_536
_MESSAGE_TYPE = "message.type"


class Topics(Part):
    """The topics of a cluster: ``admin.topics``."""

    __slots__ = ()

    # --- look -----------------------------------------------------------------------------------------

    async def list(self, *, cluster: str | None = None, internal: bool = False) -> tuple[str, ...]:
        """The names of all topics, sorted.

        Args:
            cluster: only topics on the brokers of this cluster.
            internal: whether to include topics of RocketMQ's own, retry topics and dead-letter topics.

        Raises:
            BrokerNotFoundError: there is no such cluster.
            NameServerUnreachableError: no name server answered.
        """
        servers = self._usable()
        if cluster is None:
            found = await name_server_api.all_topics(servers.client.name_servers)
        else:
            await servers.masters(cluster=cluster)
            found = await name_server_api.topics_of_cluster(servers.client.name_servers, cluster)
        if internal:
            return await in_slices(sorted_steps(found, key=str))
        own = await _own_names(servers)
        return await in_slices(sorted_steps((name for name in found if not _is_internal(name, own)), key=str))

    async def get(self, topic: str) -> tuple[TopicSettings, ...]:
        """The settings of a topic on each master that holds it, sorted by broker.

        Raises:
            ConfigError: the topic name is not valid.
            TopicNotFoundError: the topic does not exist.
            BrokersFailedError: some brokers did not answer; `result` has the settings of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        servers = self._usable()

        async def ask(name: str, address: str) -> TopicSettings | None:
            config = await admin_api.topic_config(servers.client.pool, address, topic, timeout=servers.timeout)
            return None if config is None else _settings(name, config)

        return await servers.each(await servers.masters_of(topic), ask, _present, doing=f"looking at the topic {topic}")

    async def get_all(
        self, *, brokers: Iterable[str] | None = None, cluster: str | None = None, internal: bool = False
    ) -> tuple[TopicSettings, ...]:
        """The settings of all topics on all masters, sorted by topic and broker.

        Args:
            brokers: only these brokers, given by name or address.
            cluster: only the brokers of this cluster.
            internal: whether to include topics of RocketMQ's own, retry topics and dead-letter topics.

        Raises:
            ConfigError: the name of a broker cannot be used, or both brokers and a cluster are given.
            BrokerNotFoundError: there is no such broker or cluster, or no broker at all.
            BrokersFailedError: some brokers did not answer; `result` has the settings of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        servers = self._usable()
        masters = await servers.masters(brokers, cluster=cluster)
        own = frozenset[str]() if internal else await _own_names(servers)

        async def ask(name: str, address: str) -> TopicConfigSerializeWrapper:
            return await admin_api.all_topics(servers.client.pool, address, timeout=servers.timeout)

        def combine(found: dict[str, TopicConfigSerializeWrapper]) -> Generator[None, None, tuple[TopicSettings, ...]]:
            settings = (
                _settings(name, config)
                for name, table in found.items()
                for config in table.topic_config_table.values()
                if internal or not _is_internal(config.topic_name, own)
            )
            return sorted_steps(settings, key=lambda each: (each.topic, each.broker))

        return await servers.each_large(masters, ask, combine, doing="asking for the settings of all topics")

    async def route(self, topic: str) -> TopicRoute:
        """The brokers that hold a topic, as a name server lists them.

        Raises:
            ConfigError: the topic name is not valid.
            TopicNotFoundError: the topic does not exist.
            NameServerUnreachableError: no name server answered.
        """
        data = await self._usable().route(topic)
        brokers = {each.broker_name: each for each in data.broker_datas}
        return TopicRoute(
            topic=topic,
            order_config=data.order_topic_conf or None,
            brokers=tuple(
                TopicOnBroker(
                    broker=queues.broker_name,
                    cluster=(brokers[queues.broker_name].cluster or "") if queues.broker_name in brokers else "",
                    addresses=dict(brokers[queues.broker_name].broker_addrs) if queues.broker_name in brokers else {},
                    read_queues=queues.read_queue_nums,
                    write_queues=queues.write_queue_nums,
                    permission=permission_text(queues.perm),
                )
                for queues in sorted(data.queue_datas, key=lambda each: each.broker_name)
            ),
        )

    async def stats(self, topic: str) -> TopicStats:
        """The two ends of each queue of a topic, and the rate of messages that are stored in it.

        Raises:
            ConfigError: the topic name is not valid.
            TopicNotFoundError: the topic does not exist.
            BrokersFailedError: some brokers did not answer; `result` has the queues of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        servers = self._usable()

        async def ask(name: str, address: str) -> TopicStatsTable:
            return await stats_api.topic_stats(servers.client.pool, address, topic, timeout=servers.timeout)

        def combine(found: dict[str, TopicStatsTable]) -> Generator[None, None, TopicStats]:
            queues = (
                QueueStats(
                    queue=queue,
                    begin=each.min_offset,
                    end=each.max_offset,
                    last_written_at=moment(each.last_update_timestamp),
                )
                for table in found.values()
                for queue, each in table.offset_table.items()
            )
            rate = sum(table.topic_put_tps for table in found.values())
            ordered = yield from sorted_steps(queues, key=lambda each: each.queue)
            return TopicStats(topic=topic, queues=ordered, put_rate=rate)

        return await servers.each_large(
            await servers.masters_of(topic), ask, combine, doing=f"asking for the queues of {topic}"
        )

    async def traffic(self, topic: str) -> TopicTraffic:
        """The rates at which messages of a topic are stored, and consumed by each group; and the lag of each group.

        Groups of RocketMQ's own are left out.

        Raises:
            ConfigError: the topic name is not valid.
            TopicNotFoundError: the topic does not exist.
            BrokersFailedError: some brokers did not answer; `result` has the sums of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        return await traffic(self._usable(), topic)

    # --- change ---------------------------------------------------------------------------------------

    async def create(
        self,
        topic: str,
        *,
        queues: int = 8,
        read_queues: int | None = None,
        permission: PermissionText = "rw",
        order: bool = False,
        message_type: str | None = None,
        attributes: Mapping[str, str] | None = None,
        brokers: Iterable[str] | None = None,
        cluster: str | None = None,
        exist_ok: bool = False,
    ) -> tuple[TopicSettings, ...]:
        """Create a topic, and return once a name server shows it.

        Args:
            topic: the name.
            queues: the number of queues to write to on each broker.
            read_queues: the number of queues to read from; None for `queues`.
            permission: what clients may do: "rw", "r", "w" or "".
            order: whether the topic keeps the same queues while a broker is down, for messages in order.
            message_type: the kind of messages that the topic is for, on brokers of 5.x: NORMAL, FIFO, DELAY,
                TRANSACTION or MIXED.
            attributes: further attributes, for brokers of 5.x.
            brokers: the names or addresses of the brokers that create it; None for all masters.
            cluster: the cluster whose masters create it.
            exist_ok: whether to change a topic that exists already.

        Returns:
            Its settings on each broker, sorted by broker.

        Raises:
            ConfigError: an argument cannot be used.
            AlreadyExistsError: the topic exists already.
            BrokerNotFoundError: there is no such broker or cluster.
            BrokersFailedError: some brokers did not create it; the others did. Call it again with `exist_ok`.
            RequestTimeoutError: it was created, but the name servers do not show it yet.
            RocketMQError: the only broker refused or did not answer, or no name server answered.
        """
        _check_changeable(topic)
        checked_flag("exist_ok", exist_ok)
        readable = queues if read_queues is None else read_queues
        config = changed(
            TopicConfig(topic_name=topic, attributes=_attributes(attributes, message_type)),
            **_changes(queues, readable, permission, order),
        )
        return await _create(self._usable(), config, brokers, cluster, exist_ok=exist_ok)

    async def update(
        self,
        topic: str,
        *,
        queues: int | None = None,
        read_queues: int | None = None,
        permission: PermissionText | None = None,
        order: bool | None = None,
        message_type: str | None = None,
        attributes: Mapping[str, str | None] | None = None,
        brokers: Iterable[str] | None = None,
    ) -> tuple[TopicSettings, ...]:
        """Change settings of a topic, and return once a name server shows them. Settings given as None are kept.

        If `queues` is lowered, producers write to fewer queues. Consumers still read all of them until `read_queues` is
        lowered too.

        Args:
            topic: the name.
            queues: the number of queues to write to on each broker.
            read_queues: the number of queues to read from; if None, it is raised to `queues` if it is lower.
            permission: what clients may do: "rw", "r", "w" or "".
            order: whether the topic keeps the same queues while a broker is down.
            message_type: the kind of messages that the topic is for, on brokers of 5.x.
            attributes: attributes to set; those whose value is None are removed.
            brokers: the names or addresses of the brokers that change it; None for all that hold it.

        Returns:
            The new settings on each broker, sorted by broker.

        Raises:
            ConfigError: an argument cannot be used.
            TopicNotFoundError: the topic does not exist, or not on one of `brokers`.
            BrokersFailedError: some brokers did not change it; the others did.
            RequestTimeoutError: it was changed, but the name servers do not show the changes yet.
            RocketMQError: the only broker refused or did not answer, or no name server answered.
        """
        _check_changeable(topic)
        changes = _changes(queues, read_queues, permission, order)
        return await _update(self._usable(), topic, changes, _attributes(attributes, message_type), brokers)

    async def delete(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic with its messages, first on the brokers and then on the name servers.

        Stop its producers first: brokers that create topics automatically would create it again with the next message.

        Args:
            topic: the name.
            cluster: delete it only on the brokers of this cluster.

        Raises:
            ConfigError: the topic name is not valid, or it is a topic of RocketMQ's own.
            TopicNotFoundError: the topic does not exist.
            BrokersFailedError: some brokers did not delete it; the others did, and the name servers still show it.
            RocketMQError: the only broker refused or did not answer, or a name server did not answer.
        """
        _check_changeable(topic)
        servers = self._usable()
        data = await servers.route(topic)
        places = [each for each in data.broker_datas if cluster is None or each.cluster == cluster]
        if cluster is not None and not places:
            await servers.masters(cluster=cluster)
            raise TopicNotFoundError(f"the cluster {cluster} does not hold the topic {topic}", topic=topic)

        async def drop(name: str, address: str) -> None:
            await admin_api.delete_topic(servers.client.pool, address, topic, timeout=servers.timeout)

        await servers.each(
            servers.masters_in(topic, places), drop, lambda found: None, doing=f"deleting the topic {topic}"
        )
        await name_server_api.delete_topic_route(servers.client.name_servers, topic, cluster=cluster)
        await drop_order(servers, topic, None if cluster is None else [each.broker_name for each in places])


# --- checks --------------------------------------------------------------------------------------------


async def _own_names(servers: Servers) -> frozenset[str]:
    """Topics that brokers have for themselves, under their own names and those of their clusters.

    Raises:
        NameServerUnreachableError: no name server answered.
    """
    info = await servers.cluster_info()
    replies = (f"{name}_REPLY_TOPIC" for name in info.cluster_addr_table)
    return frozenset({*info.broker_addr_table, *info.cluster_addr_table, *replies})


def _is_internal(name: str, own: frozenset[str]) -> bool:
    return is_system_topic(name, own) or is_retry_topic(name) or name.startswith((DLQ_PREFIX, LMQ_PREFIX))


def _check_changeable(topic: str) -> None:
    check_topic(topic)
    if is_system_topic(topic):
        raise ConfigError(f"{topic} is a topic of RocketMQ's own")


def _changes(
    queues: int | None, read_queues: int | None, permission: PermissionText | None, order: bool | None
) -> dict[str, Any]:
    """The settings that are not None, by the names of TopicConfig."""
    found: dict[str, Any] = {}
    if queues is not None:
        found["write_queue_nums"] = checked_count("queues", queues, _MOST_QUEUES)
    if read_queues is not None:
        found["read_queue_nums"] = checked_count("read_queues", read_queues, _MOST_QUEUES)
    if permission is not None:
        found["perm"] = permission_bits(permission)
    if order is not None:
        found["order"] = checked_flag("order", order)
    return found


def _attributes(
    attributes: Mapping[str, str | None] | Mapping[str, str] | None, message_type: str | None
) -> dict[str, str]:
    """Changes of attributes as TopicConfig has them: a value sets one, "-name" removes one."""
    changes: dict[str, str | None] = {**checked_attributes(attributes)}
    if message_type is not None:
        changes[_MESSAGE_TYPE] = message_type
    for name, value in changes.items():
        if not _is_text(name) or name[0] == "-" or not (value is None or _is_text(value)):
            raise ConfigError(
                "an attribute is a name and a non-empty text without commas, spaces, '=' and '+', "
                f"not {name!r:.50} with {value!r:.50}"
            )
    return {name if value is not None else f"-{name}": value or "" for name, value in changes.items()}


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and not set(value) & set(",=+ ")


# --- steps ---------------------------------------------------------------------------------------------


def _settings(broker: str, config: TopicConfig) -> TopicSettings:
    attributes = {name.removeprefix("+"): value for name, value in config.attributes.items()}
    return TopicSettings(
        topic=config.topic_name,
        broker=broker,
        read_queues=config.read_queue_nums,
        write_queues=config.write_queue_nums,
        permission=permission_text(config.perm),
        order=config.order,
        message_type=attributes.get(_MESSAGE_TYPE),
        attributes=attributes,
    )


def _present(found: Mapping[str, TopicSettings | None]) -> tuple[TopicSettings, ...]:
    return tuple(each for each in found.values() if each is not None)


async def _create(
    servers: Servers, config: TopicConfig, brokers: Iterable[str] | None, cluster: str | None, *, exist_ok: bool
) -> tuple[TopicSettings, ...]:
    topic = config.topic_name
    masters = await servers.masters(brokers, cluster=cluster)
    if not exist_ok and await _exists(servers, topic):
        raise AlreadyExistsError(
            f"the topic {topic} exists already: change it with update(), or pass exist_ok=True", name=topic
        )

    async def put(name: str, address: str) -> TopicSettings:
        await admin_api.create_topic(servers.client.pool, address, config, timeout=servers.timeout)
        return await _held(servers, topic, name, address)

    made = await servers.each(masters, put, _values, doing=f"creating the topic {topic}")
    if config.order or exist_ok:
        await write_order(servers, topic, made, config.order)
    await wait_visible(servers, topic, {masters[each.broker]: each for each in made}, "created")
    return made


async def _update(
    servers: Servers,
    topic: str,
    changes: Mapping[str, Any],
    attributes: Mapping[str, str],
    brokers: Iterable[str] | None,
) -> tuple[TopicSettings, ...]:
    holders = await servers.masters_of(topic)
    chosen = holders if brokers is None else await servers.masters(brokers)

    async def put(name: str, address: str) -> TopicSettings:
        pool, timeout = servers.client.pool, servers.timeout
        known = await admin_api.topic_config(pool, address, topic, timeout=timeout)
        if known is None:
            raise TopicNotFoundError(f"{name} does not hold the topic {topic}", topic=topic, tried=(address,))
        wanted = changed(known, **changes)
        if "read_queue_nums" not in changes:
            wanted.read_queue_nums = max(wanted.read_queue_nums, wanted.write_queue_nums)
        await admin_api.create_topic(pool, address, changed(wanted, attributes={**attributes}), timeout=timeout)
        return await _held(servers, topic, name, address)

    made = await servers.each(chosen, put, _values, doing=f"changing the topic {topic}")
    if "order" in changes or "write_queue_nums" in changes:
        await write_order(servers, topic, made, changes.get("order"))
    await wait_visible(servers, topic, {chosen[each.broker]: each for each in made}, "changed")
    return made


def _values(found: Mapping[str, TopicSettings]) -> tuple[TopicSettings, ...]:
    return tuple(found.values())


async def _held(servers: Servers, topic: str, name: str, address: str) -> TopicSettings:
    """The settings of a topic as a broker has them, after a change: some brokers ignore what they do not know."""
    config = await admin_api.topic_config(servers.client.pool, address, topic, timeout=servers.timeout)
    if config is None:
        raise TopicNotFoundError(
            f"{name} accepted the topic {topic}, but does not hold it", topic=topic, tried=(address,)
        )
    return _settings(name, config)


async def _exists(servers: Servers, topic: str) -> bool:
    try:
        await servers.route(topic)
    except TopicNotFoundError:
        return False
    return True
