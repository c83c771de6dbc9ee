"""What a name server answers: request code -> function, over the route tables and the key-value table.

Each processor is a plain function of the server and one request. Plays the part of DefaultRequestProcessor and
ClientRequestProcessor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketpy.errors import BrokerError, ConfigError
from rocketpy.logs import get_logger
from rocketpy.wire.bodies.registration import RegisterBrokerBody
from rocketpy.wire.bodies.route import GetBrokerMemberGroupResponseBody, KVTable, TopicRouteData
from rocketpy.wire.bodies.topics import DataVersion
from rocketpy.wire.codes import RequestCode, ResponseCode
from rocketpy.wire.command import RemotingCommand
from rocketpy.wire.headers.route import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    BrokerHeartbeatRequestHeader,
    DeleteKVConfigRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    GetTopicsByClusterRequestHeader,
    PutKVConfigRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    RegisterTopicRequestHeader,
    UnRegisterBrokerRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from rocketpy.wire.message_codec import body_crc
from rocketpy.wire.names import is_valid_stored_topic, is_valid_topic
from rocketpy.wire.sysflag import TopicSysFlag
from rocketpy_broker_sim.config import (
    MAX_UPDATE,
    NAMESRV_UPDATES,
    as_properties,
    format_properties,
    parse_properties,
    update_settings,
)
from rocketpy_broker_sim.namesrv import route_query
from rocketpy_broker_sim.namesrv.kv_config import ORDER_TOPIC_CONFIG
from rocketpy_broker_sim.namesrv.route_info import Identity, Registration

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy_broker_sim.namesrv.server import NameServer

__all__ = ["processors"]

logger = get_logger(__name__)

V4_9_4 = 401
"""Clients from this version on are given routes in standard JSON."""

MAX_ADDRESS = 300
"""Characters of a broker's address: a host name has 253 at the most."""
MAX_FILTER_SERVERS = 64
"""Filter servers of a broker; none has existed since 4.9."""

Processor = Callable[["NameServer", "Connection", RemotingCommand], RemotingCommand]


# --- brokers -------------------------------------------------------------------------------------------


