"""What a name server answers: request code -> function, over the route tables and the key-value table.

Each processor is a function of the server and one request: plain, or a generator where its work grows with the request
or with what is registered. Plays the part of DefaultRequestProcessor and ClientRequestProcessor.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from rocketpy.errors import BrokerError, ConfigError, RocketMQError, StoreError
from rocketpy.logs import get_logger
from rocketpy.wire.bodies.registration import PIECE_FIELD, Piece, RegisterBrokerBody
from rocketpy.wire.bodies.registration_steps import decode_steps
from rocketpy.wire.bodies.route import GetBrokerMemberGroupResponseBody, TopicRouteData
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
from rocketpy.wire.limits import SMALL_REQUEST_LIMITS
from rocketpy.wire.message_codec import body_crc
from rocketpy.wire.names import is_valid_server_name, is_valid_stored_topic, is_valid_topic
from rocketpy.wire.sysflag import TopicSysFlag
from rocketpy_broker_sim.config import (
    MAX_UPDATE,
    NAMESRV_UPDATES,
    as_properties,
    format_properties,
    parse_properties,
    update_settings,
)
from rocketpy_broker_sim.namesrv import long_answers, route_query
from rocketpy_broker_sim.namesrv.kv_config import ORDER_TOPIC_CONFIG, KVChange
from rocketpy_broker_sim.namesrv.queue_table import TOPICS_A_STEP
from rocketpy_broker_sim.namesrv.route_info import BrokerRegistration, Identity
from rocketpy_broker_sim.serving.slices import is_sliced

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.dispatch import Processor as DispatchedProcessor
    from rocketpy_broker_sim.namesrv.name_server import NameServer
    from rocketpy_broker_sim.serving.slices import SlicedProcessor

__all__ = ["processors"]

logger = get_logger(__name__)

V4_9_4 = 401
"""Clients from this version on are given routes in standard JSON."""

MAX_ADDRESS = 300
"""Characters of a broker's address: a host name has 253 at the most."""
MAX_FILTER_SERVERS = 64
"""Filter servers of a broker; none has existed since 4.9."""

MAX_ZONE = 255
"""Characters of the name of a zone."""
MAX_VERSION_BODY = 4096
"""Bytes of the version of a table."""
MAX_ROUTE_BODY = 2 * 1024 * 1024
"""Bytes of the brokers and queues of a topic."""
FEW_BROKERS = 32
"""Brokers of a topic up to which its route is written at once."""

Steps = Generator[None, None, RemotingCommand | None]
Processor = Callable[["NameServer", "Connection", RemotingCommand], RemotingCommand | Steps | None]


# --- brokers -------------------------------------------------------------------------------------------


def register_broker(server: NameServer, connection: Connection, request: RemotingCommand) -> Steps:
    """REGISTER_BROKER: take a broker's topics over, tell a slave where its master is."""
    header = RegisterBrokerRequestHeader.from_ext(request.ext_fields)
    if header.body_crc32 and header.body_crc32 != body_crc(request.body):
        return request.answer(ResponseCode.SYSTEM_ERROR, "the body does not match its crc32")
    zone = request.ext_fields.get("__ZONE_NAME")
    if zone is not None and len(zone) > MAX_ZONE:
        return request.answer(
            ResponseCode.SYSTEM_ERROR, f"the zone name has more than {MAX_ZONE} characters: shorten it"
        )
    identity = Identity(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        address=header.broker_addr,
        broker_id=header.broker_id,
    )
    if not all(is_valid_server_name(name) for name in (identity.cluster, identity.broker_name)):
        return request.answer(ResponseCode.SYSTEM_ERROR, "the cluster or broker name has illegal characters")
    if max(len(header.broker_addr), len(header.ha_server_addr)) > MAX_ADDRESS:
        return request.answer(ResponseCode.SYSTEM_ERROR, f"an address has more than {MAX_ADDRESS} characters")
    body = yield from decode_steps(request.body, version=request.version, compressed=header.compressed)
    yield from _drop_impossible(body, identity)
    registered = yield from server.routes.register_steps(
        BrokerRegistration(
            identity=identity,
            ha_address=header.ha_server_addr,
            zone_name=zone,
            timeout_ms=header.heartbeat_timeout_millis,
            acting_master=header.enable_acting_master,
            topics=body.topic_config_serialize_wrapper,
            filter_servers=tuple(body.filter_server_list),
            connection=connection,
            now=server.now(),
            piece=Piece.from_text(request.ext_fields.get(PIECE_FIELD)),
        )
    )
    server.note_registered(connection)
    if registered is None:
        return request.answer(
            ResponseCode.SYSTEM_ERROR, "the registration is outdated, holds a single topic, or is one too many"
        )
    answer = RegisterBrokerResponseHeader(ha_server_addr=registered.ha_address, master_addr=registered.master_address)
    order = b""
    if server.config.return_order_topic_config_to_broker and server.kv_config.namespace(ORDER_TOPIC_CONFIG) is not None:
        order = yield from server.kv_config.body_steps(ORDER_TOPIC_CONFIG)
    return request.answer(ext_fields=answer.to_ext(), body=order)


