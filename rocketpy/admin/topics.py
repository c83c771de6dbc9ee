"""Topics: create, change, delete, list and inspect them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import trio

from rocketpy.admin.ordering import drop_order, write_order
from rocketpy.admin.part import Part, changed, checked_attributes
from rocketpy.admin.results.times import moment
from rocketpy.admin.results.topics import QueueStats, TopicOnBroker, TopicRoute, TopicSettings, TopicStats
from rocketpy.admin.slices import sorted_steps
from rocketpy.client.api import admin as admin_api
from rocketpy.client.api import name_server as name_server_api
from rocketpy.client.api import stats as stats_api
from rocketpy.client.arguments import checked_count, checked_flag
from rocketpy.errors import AlreadyExistsError, ConfigError, RequestTimeoutError, TopicNotFoundError
from rocketpy.remoting.backoff import FullJitter, retrying
from rocketpy.remoting.rounds import in_slices
from rocketpy.wire.bodies.topics import TopicConfig
from rocketpy.wire.names import DLQ_PREFIX, LMQ_PREFIX, check_topic, is_retry_topic, is_system_topic
from rocketpy.wire.sysflag import Permission

if TYPE_CHECKING:
    from rocketpy.admin.servers import Servers
    from rocketpy.wire.bodies.route import QueueData
    from rocketpy.wire.bodies.stats import TopicStatsTable

__all__ = ["PermissionText", "Topics"]

PermissionText: TypeAlias = Literal["rw", "r", "w", ""]
"""What clients may do with a topic, which is to read, to write, both or nothing."""

_BITS = {"r": Permission.READ, "w": Permission.WRITE}
_MOST_QUEUES = 65_536
_MESSAGE_TYPE = "message.type"
_visible = FullJitter(0.01, 0.5)


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
        info = await servers.cluster_info()
        own = frozenset({*info.broker_addr_table, *info.cluster_addr_table})
        own |= {f"{name}_REPLY_TOPIC" for name in info.cluster_addr_table}
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
                    permission=_permission_text(queues.perm),
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


def _is_internal(name: str, own: frozenset[str]) -> bool:
    return is_system_topic(name, own) or is_retry_topic(name) or name.startswith((DLQ_PREFIX, LMQ_PREFIX))


def _check_changeable(topic: str) -> None:
    check_topic(topic)
    if is_system_topic(topic):
        raise ConfigError(f"{topic} is a topic of RocketMQ's own")


def _permission_bits(permission: object) -> int:
    if permission not in ("rw", "r", "w", ""):
        raise ConfigError(f"permission must be 'rw', 'r', 'w' or '', not {permission!r:.100}")
    return sum(_BITS[letter] for letter in str(permission))


def _permission_text(permission: int) -> str:
    return "".join(letter for letter, bit in _BITS.items() if permission & bit)


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
        found["perm"] = _permission_bits(permission)
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
        permission=_permission_text(config.perm),
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
    await _wait_visible(servers, topic, {masters[each.broker]: each for each in made}, "created")
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
    await _wait_visible(servers, topic, {chosen[each.broker]: each for each in made}, "changed")
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


async def _wait_visible(servers: Servers, topic: str, made: Mapping[str, TopicSettings], done: str) -> None:
    """Wait until a name server shows a topic as it was created or changed.

    Args:
        servers: the servers.
        topic: the topic.
        made: its new settings by the addresses of the brokers.
        done: what was done, for the error.

    Raises:
        RequestTimeoutError: it is not shown in time.
    """

    enough = False

    async def look() -> None:
        nonlocal enough
        data = await servers.route(topic)
        masters = servers.masters_in(topic, data.broker_datas)
        shown = {masters[each.broker_name]: each for each in data.queue_datas if each.broker_name in masters}
        seen = [_shown(shown.get(address), wanted) for address, wanted in made.items()]
        enough = None not in seen
        if not all(seen):
            raise TopicNotFoundError(f"the name servers do not show {topic} yet", topic=topic)

    policy = retrying(attempts=1000, wait=_visible, worth_it=lambda error: isinstance(error, TopicNotFoundError))
    try:
        with trio.fail_after(servers.timeout):
            await policy(look)
    except trio.TooSlowError as exc:
        if enough:
            return
        raise RequestTimeoutError(
            f"the topic {topic} was {done}, but the name servers did not show this within {servers.timeout:g} s",
            timeout=servers.timeout,
        ) from exc


def _shown(shown: QueueData | None, wanted: TopicSettings) -> bool | None:
    """Whether a name server shows the settings: None if it does not, False if it shows them with fewer permissions.

    A name server shows fewer permissions for a broker that was made read-only.
    """
    if shown is None or (shown.read_queue_nums, shown.write_queue_nums) != (wanted.read_queues, wanted.write_queues):
        return None
    permission = _permission_text(shown.perm)
    return True if permission == wanted.permission else False if set(permission) < set(wanted.permission) else None
