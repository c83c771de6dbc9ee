"""Bodies of answers that grow with what is registered, written a little at a time.

They are the bytes that the bodies themselves would be encoded to, but for the order of sets.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rocketpy.wire.lenient_json import write_json
from rocketpy_broker_sim.serving.encoding import parts_of

if TYPE_CHECKING:
    from rocketpy.wire.bodies.route import TopicRouteData
    from rocketpy_broker_sim.namesrv.route_info import RouteInfo

__all__ = ["cluster_info_body", "kv_table_body", "route_body", "topic_list_body"]

Steps = Generator[None, None, bytes]

_NAMES_A_STEP = 256
_BROKERS_A_STEP = 16


def topic_list_body(names: Iterable[str | None]) -> Steps:
    """TopicList of these names; None stands for one that is passed over."""
    parts = []
    for chunk in parts_of(names, _NAMES_A_STEP):
        found = [name for name in chunk if name is not None]
        if found:
            parts.append(write_json(found)[1:-1])
        yield
    return f'{{"topicList":[{",".join(parts)}]}}'.encode()


def kv_table_body(table: Mapping[str, str]) -> Steps:
    """KVTable."""
    parts = []
    for chunk in parts_of(table.items(), _NAMES_A_STEP):
        parts.append(write_json(dict(chunk))[1:-1])
        yield
    return f'{{"table":{{{",".join(parts)}}}}}'.encode()


def cluster_info_body(tables: RouteInfo) -> Steps:
    """ClusterInfo of all brokers as they are when their turn comes."""
    brokers, clusters = [], []
    for chunk in parts_of(list(tables.brokers), _BROKERS_A_STEP):
        found = {name: tables.brokers[name].to_json() for name in chunk if name in tables.brokers}
        brokers.append(write_json(found)[1:-1])
        yield
    for chunk in parts_of(list(tables.clusters), _BROKERS_A_STEP):
        names = {cluster: sorted(tables.clusters[cluster]) for cluster in chunk if cluster in tables.clusters}
        clusters.append(write_json(names)[1:-1])
        yield
    first, second = (",".join(part for part in parts if part) for parts in (brokers, clusters))
    return f'{{"brokerAddrTable":{{{first}}},"clusterAddrTable":{{{second}}}}}'.encode()


def route_body(
    names: Sequence[str],
    part_of: Callable[[Sequence[str]], TopicRouteData | None],
    order: str | None,
    *,
    browser_compatible: bool,
) -> Steps:
    """TopicRouteData of many brokers, made of routes that hold a few of them each.

    Args:
        names: the brokers.
        part_of: the route of some of them.
        order: the order configuration of the topic.
        browser_compatible: standard JSON, with every key quoted.
    """
    lists: dict[str, list[str]] = {"brokerDatas": [], "queueDatas": []}
    tables: dict[str, list[str]] = {"filterServerTable": [], "topicQueueMappingByBroker": []}
    for chunk in parts_of(names, _BROKERS_A_STEP):
        route = part_of(chunk)
        for key, value in ({} if route is None else route.to_json()).items():
            parts = lists.get(key, tables.get(key))
            if value and parts is not None:
                parts.append(write_json(value, browser_compatible=browser_compatible)[1:-1])
        yield
    members = {key: f"[{','.join(parts)}]" for key, parts in lists.items()}
    members["filterServerTable"] = f"{{{','.join(tables['filterServerTable'])}}}"
    if tables["topicQueueMappingByBroker"]:
        members["topicQueueMappingByBroker"] = f"{{{','.join(tables['topicQueueMappingByBroker'])}}}"
    if order is not None:
        members["orderTopicConf"] = write_json(order, browser_compatible=browser_compatible)
    text = ",".join(f'"{key}":{members[key]}' for key in sorted(members))
    return f"{{{text}}}".encode()