def _drop_impossible(body: RegisterBrokerBody, identity: Identity) -> Generator[None, None, None]:
    """Leave out what no broker of Apache's or ours has, and what would only fill our memory."""
    topics = body.topic_config_serialize_wrapper.topic_config_table
    own, impossible = identity.own_topics, []
    for count, name in enumerate(topics, 1):
        if not is_valid_stored_topic(name) and name not in own:
            impossible.append(name)
        if count % TOPICS_A_STEP == 0:
            yield
    for name in impossible:
        del topics[name]
    if impossible:
        logger.warning("%s registers %d topics with illegal names: they are ignored", identity, len(impossible))
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
    live = server.routes.live.get(identity.key)
    server.routes.unregister([identity])
    if live is not None:
        server.note_registered(live.connection)
    return request.answer()


def query_data_version(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """QUERY_DATA_VERSION: whether a broker must register again; a sign of life too."""
    header = QueryDataVersionRequestHeader.from_ext(request.ext_fields)
    key = (header.cluster_name, header.broker_addr)
    if len(request.body) > MAX_VERSION_BODY:
        return request.answer(ResponseCode.SYSTEM_ERROR, f"the data version has more than {MAX_VERSION_BODY} bytes")
    changed = server.routes.is_changed(key, DataVersion.decode(request.body, limits=SMALL_REQUEST_LIMITS))
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


def wipe_write_perm(server: NameServer, connection: Connection, request: RemotingCommand) -> Steps:
    """WIPE_WRITE_PERM_OF_BROKER: nothing is sent to a broker any more, until it registers changed topics."""
    header = WipeWritePermOfBrokerRequestHeader.from_ext(request.ext_fields)
    count = yield from server.routes.write_permission_steps(header.broker_name, allowed=False)
    return request.answer(ext_fields=WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count).to_ext())


def add_write_perm(server: NameServer, connection: Connection, request: RemotingCommand) -> Steps:
    """ADD_WRITE_PERM_OF_BROKER: the reverse."""
    header = AddWritePermOfBrokerRequestHeader.from_ext(request.ext_fields)
    count = yield from server.routes.write_permission_steps(header.broker_name, allowed=True)
    return request.answer(ext_fields=AddWritePermOfBrokerResponseHeader(add_topic_count=count).to_ext())


