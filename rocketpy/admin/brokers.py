"""Brokers and clusters: their settings, state and statistics, and cleaning up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rocketpy.admin.part import Part, check_texts
from rocketpy.admin.replication import replication
from rocketpy.admin.results.servers import BrokerEntry, BrokerRuntime, BrokerStats, ServerConfig, StatsSpan
from rocketpy.admin.results.times import moment
from rocketpy.admin.settings import check_taken, texts
from rocketpy.client.api import name_server as name_server_api
from rocketpy.client.api import server as server_api
from rocketpy.client.api import stats as stats_api
from rocketpy.client.arguments import checked_flag
from rocketpy.errors import BrokerError, ConfigError
from rocketpy.wire.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from datetime import datetime

    from rocketpy.admin.results.replication import BrokerReplication
    from rocketpy.wire.bodies.stats import BrokerStatsItem

__all__ = ["Brokers"]


class Brokers(Part):
    """The brokers of a cluster: ``admin.brokers``.

    A broker is given by its name, which stands for its master, or by the address of a master or slave.
    """

    __slots__ = ()

    # --- look -----------------------------------------------------------------------------------------

    async def list(self, *, cluster: str | None = None) -> tuple[BrokerEntry, ...]:
        """The brokers that are registered with the name servers, sorted by cluster, name and id.

        Args:
            cluster: only the brokers of this cluster.

        Raises:
            BrokerNotFoundError: there is no such cluster.
            NameServerUnreachableError: no name server answered.
        """
        servers = self._usable()
        info = await servers.cluster_info()
        if cluster is not None and str(cluster) not in info.cluster_addr_table:
            await servers.masters(cluster=cluster)
        clusters = {name: each for each, names in info.cluster_addr_table.items() for name in names}
        entries = (
            BrokerEntry(name=name, cluster=clusters.get(name, data.cluster or ""), broker_id=number, address=address)
            for name, data in info.broker_addr_table.items()
            for number, address in data.broker_addrs.items()
        )
        chosen = (each for each in entries if cluster is None or each.cluster == cluster)
        return tuple(sorted(chosen, key=lambda each: (each.cluster, each.name, each.broker_id)))

    async def config(self, broker: str) -> ServerConfig:
        """The settings of a broker.

        Raises:
            BrokerNotFoundError: there is no broker of that name.
            RocketMQError: the broker cannot be reached, does not answer, or refuses; or no name server answered.
        """
        servers = self._usable()
        address = await servers.one(broker)
        found = await server_api.broker_config(servers.client.pool, address, timeout=servers.timeout)
        return ServerConfig(server=broker, settings=found)

    async def runtime(self, broker: str) -> BrokerRuntime:
        """The state of a broker.

        Raises:
            BrokerNotFoundError: there is no broker of that name.
            RocketMQError: the broker cannot be reached, does not answer, or refuses; or no name server answered.
        """
        servers = self._usable()
        address = await servers.one(broker)
        return _runtime(broker, await server_api.runtime_info(servers.client.pool, address, timeout=servers.timeout))

    async def runtimes(self, *, cluster: str | None = None) -> tuple[BrokerRuntime, ...]:
        """The state of all masters, sorted by name.

        Args:
            cluster: only the brokers of this cluster.

        Raises:
            BrokerNotFoundError: there is no such cluster, or no broker at all.
            BrokersFailedError: some brokers did not answer; `result` has the states of the others.
            RocketMQError: the only broker did not answer, or no name server did.
        """
        servers = self._usable()

        async def ask(name: str, address: str) -> BrokerRuntime:
            found = await server_api.runtime_info(servers.client.pool, address, timeout=servers.timeout)
            return _runtime(name, found)

        masters = await servers.masters(cluster=cluster)
        return await servers.each(
            masters, ask, lambda found: tuple(found.values()), doing="asking for the state of the brokers"
        )

    async def stats(self, broker: str, name: str, key: str) -> BrokerStats | None:
        """A statistic of a broker over the last minute, hour and day; None if the broker has no such statistic.

        Args:
            broker: the name or address of the broker.
            name: the name of the statistic, such as TOPIC_PUT_NUMS or TOPIC_PUT_SIZE of a topic; GROUP_GET_NUMS,
                GROUP_GET_SIZE or SNDBCK_PUT_NUMS of a group in a topic.
            key: the topic, or "topic@group".

        Raises:
            ConfigError: an argument cannot be used.
            BrokerNotFoundError: there is no broker of that name.
            RocketMQError: the broker cannot be reached, does not answer, or refuses; or no name server answered.
        """
        servers = self._usable()
        check_texts(name=name, key=key)
        address = await servers.one(broker)
        pool, timeout = servers.client.pool, servers.timeout
        try:
            found = await stats_api.broker_stats(pool, address, name, key, timeout=timeout)
        except BrokerError as error:
            if error.code == ResponseCode.SYSTEM_ERROR:  # there is no statistic of that name and key
                return None
            raise
        return BrokerStats(
            broker=broker,
            name=name,
            key=key,
            minute=_span(found.stats_minute),
            hour=_span(found.stats_hour),
            day=_span(found.stats_day),
        )

    async def replication(self, broker: str) -> BrokerReplication:
        """How a master and its slaves keep up with each other, as one of them sees it; for brokers of 5.x.

        Args:
            broker: the name of a master, or the address of a master or slave.

        Raises:
            BrokerNotFoundError: there is no broker of that name.
            RequestCodeNotSupportedError: the broker is of 4.x.
            RocketMQError: the broker cannot be reached, does not answer, or refuses; or no name server answered.
        """
        servers = self._usable()
        address = await servers.one(broker)
        found = await server_api.replication(servers.client.pool, address, timeout=servers.timeout)
        return replication(broker, found)

    # --- change ---------------------------------------------------------------------------------------

    async def update_config(
        self,
        settings: Mapping[str, str | int | bool | float],
        *,
        brokers: Iterable[str] | None = None,
        cluster: str | None = None,
    ) -> None:
        """Change settings of brokers, by default of all masters. Brokers refuse to change some keys.

        The settings are read back: Apache's brokers accept unknown keys and unusable values, and ignore them.

        Args:
            settings: values by Java's keys, such as ``{"autoCreateTopicEnable": False}``.
            brokers: the names, or addresses, of the brokers.
            cluster: the cluster whose masters to change.

        Raises:
            ConfigError: an argument cannot be used.
            BrokerNotFoundError: there is no such broker or cluster.
            BrokerError: the only broker refuses a key or a value, and nothing was changed; or it has ignored one.
            BrokersFailedError: some brokers did not change them; the others did.
            RocketMQError: the only broker refused or did not answer, or no name server did.
        """
        values = texts(settings)
        servers = self._usable()

        async def put(name: str, address: str) -> None:
            pool, timeout = servers.client.pool, servers.timeout
            await server_api.update_config(pool, address, values, timeout=timeout)
            check_taken(values, await server_api.broker_config(pool, address, timeout=timeout), address)

        masters = await servers.masters(brokers, cluster=cluster)
        await servers.each(masters, put, lambda found: None, doing=f"changing {', '.join(values)}")

    async def set_writable(self, broker: str, writable: bool) -> int:
        """Have all name servers show the queues of a broker as writable or not, so that producers use or avoid it.

        Args:
            broker: the name of the broker.
            writable: whether producers may use the broker.

        Returns:
            How many topics were changed; the largest number of any name server.

        Raises:
            ConfigError: the broker name is not valid.
            BrokerNotFoundError: there is no broker of that name.
            BrokersFailedError: some name servers did not change it; the others did.
            RocketMQError: the only name server refused or did not answer.
        """
        checked_flag("writable", writable)
        if ":" in str(broker):
            raise ConfigError(f"name servers know brokers only by their names, not by the address {broker!r:.100}")
        servers = self._usable()
        await servers.masters([broker])
        addresses = servers.client.name_servers.addresses

        async def put(name: str, address: str) -> int:
            return await name_server_api.set_writable(
                servers.client.pool, address, broker, writable=writable, timeout=servers.timeout
            )

        return await servers.each(
            {each: each for each in addresses},
            put,
            lambda found: max(found.values(), default=0),
            doing=f"changing whether producers may use {broker}",
        )

    # --- clean up -------------------------------------------------------------------------------------

    async def delete_expired_files(self, *, brokers: Iterable[str] | None = None, cluster: str | None = None) -> None:
        """Have brokers delete expired files of their commit logs now. Arguments and errors as in `update_config`."""
        await self._clean(RequestCode.DELETE_EXPIRED_COMMITLOG, brokers, cluster)

    async def delete_expired_queues(self, *, brokers: Iterable[str] | None = None, cluster: str | None = None) -> None:
        """Have brokers delete consume-queue entries of deleted messages. Arguments and errors as in `update_config`."""
        await self._clean(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, brokers, cluster)

    async def delete_unused_queues(self, *, brokers: Iterable[str] | None = None, cluster: str | None = None) -> None:
        """Have brokers delete the queues of deleted topics. Arguments and errors as in `update_config`."""
        await self._clean(RequestCode.CLEAN_UNUSED_TOPIC, brokers, cluster)

    async def _clean(self, code: RequestCode, brokers: Iterable[str] | None, cluster: str | None) -> None:
        servers = self._usable()

        async def clean(name: str, address: str) -> None:
            await server_api.clean(servers.client.pool, address, code, timeout=servers.timeout)

        masters = await servers.masters(brokers, cluster=cluster)
        await servers.each(masters, clean, lambda found: None, doing="cleaning up")


# --- steps ---------------------------------------------------------------------------------------------


def _span(found: BrokerStatsItem | None) -> StatsSpan:
    return StatsSpan() if found is None else StatsSpan(sum=found.sum, rate=found.tps, average=found.avgpt)


def _runtime(broker: str, values: Mapping[str, str]) -> BrokerRuntime:
    def time(key: str) -> datetime | None:
        return moment(int(_number(values.get(key)) or 0))

    def whole(key: str) -> int | None:
        found = _number(values.get(key))
        return None if found is None else int(found)

    def since(now: str, morning: str) -> int | None:
        latest, first = whole(now), whole(morning)
        return None if latest is None or first is None else latest - first

    return BrokerRuntime(
        broker=broker,
        version=values.get("brokerVersionDesc", ""),
        started_at=time("bootTimestamp"),
        put_rate=_number(values.get("putTps")),
        get_rate=_number(values.get("getTransferredTps", values.get("getTransferedTps"))),
        puts_today=since("msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
        gets_today=since("msgGetTotalTodayNow", "msgGetTotalTodayMorning"),
        disk_used=_number(values.get("commitLogDiskRatio")),
        commit_log_begin=whole("commitLogMinOffset"),
        commit_log_end=whole("commitLogMaxOffset"),
        dispatch_behind=whole("dispatchBehindBytes"),
        oldest_message_at=time("earliestMessageTimeStamp"),
        values=dict(values),
    )


def _number(text: str | None) -> float | None:
    """The first number of a text such as "1.5 0.7 0.2", the rates over 10, 60 and 600 seconds."""
    try:
        found = float((text or "").split()[0])
    except (ValueError, IndexError):
        return None
    return found if math.isfinite(found) else None
