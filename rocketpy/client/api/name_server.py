"""Requests to name servers: routes, clusters, topics, key-value configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocketpy.client.call import ask, body_of, header_of, read_body, request
from rocketpy.errors import BrokerError
from rocketpy.wire.bodies.route import ClusterInfo, KVTable, TopicRouteData
from rocketpy.wire.bodies.topics import TopicList
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.headers.route import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteKVConfigRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    PutKVConfigRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)

if TYPE_CHECKING:
    from rocketpy.client.name_server import NameServers
    from rocketpy.remoting.pool import ConnectionPool

__all__ = [
    "all_topics",
    "cluster_info",
    "delete_kv_config",
    "delete_topic_route",
    "get_kv_config",
    "kv_list",
    "put_kv_config",
    "set_writable",
    "topic_route",
    "topics_of_cluster",
]

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""Namespace of the key-value configuration whose entries travel with the routes of ordered topics."""


async def topic_route(name_servers: NameServers, topic: str, *, timeout: float | None = None) -> TopicRouteData:
    """The route of a topic: its brokers and queues.

    Raises:
        TopicNotExistError: the name server does not know the topic.
        NameServerUnreachableError: none answered.
    """
    header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
    command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
    answer, address = await name_servers.ask(command, timeout=timeout, doing=f"asking for the route of {topic}")
    return body_of(TopicRouteData, answer, address)


async def cluster_info(name_servers: NameServers, *, timeout: float | None = None) -> ClusterInfo:
    """All brokers, and the clusters they form.

    Raises:
        NameServerUnreachableError: no name server answered.
    """
    command = request(RequestCode.GET_BROKER_CLUSTER_INFO)
    answer, address = await name_servers.ask(command, timeout=timeout, doing="asking for the clusters")
    return await read_body(ClusterInfo, answer, address)


async def all_topics(name_servers: NameServers, *, timeout: float | None = None) -> set[str]:
    """Names of all topics.

    Raises:
        NameServerUnreachableError: no name server answered.
    """
    command = request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    answer, address = await name_servers.ask(command, timeout=timeout, doing="asking for all topics")
    return (await read_body(TopicList, answer, address)).topic_list


async def topics_of_cluster(name_servers: NameServers, cluster: str, *, timeout: float | None = None) -> set[str]:
    """Names of the topics that brokers of a cluster hold.

    Raises:
        NameServerUnreachableError: no name server answered.
    """
    command = request(RequestCode.GET_TOPICS_BY_CLUSTER, GetTopicsByClusterRequestHeader(cluster=cluster))
    answer, address = await name_servers.ask(command, timeout=timeout, doing=f"asking for the topics of {cluster}")
    return (await read_body(TopicList, answer, address)).topic_list


async def delete_topic_route(
    name_servers: NameServers, topic: str, *, cluster: str | None = None, timeout: float | None = None
) -> None:
    """Have every name server forget a topic.

    Raises:
        NameServerUnreachableError: one of them did not answer; the others forgot it.
        BrokerError: one of them refused.
    """
    header = DeleteTopicFromNamesrvRequestHeader(topic=topic, cluster_name=cluster)
    command = request(RequestCode.DELETE_TOPIC_IN_NAMESRV, header)
    await name_servers.ask_all(command, timeout=timeout, doing=f"deleting the route of {topic}")


async def set_writable(pool: ConnectionPool, address: str, broker_name: str, *, writable: bool, timeout: float) -> int:
    """Have one name server show a broker with, or without, permission to write. Returns how many topics that changed.

    Raises:
        BrokerError: the name server refuses.
        TransportError, RequestTimeoutError: it does not answer.
    """
    doing = f"{'giving' if writable else 'taking'} the permission to write to {broker_name}"
    if writable:
        given = request(
            RequestCode.ADD_WRITE_PERM_OF_BROKER, AddWritePermOfBrokerRequestHeader(broker_name=broker_name)
        )
        answer = await ask(pool, address, given, timeout=timeout, doing=doing)
        return header_of(AddWritePermOfBrokerResponseHeader, answer, address).add_topic_count
    taken = request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBrokerRequestHeader(broker_name=broker_name))
    answer = await ask(pool, address, taken, timeout=timeout, doing=doing)
    return header_of(WipeWritePermOfBrokerResponseHeader, answer, address).wipe_topic_count


# --- key-value configuration -----------------------------------------------------------------------------


async def put_kv_config(
    name_servers: NameServers, namespace: str, key: str, value: str, *, timeout: float | None = None
) -> None:
    """Set one key at every name server.

    Raises:
        NameServerUnreachableError: one of them did not answer; the others have it.
        BrokerError: one of them refused.
    """
    header = PutKVConfigRequestHeader(namespace=namespace, key=key, value=value)
    command = request(RequestCode.PUT_KV_CONFIG, header)
    await name_servers.ask_all(command, timeout=timeout, doing=f"setting {key} of {namespace}")


async def get_kv_config(
    name_servers: NameServers, namespace: str, key: str, *, timeout: float | None = None
) -> str | None:
    """The value of one key, None when it is not set.

    Raises:
        NameServerUnreachableError: no name server answered.
    """
    command = request(RequestCode.GET_KV_CONFIG, GetKVConfigRequestHeader(namespace=namespace, key=key))
    try:
        answer, address = await name_servers.ask(command, timeout=timeout, doing=f"asking for {key} of {namespace}")
    except BrokerError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        raise
    return header_of(GetKVConfigResponseHeader, answer, address).value


async def delete_kv_config(
    name_servers: NameServers, namespace: str, key: str, *, timeout: float | None = None
) -> None:
    """Have every name server forget one key.

    Raises:
        NameServerUnreachableError: one of them did not answer; the others forgot it.
        BrokerError: one of them refused.
    """
    command = request(RequestCode.DELETE_KV_CONFIG, DeleteKVConfigRequestHeader(namespace=namespace, key=key))
    await name_servers.ask_all(command, timeout=timeout, doing=f"deleting {key} of {namespace}")


async def kv_list(name_servers: NameServers, namespace: str, *, timeout: float | None = None) -> dict[str, str]:
    """All keys of a namespace; empty when there is no such namespace.

    Raises:
        NameServerUnreachableError: no name server answered.
    """
    command = request(RequestCode.GET_KVLIST_BY_NAMESPACE, GetKVListByNamespaceRequestHeader(namespace=namespace))
    try:
        answer, address = await name_servers.ask(command, timeout=timeout, doing=f"asking for {namespace}")
    except BrokerError as error:
        if error.code == ResponseCode.QUERY_NOT_FOUND:
            return {}
        raise
    return (await read_body(KVTable, answer, address)).table
