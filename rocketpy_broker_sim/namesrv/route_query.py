"""Reading the route tables: the route of a topic, lists of topics, clusters and brokers. Pure functions."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rocketpy.wire.bodies.route import BrokerData, BrokerMemberGroup, ClusterInfo, QueueData, TopicRouteData
from rocketpy.wire.bodies.topics import TopicList
from rocketpy.wire.sysflag import Permission

if TYPE_CHECKING:
    from rocketpy_broker_sim.namesrv.route_info import RouteInfo

__all__ = [
    "all_topics",
    "cluster_info",
    "member_group",
    "names_by_flag",
    "names_of_cluster",
    "near",
    "route_of",
    "system_topics",
]

_MEMBER_SYNC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"


def route_of(
    tables: RouteInfo, topic: str, *, acting_master: bool = False, names: Iterable[str] | None = None
) -> TopicRouteData | None:
    """Brokers and queues of a topic, None when no living broker holds it.

    Args:
        tables: what is known.
        topic: its name.
        acting_master: show the lowest slave as master where the master is gone and the slave may act for it.
        names: the brokers to look at; all when None.
    """
    queues = tables.table.holders(topic, names)
    if not queues:
        return None
    brokers = [_copy(tables.brokers[name]) for name in queues if name in tables.brokers]
    if not brokers:
        return None
    filter_servers = {
        address: list(tables.filter_servers[broker.cluster or "", address])
        for broker in brokers
        for address in broker.broker_addrs.values()
        if (broker.cluster or "", address) in tables.filter_servers
    }
    if acting_master and not topic.startswith(_MEMBER_SYNC_PREFIX):
        for broker in brokers:
            _show_acting_master(broker, queues)
    return TopicRouteData(
        broker_datas=brokers,
        queue_datas=[copy.copy(queue) for queue in queues.values()],
        filter_server_table=filter_servers,
        topic_queue_mapping_by_broker=tables.table.mappings_of(topic, queues),
    )


def _copy(broker: BrokerData) -> BrokerData:
    made = copy.copy(broker)
    made.broker_addrs = dict(broker.broker_addrs)
    return made


def _show_acting_master(broker: BrokerData, queues: dict[str, QueueData]) -> None:
    queue = queues.get(broker.broker_name)
    if not broker.broker_addrs or 0 in broker.broker_addrs or not broker.enable_acting_master or queue is None:
        return
    if not queue.perm & Permission.WRITE:
        broker.broker_addrs[0] = broker.broker_addrs.pop(min(broker.broker_addrs))


def near(route: TopicRouteData, zone: str) -> TopicRouteData:
    """A route without the brokers of other zones; those whose master is away stay, their slaves must be read.

    Plays the part of ZoneRouteRPCHook.
    """
    if not zone.strip():
        return route
    far = {
        broker.broker_name: broker
        for broker in route.broker_datas
        if 0 in broker.broker_addrs and (broker.zone_name or "").lower() != zone.lower()
    }
    addresses = {address for broker in far.values() for address in broker.broker_addrs.values()}
    return TopicRouteData(
        broker_datas=[broker for broker in route.broker_datas if broker.broker_name not in far],
        queue_datas=[queue for queue in route.queue_datas if queue.broker_name not in far],
        filter_server_table={a: each for a, each in route.filter_server_table.items() if a not in addresses},
        order_topic_conf=route.order_topic_conf,
        topic_queue_mapping_by_broker=route.topic_queue_mapping_by_broker,
    )


def all_topics(tables: RouteInfo) -> TopicList:
    """Every topic that a living broker holds."""
    return TopicList(topic_list={topic for topic, _ in tables.table.topics()})


def names_of_cluster(tables: RouteInfo, cluster: str) -> Iterator[str | None]:
    """The topics that any broker of a cluster holds, one by one, with None for one that was there before.

    Brokers may come and go meanwhile.
    """
    seen: set[str] = set()
    for broker_name in list(tables.clusters.get(cluster, ())):
        for topic in list(tables.table.held.get(broker_name, ())):
            yield None if topic in seen else topic
            seen.add(topic)


def system_topics(tables: RouteInfo) -> TopicList:
    """Names of clusters and brokers, which are topics too, and the address of some broker to ask for the rest."""
    names = {name for cluster, brokers in tables.clusters.items() for name in (cluster, *brokers)}
    address = next((a for broker in tables.brokers.values() for a in broker.broker_addrs.values()), None)
    return TopicList(topic_list=names, broker_addr=address)


def names_by_flag(tables: RouteInfo, *, have: int, lack: int = 0) -> Iterator[str | None]:
    """The topics whose system flag holds `have` and none of `lack`, by their first broker, and None for the others."""
    for topic, queue in tables.table.topics():
        yield topic if queue.topic_sys_flag & have and not queue.topic_sys_flag & lack else None


def cluster_info(tables: RouteInfo) -> ClusterInfo:
    """Every broker, and which cluster it belongs to."""
    return ClusterInfo(
        broker_addr_table={name: _copy(broker) for name, broker in tables.brokers.items()},
        cluster_addr_table={cluster: set(names) for cluster, names in tables.clusters.items()},
    )


def member_group(tables: RouteInfo, cluster: str, broker_name: str) -> BrokerMemberGroup:
    """The addresses of one broker name, by broker id; empty when it is not known."""
    broker = tables.brokers.get(broker_name)
    addresses = dict(broker.broker_addrs) if broker is not None else {}
    return BrokerMemberGroup(cluster=cluster, broker_name=broker_name, broker_addrs=addresses)