def broker_member_group(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_BROKER_MEMBER_GROUP: the addresses of one broker name."""
    header = GetBrokerMemberGroupRequestHeader.from_ext(request.ext_fields)
    group = route_query.member_group(server.routes, header.cluster_name, header.broker_name)
    return request.answer(body=GetBrokerMemberGroupResponseBody(broker_member_group=group).encode())


# --- routes and lists ----------------------------------------------------------------------------------


def route_info(server: NameServer, connection: Connection, request: RemotingCommand) -> Steps:
    """GET_ROUTEINFO_BY_TOPIC: brokers and queues of a topic."""
    if server.is_warming_up():
        return request.answer(ResponseCode.SYSTEM_ERROR, "the name server is waiting for its brokers, ask again soon")
    # Read past the declared header: Apache answers a request without a topic as one for a topic nobody knows.
    topic = request.ext_fields.get("topic") or "null"
    zone = ""
    if request.ext_fields.get("__ZONE_MODE", "").lower() == "true":
        zone = request.ext_fields.get("__ZONE_NAME", "")

    def part_of(names: Sequence[str]) -> TopicRouteData | None:
        acting = server.config.support_acting_master
        route = route_query.route_of(server.routes, topic, acting_master=acting, names=names)
        return route if route is None else route_query.near(route, zone)

    names = [name for name in server.routes.queues.get(topic, ()) if name in server.routes.brokers]
    route = part_of(names[:FEW_BROKERS])
    if route is None and len(names) <= FEW_BROKERS:
        remark = f"no broker has registered the topic {topic[:256]!r}: create it, or check the broker's name servers"
        return request.answer(ResponseCode.TOPIC_NOT_EXIST, remark)
    order = server.kv_config.get(ORDER_TOPIC_CONFIG, topic) if server.config.order_message_enable else None
    standard = request.ext_fields.get("acceptStandardJsonOnly", "").lower() == "true" or request.version >= V4_9_4
    if route is None or len(names) > FEW_BROKERS:
        return request.answer(
            body=(yield from long_answers.route_body(names, part_of, order, browser_compatible=standard))
        )
    route.order_topic_conf = order
    return request.answer(body=route.encode(browser_compatible=standard))


def cluster_info(server: NameServer, connection: Connection, request: RemotingCommand) -> Steps:
    """GET_BROKER_CLUSTER_INFO: every broker by name and by cluster."""
    return request.answer(body=(yield from long_answers.cluster_info_body(server.routes)))


def all_topics(server: NameServer, connection: Connection, request: RemotingCommand) -> Steps:
    """GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""
    if not server.config.enable_all_topic_list:
        return request.answer(ResponseCode.SYSTEM_ERROR, "listing all topics is switched off here")
    names = (topic for topic, _ in server.routes.table.topics())
    return request.answer(body=(yield from long_answers.topic_list_body(names)))


def topics_by_cluster(server: NameServer, connection: Connection, request: RemotingCommand) -> Steps:
    """GET_TOPICS_BY_CLUSTER."""
    if not server.config.enable_topic_list:
        return request.answer(ResponseCode.SYSTEM_ERROR, "listing topics is switched off here")
    header = GetTopicsByClusterRequestHeader.from_ext(request.ext_fields)
    names = route_query.names_of_cluster(server.routes, header.cluster)
    return request.answer(body=(yield from long_answers.topic_list_body(names)))


def system_topics(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_SYSTEM_TOPIC_LIST_FROM_NS."""
    return request.answer(body=route_query.system_topics(server.routes).encode())


def unit_topics(server: NameServer, connection: Connection, request: RemotingCommand) -> Steps:
    """GET_UNIT_TOPIC_LIST."""
    return (yield from _flag_list(server, request, TopicSysFlag.UNIT))


def unit_sub_topics(server: NameServer, connection: Connection, request: RemotingCommand) -> Steps:
    """GET_HAS_UNIT_SUB_TOPIC_LIST."""
    return (yield from _flag_list(server, request, TopicSysFlag.UNIT_SUB))


def unit_sub_ununit_topics(server: NameServer, connection: Connection, request: RemotingCommand) -> Steps:
    """GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST."""
    return (yield from _flag_list(server, request, TopicSysFlag.UNIT_SUB, TopicSysFlag.UNIT))


def _flag_list(server: NameServer, request: RemotingCommand, have: int, lack: int = 0) -> Steps:
    if not server.config.enable_topic_list:
        return request.answer(ResponseCode.SYSTEM_ERROR, "listing topics is switched off here")
    names = route_query.names_by_flag(server.routes, have=have, lack=lack)
    return request.answer(body=(yield from long_answers.topic_list_body(names)))


def delete_topic(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """DELETE_TOPIC_IN_NAMESRV: from all brokers, or from those of one cluster."""
    header = DeleteTopicFromNamesrvRequestHeader.from_ext(request.ext_fields)
    server.routes.delete_topic(header.topic, header.cluster_name or None)
    return request.answer()


def register_topic(server: NameServer, connection: Connection, request: RemotingCommand) -> Steps:
    """REGISTER_TOPIC_IN_NAMESRV: add one topic's queues at brokers that are known; success all the same when not."""
    header = RegisterTopicRequestHeader.from_ext(request.ext_fields)
    if not is_valid_topic(header.topic):
        return request.answer(
            ResponseCode.INVALID_PARAMETER, "the topic name is blank, too long or has illegal characters"
        )
    if len(request.body) > MAX_ROUTE_BODY:
        return request.answer(
            ResponseCode.INVALID_PARAMETER, f"the route has more than {MAX_ROUTE_BODY} bytes: register fewer queues"
        )
    route = yield from TopicRouteData.decode_steps(request.body)
    queues = {queue.broker_name: queue for queue in route.queue_datas}
    yield from server.routes.register_topic_steps(header.topic, queues)
    return request.answer()


# --- key-value table and settings ----------------------------------------------------------------------


def put_kv_config(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    """PUT_KV_CONFIG."""
    header = PutKVConfigRequestHeader.from_ext(request.ext_fields)
    change = KVChange(namespace=header.namespace, key=header.key, value=header.value)
    return _change_kv_config(server, connection, request, change)


def _change_kv_config(
    server: NameServer, connection: Connection, request: RemotingCommand, change: KVChange
) -> RemotingCommand | None:
    """Make a change; where the table is kept in a file the answer leaves when it is there."""
    if not server.kv_config.is_kept:
        server.kv_config.change(change)
        return request.answer()

    def done(error: RocketMQError | None) -> None:
        connection.release_requests()
        answer = request.answer()
        if isinstance(error, StoreError):
            answer = request.answer(
                ResponseCode.SYSTEM_ERROR, "the file of the key values cannot be written: try again"
            )
        elif isinstance(error, BrokerError):
            answer = request.answer(error.code, error.remark)
        connection.send_answer(request, answer)

    if not server.kv_writer.change(change, done):
        return request.answer(ResponseCode.SYSTEM_BUSY, "too many changes wait for the disk: try again soon")
    connection.hold_requests()  # the next one may ask for what this one changes
    return None


def get_kv_config(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_KV_CONFIG."""
    header = GetKVConfigRequestHeader.from_ext(request.ext_fields)
    value = server.kv_config.get(header.namespace, header.key)
    if value is None:
        return request.answer(ResponseCode.QUERY_NOT_FOUND, "no such key in this namespace")
    return request.answer(ext_fields=GetKVConfigResponseHeader(value=value).to_ext())


def delete_kv_config(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
    """DELETE_KV_CONFIG."""
    header = DeleteKVConfigRequestHeader.from_ext(request.ext_fields)
    return _change_kv_config(server, connection, request, KVChange(namespace=header.namespace, key=header.key))


def kv_list(server: NameServer, connection: Connection, request: RemotingCommand) -> Steps:
    """GET_KVLIST_BY_NAMESPACE."""
    header = GetKVListByNamespaceRequestHeader.from_ext(request.ext_fields)
    if server.kv_config.namespace(header.namespace) is None:
        return request.answer(ResponseCode.QUERY_NOT_FOUND, "no such namespace")
    return request.answer(body=(yield from server.kv_config.body_steps(header.namespace)))


def update_config(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """UPDATE_NAMESRV_CONFIG: harmless keys only, all of them or none; nothing of it is written to a file."""
    if len(request.body) > MAX_UPDATE:
        remark = f"the settings have {len(request.body)} bytes, {MAX_UPDATE} are allowed: send them in several requests"
        return request.answer(ResponseCode.INVALID_PARAMETER, remark)
    try:
        properties = parse_properties(request.body.decode())
    except (UnicodeDecodeError, ConfigError) as exc:
        remark = "the body is not text of key=value lines"
        raise BrokerError.for_code(ResponseCode.INVALID_PARAMETER, remark) from exc
    update_settings([server.config], properties, NAMESRV_UPDATES)
    server.refresh_settings()
    logger.info("settings changed from %s: %r", connection.address, properties)
    return request.answer()


def get_config(server: NameServer, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """GET_NAMESRV_CONFIG: the settings as properties text, without those of metrics, which Apache's lacks."""
    own = as_properties(server.config.metrics)
    settings = {key: value for key, value in as_properties(server.config).items() if key not in own}
    return request.answer(body=format_properties(settings).encode())


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


def processors(server: NameServer) -> dict[int, DispatchedProcessor]:
    """The table bound to one server, as a RequestDispatcher wants it; generators are carried out in slices."""

    def bind(function: Processor) -> DispatchedProcessor:
        bound = partial(function, server)
        if is_sliced(function):
            return server.slices.sliced(cast("SlicedProcessor", bound))
        return cast("DispatchedProcessor", bound)

    return {int(code): bind(function) for code, function in _TABLE.items()}