def register_broker(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """REGISTER_BROKER: take a broker's topics over, tell a slave where its master is."""
    header = RegisterBrokerRequestHeader.from_ext(request.ext_fields)
    if header.body_crc32 and header.body_crc32 != body_crc(request.body):
        return request.answer(ResponseCode.SYSTEM_ERROR, "the body does not match its crc32")
    identity = Identity(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        address=header.broker_addr,
        broker_id=header.broker_id,
    )
    if not all(is_valid_topic(name) for name in (identity.cluster, identity.broker_name)):
        return request.answer(ResponseCode.SYSTEM_ERROR, "the cluster or broker name has illegal characters")
    if max(len(header.broker_addr), len(header.ha_server_addr)) > MAX_ADDRESS:
        return request.answer(ResponseCode.SYSTEM_ERROR, f"an address of more than {MAX_ADDRESS} characters")
    body = RegisterBrokerBody.decode_any(request.body, version=request.version, compressed=header.compressed)
    _drop_impossible(body, identity)
    registered = server.routes.register(
        Registration(
            identity=identity,
            ha_address=header.ha_server_addr,
            zone_name=request.ext_fields.get("__ZONE_NAME"),
            timeout_ms=header.heartbeat_timeout_millis,
            acting_master=header.enable_acting_master,
            topics=body.topic_config_serialize_wrapper,
            filter_servers=tuple(body.filter_server_list),
            connection=connection,
            now=server.now(),
        )
    )
    if registered is None:
        return request.answer(
            ResponseCode.SYSTEM_ERROR, "the registration is outdated, holds a single topic, or is one too many"
        )
    answer = RegisterBrokerResponseHeader(ha_server_addr=registered.ha_address, master_addr=registered.master_address)
    order_config = server.kv_config.namespace(ORDER_TOPIC_CONFIG)
    sends_order_config = server.config.return_order_topic_config_to_broker and order_config is not None
    return request.answer(
        ext_fields=answer.to_ext(), body=KVTable(table=order_config or {}).encode() if sends_order_config else b""
    )


def _drop_impossible(body: RegisterBrokerBody, identity: Identity) -> None:
    """Leave out what no broker of Apache's or ours has, and what would only fill our memory."""
    topics = body.topic_config_serialize_wrapper.topic_config_table
    impossible = [name for name in topics if not is_valid_stored_topic(name)]
    for name in impossible:
        del topics[name]
    if impossible:
        logger.warning("%s registers %d topics of illegal names: they are left out", identity, len(impossible))
    known = [address for address in body.filter_server_list if len(address) <= MAX_ADDRESS]
    body.filter_server_list = known[:MAX_FILTER_SERVERS]


def unregister_broker(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """UNREGISTER_BROKER: forget a broker at once."""
    header = UnRegisterBrokerRequestHeader.from_ext(request.ext_fields)
    identity = Identity(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        address=header.broker_addr,
        broker_id=header.broker_id,
    )
    server.routes.unregister([identity])
    return request.answer()


def query_data_version(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """QUERY_DATA_VERSION: whether a broker must register again; a sign of life too."""
    header = QueryDataVersionRequestHeader.from_ext(request.ext_fields)
    key = (header.cluster_name, header.broker_addr)
    changed = server.routes.is_changed(key, DataVersion.decode(request.body))
    server.routes.touch(key, server.now())
    live = server.routes.live.get(key)
    return request.answer(
        ext_fields=QueryDataVersionResponseHeader(changed=changed).to_ext(),
        body=b"" if live is None else live.data_version.encode(),
    )


def broker_heartbeat(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """BROKER_HEARTBEAT: a sign of life and nothing else."""
    header = BrokerHeartbeatRequestHeader.from_ext(request.ext_fields)
    server.routes.touch((header.cluster_name, header.broker_addr), server.now())
    return request.answer()


def wipe_write_perm(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """WIPE_WRITE_PERM_OF_BROKER: nothing is sent to a broker any more, until it registers changed topics."""
    header = WipeWritePermOfBrokerRequestHeader.from_ext(request.ext_fields)
    count = server.routes.set_write_permission(header.broker_name, allowed=False)
    return request.answer(ext_fields=WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count).to_ext())


def add_write_perm(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """ADD_WRITE_PERM_OF_BROKER: the reverse."""
    header = AddWritePermOfBrokerRequestHeader.from_ext(request.ext_fields)
    count = server.routes.set_write_permission(header.broker_name, allowed=True)
    return request.answer(ext_fields=AddWritePermOfBrokerResponseHeader(add_topic_count=count).to_ext())


def broker_member_group(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_BROKER_MEMBER_GROUP: the addresses of one broker name."""
    header = GetBrokerMemberGroupRequestHeader.from_ext(request.ext_fields)
    group = route_query.member_group(server.routes, header.cluster_name, header.broker_name)
    return request.answer(body=GetBrokerMemberGroupResponseBody(broker_member_group=group).encode())


# --- routes and lists ----------------------------------------------------------------------------------


def route_info(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_ROUTEINFO_BY_TOPIC: brokers and queues of a topic."""
    if server.is_warming_up():
        return request.answer(ResponseCode.SYSTEM_ERROR, "the name server is waiting for its brokers, ask again soon")
    # Read past the declared header: Apache answers a request without a topic as one for a topic nobody knows.
    topic = request.ext_fields.get("topic") or "null"
    route = route_query.route_of(server.routes, topic, acting_master=server.config.support_acting_master)
    if route is None:
        remark = f"no broker has registered the topic {topic[:256]!r}: create it, or check the broker's name servers"
        return request.answer(ResponseCode.TOPIC_NOT_EXIST, remark)
    if request.ext_fields.get("__ZONE_MODE", "").lower() == "true":
        route = route_query.near(route, request.ext_fields.get("__ZONE_NAME", ""))
    if server.config.order_message_enable:
        route.order_topic_conf = server.kv_config.get(ORDER_TOPIC_CONFIG, topic)
    standard = request.ext_fields.get("acceptStandardJsonOnly", "").lower() == "true"
    return request.answer(body=route.encode(browser_compatible=standard or request.version >= V4_9_4))


def cluster_info(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_BROKER_CLUSTER_INFO: every broker by name and by cluster."""
    return request.answer(body=route_query.cluster_info(server.routes).encode())


def all_topics(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""
    if not server.config.enable_all_topic_list:
        return request.answer(ResponseCode.SYSTEM_ERROR, "listing all topics is switched off here")
    return request.answer(body=route_query.all_topics(server.routes).encode())


def topics_by_cluster(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_TOPICS_BY_CLUSTER."""
    if not server.config.enable_topic_list:
        return request.answer(ResponseCode.SYSTEM_ERROR, "listing topics is switched off here")
    header = GetTopicsByClusterRequestHeader.from_ext(request.ext_fields)
    return request.answer(body=route_query.topics_of_cluster(server.routes, header.cluster).encode())


def system_topics(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_SYSTEM_TOPIC_LIST_FROM_NS."""
    return request.answer(body=route_query.system_topics(server.routes).encode())


def unit_topics(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_UNIT_TOPIC_LIST."""
    return _flag_list(server, request, TopicSysFlag.UNIT)


def unit_sub_topics(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_HAS_UNIT_SUB_TOPIC_LIST."""
    return _flag_list(server, request, TopicSysFlag.UNIT_SUB)


def unit_sub_ununit_topics(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST."""
    return _flag_list(server, request, TopicSysFlag.UNIT_SUB, TopicSysFlag.UNIT)


def _flag_list(server: NameServer, request: RemotingCommand, have: int, lack: int = 0) -> RemotingCommand:
    if not server.config.enable_topic_list:
        return request.answer(ResponseCode.SYSTEM_ERROR, "listing topics is switched off here")
    return request.answer(body=route_query.topics_by_flag(server.routes, have=have, lack=lack).encode())


def delete_topic(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """DELETE_TOPIC_IN_NAMESRV: from all brokers, or from those of one cluster."""
    header = DeleteTopicFromNamesrvRequestHeader.from_ext(request.ext_fields)
    server.routes.delete_topic(header.topic, header.cluster_name or None)
    return request.answer()


def register_topic(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """REGISTER_TOPIC_IN_NAMESRV: add one topic's queues at brokers that are known; success all the same when not."""
    header = RegisterTopicRequestHeader.from_ext(request.ext_fields)
    if not is_valid_topic(header.topic):
        return request.answer(ResponseCode.INVALID_PARAMETER, "the topic name has illegal characters or is too long")
    route = TopicRouteData.decode(request.body)
    server.routes.register_topic(header.topic, {queue.broker_name: queue for queue in route.queue_datas})
    return request.answer()


# --- key-value table and settings ----------------------------------------------------------------------


def put_kv_config(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """PUT_KV_CONFIG."""
    header = PutKVConfigRequestHeader.from_ext(request.ext_fields)
    server.kv_config.put(header.namespace, header.key, header.value)
    return request.answer()


def get_kv_config(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_KV_CONFIG."""
    header = GetKVConfigRequestHeader.from_ext(request.ext_fields)
    value = server.kv_config.get(header.namespace, header.key)
    if value is None:
        return request.answer(ResponseCode.QUERY_NOT_FOUND, "no such key in this namespace")
    return request.answer(ext_fields=GetKVConfigResponseHeader(value=value).to_ext())


def delete_kv_config(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """DELETE_KV_CONFIG."""
    header = DeleteKVConfigRequestHeader.from_ext(request.ext_fields)
    server.kv_config.delete(header.namespace, header.key)
    return request.answer()


def kv_list(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_KVLIST_BY_NAMESPACE."""
    header = GetKVListByNamespaceRequestHeader.from_ext(request.ext_fields)
    pairs = server.kv_config.namespace(header.namespace)
    if pairs is None:
        return request.answer(ResponseCode.QUERY_NOT_FOUND, "no such namespace")
    return request.answer(body=KVTable(table=pairs).encode())


def update_config(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """UPDATE_NAMESRV_CONFIG: harmless keys only, all of them or none; nothing of it is written to a file."""
    if len(request.body) > MAX_UPDATE:
        return request.answer(ResponseCode.INVALID_PARAMETER, f"settings of more than {MAX_UPDATE} bytes")
    try:
        properties = parse_properties(request.body.decode())
    except (UnicodeDecodeError, ConfigError) as exc:
        remark = "the body is no text of key=value lines"
        raise BrokerError.for_code(ResponseCode.INVALID_PARAMETER, remark) from exc
    update_settings([server.config], properties, NAMESRV_UPDATES)
    server.refresh_settings()
    logger.info("settings changed from %s: %r", connection.address, properties)
    return request.answer()


def get_config(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_NAMESRV_CONFIG: the settings as properties text."""
    return request.answer(body=format_properties(as_properties(server.config)).encode())


_TABLE: dict[RequestCode, Processor] = {
    RequestCode.REGISTER_BROKER: register_broker,
    RequestCode.UNREGISTER_BROKER: unregister_broker,
    RequestCode.QUERY_DATA_VERSION: query_data_version,
    RequestCode.BROKER_HEARTBEAT: broker_heartbeat,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: wipe_write_perm,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: add_write_perm,
    RequestCode.GET_BROKER_MEMBER_GROUP: broker_member_group,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: route_info,
    RequestCode.GET_BROKER_CLUSTER_INFO: cluster_info,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: all_topics,
    RequestCode.GET_TOPICS_BY_CLUSTER: topics_by_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: system_topics,
    RequestCode.GET_UNIT_TOPIC_LIST: unit_topics,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: unit_sub_topics,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: unit_sub_ununit_topics,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: delete_topic,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: register_topic,
    RequestCode.PUT_KV_CONFIG: put_kv_config,
    RequestCode.GET_KV_CONFIG: get_kv_config,
    RequestCode.DELETE_KV_CONFIG: delete_kv_config,
    RequestCode.GET_KVLIST_BY_NAMESPACE: kv_list,
    RequestCode.UPDATE_NAMESRV_CONFIG: update_config,
    RequestCode.GET_NAMESRV_CONFIG: get_config,
}


def processors(server: NameServer) -> dict[int, Callable[[Connection, RemotingCommand], RemotingCommand]]:
    """The table bound to one server, as a Dispatcher wants it."""

    def bind(function: Processor) -> Callable[[Connection, RemotingCommand], RemotingCommand]:
        return lambda connection, request: function(server, connection, request)

    return {int(code): bind(function) for code, function in _TABLE.items()}
