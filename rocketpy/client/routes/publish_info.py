"""Turns the route of a topic, as a name server describes it, into the queues that can be written and read. Pure.

A `TopicRoute` is an immutable snapshot that any thread may read; a changed route is a new object. Plays the part of
TopicPublishInfo and of the topicRouteData2... functions in MQClientInstance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

import attrs

from rocketpy.errors import ConfigError, RemoteProtocolError
from rocketpy.message import MessageQueue
from rocketpy.wire.bodies.route import MASTER_ID, BrokerData, QueueData, TopicRouteData
from rocketpy.wire.hosts import format_address, parse_address
from rocketpy.wire.sysflag import Permission

if TYPE_CHECKING:
    from rocketpy.wire.bodies.topics import TopicQueueMappingInfo

__all__ = [
    "MAX_QUEUES",
    "NoQueue",
    "TopicPublishInfo",
    "TopicRoute",
    "default_route",
    "map_address",
    "topic_route",
    "usable_brokers",
]

MAX_QUEUES = 65_536
"""A route with more queues than this is refused as damaged, so that a name server cannot fill the memory."""

_INT_DIGITS = 10
"""Digits that a number of queues may have, leading zeros included."""
_MOCK_BROKER = "__syslo__"
_GLOBAL_SCOPE = "__global__"
_NO_BROKER = "__syslo__none__"


class NoQueue(Enum):
    """Why an existing route has no queue to write or to read."""

    PERMISSION = "no queue of it may be used in this way"
    NO_MASTER = "no broker that holds it has a living master"
    NO_ADDRESS = "no broker that holds it has a usable address"


@attrs.frozen
class TopicPublishInfo:
    """The queues of a topic that can be written."""

    topic: str
    queues: tuple[MessageQueue, ...]
    """Sorted by broker name and queue id, as in the clients of other languages."""
    order_topic: bool = False
    """Whether the queues come from the ordered-topic configuration, so that they stay when brokers come and go."""
    several_brokers: bool = attrs.field(init=False, eq=False, repr=False)
    """Whether the queues are on more than one broker."""

    def __attrs_post_init__(self) -> None:
        """Count the brokers once."""
        object.__setattr__(self, "several_brokers", len({queue.broker_name for queue in self.queues}) > 1)


@attrs.frozen
class TopicRoute:
    """The route of a topic, ready for use."""

    topic: str
    publish: TopicPublishInfo
    subscribe: tuple[MessageQueue, ...]
    """The queues that can be read, sorted."""
    brokers: Mapping[str, Mapping[int, str]]
    """Usable addresses by broker name and broker id."""
    endpoints: Mapping[MessageQueue, str]
    """For a static topic: the broker that holds a logical queue now."""
    not_writable: NoQueue | None
    """Why nothing can be written, None if something can."""
    not_readable: NoQueue | None
    """Why nothing can be read, None if something can."""
    addresses: tuple[str, ...]
    """Every address as the name server has sent it, usable or not, for error texts."""


def topic_route(topic: str, data: TopicRouteData, *, address_map: Mapping[str, str] | None = None) -> TopicRoute:
    """Make a `TopicRoute` of the data from a name server.

    Raises:
        RemoteProtocolError: the data is impossible.
    """
    _check_size(topic, data)
    brokers = usable_brokers(data.broker_datas, address_map or {})
    endpoints = _static_endpoints(topic, data.topic_queue_mapping_by_broker or {})
    publish = _publish_info(topic, data, endpoints)
    subscribe = tuple(sorted(endpoints or _readable(topic, data)))
    return TopicRoute(
        topic=topic,
        publish=publish,
        subscribe=subscribe,
        brokers=brokers,
        endpoints=MappingProxyType(endpoints),
        not_writable=_problem(topic, data, brokers, publish.queues, Permission.WRITE),
        not_readable=_problem(topic, data, brokers, subscribe, Permission.READ),
        addresses=tuple(address for broker in data.broker_datas for address in broker.broker_addrs.values()),
    )


def default_route(data: TopicRouteData, queue_nums: int) -> TopicRouteData:
    """The route that a topic will have once its first message has created it, from the route of the default topic."""
    queues = []
    for queue in data.queue_datas:
        number = min(queue_nums, queue.read_queue_nums)
        queues.append(
            QueueData(
                broker_name=queue.broker_name,
                read_queue_nums=number,
                write_queue_nums=number,
                perm=queue.perm,
                topic_sys_flag=queue.topic_sys_flag,
            )
        )
    return TopicRouteData(
        broker_datas=data.broker_datas,
        queue_datas=queues,
        filter_server_table=data.filter_server_table,
        order_topic_conf=data.order_topic_conf,
        topic_queue_mapping_by_broker=data.topic_queue_mapping_by_broker,
    )


# --- queues to write and to read -----------------------------------------------------------------------


def _publish_info(topic: str, data: TopicRouteData, endpoints: Mapping[MessageQueue, str]) -> TopicPublishInfo:
    if data.order_topic_conf:
        return TopicPublishInfo(topic, tuple(_ordered(topic, data.order_topic_conf)), order_topic=True)
    if data.order_topic_conf is None and endpoints:
        return TopicPublishInfo(topic, tuple(sorted(endpoints, key=lambda queue: queue.queue_id)))
    return TopicPublishInfo(topic, tuple(_writable(topic, data)))


def _ordered(topic: str, conf: str) -> Iterator[MessageQueue]:
    """The queues of a configuration such as "broker-a:4;broker-b:4", in that order, whether the brokers run or not."""
    total = 0
    for part in conf.split(";"):
        name, colon, count = part.strip().rpartition(":")
        if not part.strip():
            continue
        is_number = count.isascii() and count.isdigit() and len(count) <= _INT_DIGITS
        if not (colon and name and is_number and (total := total + int(count)) <= MAX_QUEUES):
            raise RemoteProtocolError(
                f"the ordered-topic configuration of {topic} is not readable, or has over {MAX_QUEUES} queues: "
                f"{conf!r:.200}"
            )
        for number in range(int(count)):
            yield MessageQueue(topic, name, number)


def _writable(topic: str, data: TopicRouteData) -> Iterator[MessageQueue]:
    masters = {broker.broker_name for broker in data.broker_datas if MASTER_ID in broker.broker_addrs}
    for queues in _by_broker_name(data):
        if queues.perm & Permission.WRITE and queues.broker_name in masters:
            for number in range(queues.write_queue_nums):
                yield MessageQueue(topic, queues.broker_name, number)


def _readable(topic: str, data: TopicRouteData) -> Iterator[MessageQueue]:
    for queues in _by_broker_name(data):
        if queues.perm & Permission.READ:
            for number in range(queues.read_queue_nums):
                yield MessageQueue(topic, queues.broker_name, number)


def _by_broker_name(data: TopicRouteData) -> list[QueueData]:
    return sorted(data.queue_datas, key=lambda queues: queues.broker_name)


def _check_size(topic: str, data: TopicRouteData) -> None:
    mappings = (data.topic_queue_mapping_by_broker or {}).values()
    mapped = [info.total_queues for info in mappings]
    by_scope: dict[str | None, int] = {}  # the mapping of each broker counts all queues of its scope
    for info in mappings:
        by_scope[info.scope] = max(by_scope.get(info.scope, 0), info.total_queues)
    counts = [number for queues in data.queue_datas for number in (queues.read_queue_nums, queues.write_queue_nums)]
    if sum(counts) > 2 * MAX_QUEUES or sum(by_scope.values()) > MAX_QUEUES or min([*counts, *mapped], default=0) < 0:
        raise RemoteProtocolError(f"the route of {topic} has an impossible number of queues, over {MAX_QUEUES}")


def _problem(
    topic: str,
    data: TopicRouteData,
    brokers: Mapping[str, Mapping[int, str]],
    queues: tuple[MessageQueue, ...],
    wanted: int,
) -> NoQueue | None:
    """Why nothing can be written or read, None if something can."""
    if any(_has_address(queue, brokers, wanted) for queue in queues):
        return None
    if not queues and not any(each.perm & wanted for each in data.queue_datas):
        return NoQueue.PERMISSION
    if wanted == Permission.WRITE and not any(MASTER_ID in broker.broker_addrs for broker in data.broker_datas):
        return NoQueue.NO_MASTER
    return NoQueue.NO_ADDRESS


def _has_address(queue: MessageQueue, brokers: Mapping[str, Mapping[int, str]], wanted: int) -> bool:
    """Whether a queue has a usable broker: a master for writing, any for reading. Static topics always count as yes."""
    if queue.broker_name.startswith(_MOCK_BROKER):
        return True
    addresses = brokers.get(queue.broker_name, {})
    return MASTER_ID in addresses if wanted == Permission.WRITE else bool(addresses)


# --- static topics -------------------------------------------------------------------------------------


def _static_endpoints(topic: str, mappings: Mapping[str, TopicQueueMappingInfo]) -> dict[MessageQueue, str]:
    """For each logical queue of a static topic, the broker that holds it; the newest mapping wins."""
    by_scope: dict[str, list[TopicQueueMappingInfo]] = {}
    for info in mappings.values():
        if info.scope is not None:
            by_scope.setdefault(info.scope, []).append(info)
    found: dict[MessageQueue, str] = {}
    for scope, infos in by_scope.items():
        mock = _mock_broker_name(scope)
        holders: dict[int, TopicQueueMappingInfo] = {}
        for info in sorted(infos, key=lambda each: each.epoch):
            holders.update(dict.fromkeys(info.curr_id_map, info))
        for number in range(max(info.total_queues for info in infos)):
            holder = holders.get(number)
            found[MessageQueue(topic, mock, number)] = (holder.bname if holder else None) or _NO_BROKER
    return found


def _mock_broker_name(scope: str) -> str:
    return _MOCK_BROKER + (scope[2:] if scope == _GLOBAL_SCOPE else scope)


# --- addresses -----------------------------------------------------------------------------------------


def usable_brokers(brokers: Iterable[BrokerData], address_map: Mapping[str, str]) -> Mapping[str, Mapping[int, str]]:
    """The addresses of brokers by name and id, after `address_map`, without those that cannot be used."""
    found: dict[str, Mapping[int, str]] = {}
    for broker in brokers:
        usable = _usable_addresses(broker, address_map)
        if usable:
            found[broker.broker_name] = MappingProxyType(usable)
    return MappingProxyType(found)


def _usable_addresses(broker: BrokerData, address_map: Mapping[str, str]) -> dict[int, str]:
    usable = {}
    for number, address in sorted(broker.broker_addrs.items()):
        try:
            usable[number] = map_address(address, address_map)
        except ConfigError:
            continue
    return usable


def map_address(address: str, address_map: Mapping[str, str]) -> str:
    """The address to connect to for one from a name server, after `address_map`, in its normal form.

    Raises:
        ConfigError: it is not a "host:port".
    """
    if address in address_map:
        address = address_map[address]
    host, port = parse_address(address)
    return format_address(address_map.get(host, host), port)
