"""Headers of the name server: routes, brokers that register, and its key-value configuration."""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header, boolean, header, int32, int64, text
from rocketpy.wire.headers.common import TopicHeader

__all__ = [
    "AddWritePermOfBrokerRequestHeader",
    "AddWritePermOfBrokerResponseHeader",
    "BrokerHeartbeatRequestHeader",
    "DeleteKVConfigRequestHeader",
    "DeleteTopicFromNamesrvRequestHeader",
    "GetBrokerMemberGroupRequestHeader",
    "GetKVConfigRequestHeader",
    "GetKVConfigResponseHeader",
    "GetKVListByNamespaceRequestHeader",
    "GetRouteInfoRequestHeader",
    "GetTopicsByClusterRequestHeader",
    "NotifyMinBrokerIdChangeRequestHeader",
    "PutKVConfigRequestHeader",
    "QueryDataVersionRequestHeader",
    "QueryDataVersionResponseHeader",
    "RegisterBrokerRequestHeader",
    "RegisterBrokerResponseHeader",
    "RegisterTopicRequestHeader",
    "UnRegisterBrokerRequestHeader",
    "WipeWritePermOfBrokerRequestHeader",
    "WipeWritePermOfBrokerResponseHeader",
]


@header(RequestCode.GET_ROUTEINFO_BY_TOPIC)
class GetRouteInfoRequestHeader(TopicHeader):
    """Ask which brokers hold a topic."""

    topic: str = text(missing="")
    """A request without it is asked for a topic that nobody has: Apache's name server answers TOPIC_NOT_EXIST."""
    accept_standard_json_only: bool | None = boolean(default=None)


@header(RequestCode.REGISTER_BROKER)
class RegisterBrokerRequestHeader(Header):
    """A broker says that it lives; its topics are the body."""

    broker_name: str = text()
    broker_addr: str = text()
    cluster_name: str = text()
    ha_server_addr: str = text()
    broker_id: int = int64()
    heartbeat_timeout_millis: int | None = int64(default=None)
    enable_acting_master: bool | None = boolean(default=None)
    compressed: bool = boolean(default=False)
    body_crc32: int = int32(default=0)


@header(RequestCode.REGISTER_BROKER, answer=True)
class RegisterBrokerResponseHeader(Header):
    """What a slave must know about its master."""

    ha_server_addr: str | None = text(default=None)
    master_addr: str | None = text(default=None)


@header(RequestCode.UNREGISTER_BROKER)
class UnRegisterBrokerRequestHeader(Header):
    """A broker leaves."""

    broker_name: str = text()
    broker_addr: str = text()
    cluster_name: str = text()
    broker_id: int = int64()


@header(RequestCode.BROKER_HEARTBEAT)
class BrokerHeartbeatRequestHeader(Header):
    """A broker says that it lives, without its topics."""

    cluster_name: str = text()
    broker_addr: str = text()
    broker_name: str = text()
    broker_id: int | None = int64(default=None)
    epoch: int | None = int32(default=None)
    max_offset: int | None = int64(default=None)
    confirm_offset: int | None = int64(default=None)
    heartbeat_timeout_mills: int | None = int64(default=None)
    election_priority: int | None = int32(default=None)


@header(RequestCode.QUERY_DATA_VERSION)
class QueryDataVersionRequestHeader(Header):
    """Ask whether the name server knows this version of a broker's topics."""

    broker_name: str = text()
    broker_addr: str = text()
    cluster_name: str = text()
    broker_id: int = int64()


@header(RequestCode.QUERY_DATA_VERSION, answer=True)
class QueryDataVersionResponseHeader(Header):
    """Whether the topics must be registered again."""

    changed: bool = boolean()


@header(RequestCode.GET_BROKER_MEMBER_GROUP)
class GetBrokerMemberGroupRequestHeader(Header):
    """Ask for the brokers that share a name."""

    cluster_name: str = text()
    broker_name: str = text()


@header(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
class NotifyMinBrokerIdChangeRequestHeader(Header):
    """A name server tells brokers that the lowest id of their group is another one."""

    min_broker_id: int | None = int64(default=None)
    broker_name: str | None = text(default=None)
    min_broker_addr: str | None = text(default=None)
    offline_broker_addr: str | None = text(default=None)
    ha_broker_addr: str | None = text(default=None)


@header(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
class WipeWritePermOfBrokerRequestHeader(Header):
    """Take the right to be written from all queues of a broker."""

    broker_name: str = text()


@header(RequestCode.WIPE_WRITE_PERM_OF_BROKER, answer=True)
class WipeWritePermOfBrokerResponseHeader(Header):
    """How many topics that changed."""

    wipe_topic_count: int = int32()


@header(RequestCode.ADD_WRITE_PERM_OF_BROKER)
class AddWritePermOfBrokerRequestHeader(Header):
    """Give the right to be written to all queues of a broker."""

    broker_name: str = text()


@header(RequestCode.ADD_WRITE_PERM_OF_BROKER, answer=True)
class AddWritePermOfBrokerResponseHeader(Header):
    """How many topics that changed."""

    add_topic_count: int = int32()


@header(RequestCode.DELETE_TOPIC_IN_NAMESRV)
class DeleteTopicFromNamesrvRequestHeader(TopicHeader):
    """Forget the route of a topic."""

    topic: str = text()
    cluster_name: str | None = text(default=None)


@header(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
class RegisterTopicRequestHeader(TopicHeader):
    """Register a topic by hand; its queues are the body."""

    topic: str = text()


@header(RequestCode.GET_TOPICS_BY_CLUSTER)
class GetTopicsByClusterRequestHeader(Header):
    """Ask for the topics of a cluster."""

    cluster: str = text()


@header(RequestCode.PUT_KV_CONFIG)
class PutKVConfigRequestHeader(Header):
    """Set one key."""

    namespace: str = text()
    key: str = text()
    value: str = text()


@header(RequestCode.GET_KV_CONFIG)
class GetKVConfigRequestHeader(Header):
    """Ask for one key."""

    namespace: str = text()
    key: str = text()


@header(RequestCode.GET_KV_CONFIG, answer=True)
class GetKVConfigResponseHeader(Header):
    """The value of the key."""

    value: str | None = text(default=None)


@header(RequestCode.DELETE_KV_CONFIG)
class DeleteKVConfigRequestHeader(Header):
    """Forget one key."""

    namespace: str = text()
    key: str = text()


@header(RequestCode.GET_KVLIST_BY_NAMESPACE)
class GetKVListByNamespaceRequestHeader(Header):
    """Ask for all keys of a namespace."""

    namespace: str = text()
