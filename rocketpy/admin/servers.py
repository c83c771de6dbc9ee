"""Servers: finds the brokers and name servers that a command is for, and sends the command to several of them.

A command for several servers is sent to all of them at the same time. If it fails on one, the others still execute it,
and the error names those that failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from rocketpy.admin.slices import at_once
from rocketpy.client.api import name_server as name_server_api
from rocketpy.client.routes.publish_info import map_address, usable_brokers
from rocketpy.client.routes.route_errors import cause_of, route_error
from rocketpy.errors import (
    BrokerNotFoundError,
    BrokersFailedError,
    BrokerUnreachableError,
    ConfigError,
    RocketMQError,
    TopicNotExistError,
)
from rocketpy.remoting.rounds import in_slices
from rocketpy.services import side_by_side
from rocketpy.wire.bodies.route import MASTER_ID
from rocketpy.wire.hosts import format_address, parse_address
from rocketpy.wire.names import check_topic, is_valid_server_name

if TYPE_CHECKING:
    from rocketpy.client.instance import MQClientInstance
    from rocketpy.wire.bodies.route import BrokerData, ClusterInfo, TopicRouteData

__all__ = ["Servers", "checked_names"]

T = TypeVar("T")
R = TypeVar("R")


class Servers:
    """The servers that the calls of Admin are for.

    Args:
        client: an open client.
    """

    __slots__ = ("client",)

    def __init__(self, client: MQClientInstance) -> None:
        self.client = client

    @property
    def timeout(self) -> float:
        """Timeout of one request, in seconds."""
        return self.client.config.request_timeout

    # --- finding servers ------------------------------------------------------------------------------

    async def cluster_info(self) -> ClusterInfo:
        """All brokers, and the clusters to which they belong.

        Raises:
            NameServerUnreachableError: no name server answered.
        """
        return await name_server_api.cluster_info(self.client.name_servers)

    async def masters(self, brokers: Iterable[str] | None = None, *, cluster: str | None = None) -> dict[str, str]:
        """The addresses of masters by broker name, sorted.

        Args:
            brokers: names or addresses of brokers; None for all.
            cluster: only the brokers of this cluster; None for every cluster.

        Raises:
            ConfigError: a name cannot be used, or both arguments are given.
            BrokerNotFoundError: there is no broker or cluster of that name, or no broker at all.
            BrokerUnreachableError: a broker has no master.
            NameServerUnreachableError: no name server answered.
        """
        if brokers is not None:
            if cluster is not None:
                raise ConfigError("pass brokers or cluster, not both")
            wanted = checked_names("brokers", brokers)
            if all(":" in name for name in wanted):
                return _without_doubles({name: self.address(name) for name in wanted})
        info = await self.cluster_info()
        names = self._names(info, cluster) if brokers is None else wanted
        return _without_doubles({name: self._master(info, name) for name in names})

    def _names(self, info: ClusterInfo, cluster: str | None) -> list[str]:
        """The names of all brokers that have a master, of one cluster or of all."""
        known = info.broker_addr_table
        if cluster is not None:
            if not isinstance(cluster, str):
                raise ConfigError(f"cluster must be the name of a cluster, not {cluster!r:.100}")
            if cluster not in info.cluster_addr_table:
                names = sorted(info.cluster_addr_table)
                raise BrokerNotFoundError(
                    f"there is no cluster {cluster!r:.100}; known clusters: {', '.join(names) or 'none'}",
                    name=str(cluster),
                    known=names,
                )
            known = {name: known[name] for name in info.cluster_addr_table[cluster] if name in known}
        usable = usable_brokers(known.values(), self.client.config.address_map)
        found = sorted(name for name, addresses in usable.items() if MASTER_ID in addresses)
        if not found:
            where = "registered with the name servers" if cluster is None else f"in the cluster {cluster}"
            raise BrokerNotFoundError(f"no master with a usable address is {where}", name=cluster or "")
        return found

    def _master(self, info: ClusterInfo, name: str) -> str:
        if ":" in name:
            return self.address(name)
        if name not in info.broker_addr_table:
            names = sorted(info.broker_addr_table)
            raise BrokerNotFoundError(
                f"there is no broker {name!r:.100}; known brokers: {', '.join(names) or 'none'}",
                name=name,
                known=names,
            )
        addresses = usable_brokers([info.broker_addr_table[name]], self.client.config.address_map).get(name, {})
        if MASTER_ID not in addresses:
            raise _no_master(name)
        return addresses[MASTER_ID]

    def address(self, text: str) -> str:
        """Check an address that a user has passed.

        Raises:
            ConfigError: it does not have the form "host:port".
        """
        return format_address(*parse_address(text))

    async def one(self, broker: str) -> str:
        """The address of one broker, given by its name, which stands for its master, or by its address.

        Raises:
            ConfigError: this is neither a name nor an address.
            BrokerNotFoundError: there is no broker of that name.
            BrokerUnreachableError: it has no master.
            NameServerUnreachableError: no name server answered.
        """
        if not isinstance(broker, str):
            raise ConfigError(f"a broker must be given by its name or address, not {broker!r:.100}")
        return next(iter((await self.masters([broker])).values()))

    async def route(self, topic: str) -> TopicRouteData:
        """The route of a topic.

        Raises:
            ConfigError: the topic name is not valid.
            TopicNotFoundError: the name servers do not know the topic.
            NameServerUnreachableError: no name server answered.
        """
        check_topic(topic)
        try:
            return await name_server_api.topic_route(self.client.name_servers, topic)
        except RocketMQError as error:
            translated = route_error(topic, error) if isinstance(error, TopicNotExistError) else None
            if translated is None:
                raise
            raise translated from cause_of(error)

    async def masters_of(self, topic: str) -> dict[str, str]:
        """The addresses of the masters that hold a topic, by broker name, sorted; "" for a broker without a master.

        Raises:
            ConfigError: the topic name is not valid.
            TopicNotFoundError: the name servers do not know the topic.
            BrokerUnreachableError: no broker that holds it has a master.
            NameServerUnreachableError: no name server answered.
        """
        return self.masters_in(topic, (await self.route(topic)).broker_datas)

    def masters_in(self, topic: str, brokers: Iterable[BrokerData]) -> dict[str, str]:
        """The addresses of the masters of the brokers of a topic, by broker name, sorted.

        The address is "" for a broker that has no master now. `each` counts it as failed, so that a command which did
        not reach all queues of a topic does not look as if it had.

        Raises:
            BrokerUnreachableError: none of them has a master.
        """
        given = list(brokers)
        usable = usable_brokers(given, self.client.config.address_map)
        found = {name: usable.get(name, {}).get(MASTER_ID, "") for name in sorted({each.broker_name for each in given})}
        if not any(found.values()):
            raise BrokerUnreachableError(
                f"no broker that holds the topic {topic} has a master with a usable address now", topic=topic
            )
        return found

    def name_of(self, info: ClusterInfo, address: str) -> str | None:
        """The name of the broker with an address, that of a master or a slave; None if no such broker is registered."""
        for broker in info.broker_addr_table.values():
            if address in map(self.mapped, broker.broker_addrs.values()):
                return broker.broker_name
        return None

    def mapped(self, address: str) -> str | None:
        """The address to connect to for an address that a server returned; None if it cannot be used."""
        try:
            return map_address(address, self.client.config.address_map)
        except ConfigError:
            return None

    # --- sending commands -----------------------------------------------------------------------------

    async def each(
        self,
        servers: Mapping[str, str],
        ask: Callable[[str, str], Awaitable[T]],
        combine: Callable[[dict[str, T]], R],
        *,
        doing: str,
    ) -> R:
        """Send a command to several servers at the same time.

        Args:
            servers: addresses by name; "" for a broker without a master, which fails.
            ask: sends the command to one server, given its name and its address.
            combine: makes the result from the answers by name, in the order of `servers`.
            doing: what the command does, for errors.

        Raises:
            RocketMQError: the only server failed.
            BrokersFailedError: the command failed on some of several servers, or on all.
        """
        return await self.each_large(servers, ask, lambda found: at_once(combine, found), doing=doing)

    async def each_large(
        self,
        servers: Mapping[str, str],
        ask: Callable[[str, str], Awaitable[T]],
        combine: Callable[[dict[str, T]], Generator[None, None, R]],
        *,
        doing: str,
    ) -> R:
        """`each` for answers that may be large: `combine` is a generator, and other tasks run between its steps."""
        found: dict[str, T] = {}
        failures: dict[str, RocketMQError] = {}

        async def ask_one(name: str) -> None:
            try:
                if not servers[name]:
                    raise _no_master(name)
                found[name] = await ask(name, servers[name])
            except RocketMQError as error:
                failures[name] = error

        await side_by_side(ask_one, servers)
        if failures and len(servers) == 1:
            raise failures.popitem()[1]
        result = await in_slices(combine({name: found[name] for name in servers if name in found}))
        if failures:
            raise BrokersFailedError(
                doing,
                failures={name: failures[name] for name in servers if name in failures},
                done=[name for name in servers if name in found],
                result=result,
            )
        return result


def _without_doubles(masters: Mapping[str, str]) -> dict[str, str]:
    """Masters without those that are given twice, by name and by address, or in two forms of an address."""
    first: dict[str, str] = {}
    for name, address in masters.items():
        first.setdefault(address, name)
    return {name: address for address, name in first.items()}


def _no_master(name: str) -> BrokerUnreachableError:
    return BrokerUnreachableError(f"the broker {name} has no master with a usable address now", topic="")


def checked_names(what: str, names: object) -> list[str]:
    """Return names of brokers as a list without duplicates. A single string counts as one name.

    Raises:
        ConfigError: there are none, or one is neither a name nor an address.
    """
    given = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else [names]
    found: list[str] = []
    for name in given:
        if not isinstance(name, str) or not (":" in name or is_valid_server_name(name)):
            raise ConfigError(f"{what} must be names such as broker-a, or addresses, not {name!r:.100}")
        found.append(name)
    if not found:
        raise ConfigError(f"{what} must have at least one name; leave it out for all {what}")
    return list(dict.fromkeys(found))
