"""Where topics live: what a name server answers about routes, brokers and clusters."""

from __future__ import annotations

from rocketpy.wire.bodies.topics import TopicQueueMappingInfo
from rocketpy.wire.json_body import Body, Int32, body, member

__all__ = [
    "BrokerData",
    "BrokerMemberGroup",
    "ClusterInfo",
    "GetBrokerMemberGroupResponseBody",
    "KVTable",
    "QueueData",
    "TopicRouteData",
]

MASTER_ID = 0
"""The broker id of a master; slaves count from 1."""


@body
class QueueData(Body):
    """How many queues of the topic a broker has, and what may be done with them."""

    broker_name: str
    read_queue_nums: Int32 = 0
    write_queue_nums: Int32 = 0
    perm: Int32 = 0
    topic_sys_flag: Int32 = 0


@body
class BrokerData(Body):
    """The addresses of the brokers that share a name: a master and its slaves."""

    broker_name: str
    cluster: str | None = None
    broker_addrs: dict[int, str] = member(factory=dict)
    """Address by broker id."""
    zone_name: str | None = None
    enable_acting_master: bool = False


@body
class TopicRouteData(Body):
    """Everything about where a topic lives."""

    broker_datas: list[BrokerData] = member(factory=list)
    queue_datas: list[QueueData] = member(factory=list)
    filter_server_table: dict[str, list[str]] = member(factory=dict)
    order_topic_conf: str | None = None
    """Queues of an ordered topic that stay put: "broker-a:4;broker-b:4"."""
    topic_queue_mapping_by_broker: dict[str, TopicQueueMappingInfo] | None = None


@body
class ClusterInfo(Body):
    """All brokers, and the clusters they form."""

    broker_addr_table: dict[str, BrokerData] = member(factory=dict)
    cluster_addr_table: dict[str, set[str]] = member(factory=dict)


@body
class BrokerMemberGroup(Body):
    """The brokers that share a name, as they see themselves."""

    cluster: str | None = None
    broker_name: str
    broker_addrs: dict[int, str] = member(factory=dict)


@body
class GetBrokerMemberGroupResponseBody(Body):
    """The brokers that share a name; None when there are none."""

    broker_member_group: BrokerMemberGroup | None = None


@body
class KVTable(Body):
    """A table of text: KV configuration, run-time information."""

    table: dict[str, str] = member(factory=dict)
