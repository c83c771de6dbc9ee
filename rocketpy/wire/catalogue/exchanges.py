"""What travels for every request code: which module declares its headers, and what the bodies of both ways are.

One line a code, only names, so that reading this costs nothing; the declarations of a subject are imported on first
use. For tools, tests and the documentation: code that sends or answers a request names its headers itself. Plays no
part of Java's, where this knowledge is spread over callers and processors.

A body is named by its class ("topics.TopicList", in rocketpy.wire.bodies or the catalogue's own), by the class of its
items in brackets ("[auth.UserInfo]", a JSON array), or by one of the words of `body_codecs`; "" is an empty body.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Final, NamedTuple

from rocketpy.wire.catalogue.body_codecs import BodyCodec, plain_codec
from rocketpy.wire.codes import RequestCode as Code
from rocketpy.wire.fields import Header

__all__ = ["EXCHANGES", "Exchange", "body_codec", "body_module", "body_name", "header_class"]


class Exchange(NamedTuple):
    """One request code."""

    headers: str = ""
    """The module of its headers; its classes say themselves to which codes they belong."""
    request: str = ""
    """The body of the request."""
    answer: str = ""
    """The body of a successful answer."""
    about: str = ""
    """What is asked, where no request header says it."""
    unused: str = ""
    """Why the code has no meaning any more, or none outside one server."""


_NOBODY = "a number that no client or server of 4.9 and 5.3 sends or serves"
_FILTER_SERVERS = "for filter servers, which were taken out before 4.9"
_RAFT = "an entry of the log that controllers share, never a request on a connection of ours"

_MESSAGES: Final[dict[int, Exchange]] = {
    Code.SEND_MESSAGE: Exchange("send", "message"),
    Code.SEND_MESSAGE_V2: Exchange("send", "message"),
    Code.SEND_BATCH_MESSAGE: Exchange("send", "batch"),
    Code.SEND_REPLY_MESSAGE: Exchange("send", "message"),
    Code.SEND_REPLY_MESSAGE_V2: Exchange("send", "message"),
    Code.PUSH_REPLY_MESSAGE_TO_CLIENT: Exchange("send", "message"),
    Code.CONSUMER_SEND_MSG_BACK: Exchange("send"),
    Code.RECALL_MESSAGE: Exchange("send"),
    Code.PULL_MESSAGE: Exchange("pull", answer="records"),
    Code.LITE_PULL_MESSAGE: Exchange("pull", answer="records"),
    Code.QUERY_MESSAGE: Exchange("query", answer="records"),
    Code.VIEW_MESSAGE_BY_ID: Exchange("query", answer="records"),
    Code.END_TRANSACTION: Exchange("transaction"),
    Code.CHECK_TRANSACTION_STATE: Exchange("transaction", "records"),
    Code.RESUME_CHECK_HALF_MESSAGE: Exchange("transaction"),
    Code.POP_MESSAGE: Exchange("pop", answer="records"),
    Code.PEEK_MESSAGE: Exchange("pop", answer="records"),
    Code.ACK_MESSAGE: Exchange("pop"),
    Code.BATCH_ACK_MESSAGE: Exchange("", "pop.BatchAckMessageRequestBody", about="Acknowledge many messages."),
    Code.CHANGE_MESSAGE_INVISIBLETIME: Exchange("pop"),
    Code.NOTIFICATION: Exchange("pop"),
    Code.POLLING_INFO: Exchange("pop"),
    Code.POP_ROLLBACK: Exchange(about="Have the broker go back to the pop of earlier versions."),
    Code.QUERY_ASSIGNMENT: Exchange(
        "",
        "pop.QueryAssignmentRequestBody",
        "pop.QueryAssignmentResponseBody",
        about="Ask the broker which queues to consume.",
    ),
    Code.SET_MESSAGE_REQUEST_MODE: Exchange(
        "", "groups.SetMessageRequestModeRequestBody", about="Say whether a group pulls a topic or pops it."
    ),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: Exchange(
        "", "", "groups.MessageRequestModeSerializeWrapper", about="Ask how every group consumes."
    ),
}

_OFFSETS: Final[dict[int, Exchange]] = {
    Code.QUERY_BROKER_OFFSET: Exchange(unused=_NOBODY),
    Code.QUERY_CONSUMER_OFFSET: Exchange("offset"),
    Code.UPDATE_CONSUMER_OFFSET: Exchange("offset"),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: Exchange("offset"),
    Code.GET_MAX_OFFSET: Exchange("offset"),
    Code.GET_MIN_OFFSET: Exchange("offset"),
    Code.GET_EARLIEST_MSG_STORETIME: Exchange("offset"),
    Code.GET_ALL_CONSUMER_OFFSET: Exchange(
        "", "", "offsets.ConsumerOffsetSerializeWrapper", about="Ask where every group stands."
    ),
    Code.GET_ALL_DELAY_OFFSET: Exchange(
        "", "", "offsets.DelayOffsetSerializeWrapper", about="Ask how far each delay level is."
    ),
    Code.RESET_CONSUMER_CLIENT_OFFSET: Exchange("offset", "offsets.ResetOffsetBody"),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: Exchange("offset", "", "offsets.ResetOffsetBody"),
    Code.GET_CONSUMER_STATUS_FROM_CLIENT: Exchange("offset", "", "offsets.GetConsumerStatusBody"),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Exchange("offset", "", "offsets.GetConsumerStatusBody"),
    Code.QUERY_CORRECTION_OFFSET: Exchange("offset", "", "offsets.QueryCorrectionOffsetBody"),
    Code.CLONE_GROUP_OFFSET: Exchange("offset"),
    Code.QUERY_CONSUME_TIME_SPAN: Exchange("offset", "", "stats.QueryConsumeTimeSpanBody"),
    Code.RESET_CONSUMER_OFFSET_IN_CONSUMER: Exchange(unused=_NOBODY),
    Code.RESET_CONSUMER_OFFSET_IN_BROKER: Exchange(unused=_NOBODY),
}

_TOPICS: Final[dict[int, Exchange]] = {
    Code.UPDATE_AND_CREATE_TOPIC: Exchange("admin"),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: Exchange("admin", "topics.CreateTopicListRequestBody"),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: Exchange("admin", "topics.TopicQueueMappingDetail"),
    Code.DELETE_TOPIC_IN_BROKER: Exchange("admin"),
    Code.GET_ALL_TOPIC_CONFIG: Exchange("admin", "", "registration.TopicConfigAndMappingSerializeWrapper"),
    Code.GET_TOPIC_CONFIG: Exchange("admin", "", "static_topic.TopicConfigAndQueueMapping"),
    Code.GET_TOPIC_CONFIG_LIST: Exchange(unused=_NOBODY),
    Code.GET_TOPIC_NAME_LIST: Exchange(unused=_NOBODY),
    Code.GET_TOPIC_STATS_INFO: Exchange("admin", "", "stats.TopicStatsTable"),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Exchange(
        "", "", "topics.TopicList", about="Ask for a broker's own topics."
    ),
    Code.CLEAN_UNUSED_TOPIC: Exchange(about="Have a broker delete queues of topics that it no longer has."),
    Code.QUERY_CONSUME_QUEUE: Exchange("admin", "", "consume_queue.QueryConsumeQueueResponseBody"),
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: Exchange(about="Have a broker delete queue files whose messages are gone."),
    Code.DELETE_EXPIRED_COMMITLOG: Exchange(about="Have a broker delete commit log files that are old enough."),
    Code.TRIGGER_DELETE_FILES: Exchange(unused=_NOBODY),
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: Exchange("admin", "", "consume_queue.CheckRocksdbCqWriteResult"),
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON: Exchange("admin"),
}

_GROUPS: Final[dict[int, Exchange]] = {
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Exchange(
        "", "groups.SubscriptionGroupConfig", about="Create a consumer group, or change it."
    ),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Exchange(
        "", "groups.SubscriptionGroupList", about="Create or change several consumer groups."
    ),
    Code.DELETE_SUBSCRIPTIONGROUP: Exchange("admin"),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Exchange("admin", "", "groups.SubscriptionGroupWrapper"),
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: Exchange("admin", "", "groups.SubscriptionGroupConfig"),
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: Exchange("admin", "", "groups.GroupForbidden"),
    Code.QUERY_TOPIC_CONSUME_BY_WHO: Exchange("group", "", "groups.GroupList"),
    Code.QUERY_TOPICS_BY_CONSUMER: Exchange("group", "", "topics.TopicList"),
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: Exchange("group", "", "groups.QuerySubscriptionResponseBody"),
    Code.GET_CONSUME_STATS: Exchange("admin", "", "stats.ConsumeStats"),
    Code.GET_BROKER_CONSUME_STATS: Exchange("admin", "", "stats.ConsumeStatsList"),
    Code.VIEW_BROKER_STATS_DATA: Exchange("admin", "", "stats.BrokerStatsData"),
    Code.WHO_CONSUME_THE_MESSAGE: Exchange(unused=_NOBODY),
}

_CLIENTS: Final[dict[int, Exchange]] = {
    Code.HEART_BEAT: Exchange("group", "heartbeat.HeartbeatData"),
    Code.UNREGISTER_CLIENT: Exchange("group"),
    Code.CHECK_CLIENT_CONFIG: Exchange(
        "", "heartbeat.CheckClientRequestBody", about="Ask whether the broker can do what a subscription needs."
    ),
    Code.GET_CLIENT_CONFIG: Exchange(unused=_NOBODY),
    Code.GET_CONSUMER_LIST_BY_GROUP: Exchange("group", "", "groups.GetConsumerListByGroupResponseBody"),
    Code.NOTIFY_CONSUMER_IDS_CHANGED: Exchange("group"),
    Code.LOCK_BATCH_MQ: Exchange("group", "locks.LockBatchRequestBody", "locks.LockBatchResponseBody"),
    Code.UNLOCK_BATCH_MQ: Exchange("group", "locks.UnlockBatchRequestBody"),
    Code.GET_CONSUMER_CONNECTION_LIST: Exchange("group", "", "groups.ConsumerConnection"),
    Code.GET_PRODUCER_CONNECTION_LIST: Exchange("group", "", "groups.ProducerConnection"),
    Code.GET_ALL_PRODUCER_INFO: Exchange("group", "", "groups.ProducerTableInfo"),
    Code.GET_CONSUMER_RUNNING_INFO: Exchange("group", "", "running.ConsumerRunningInfo"),
    Code.CONSUME_MESSAGE_DIRECTLY: Exchange("group", "records", "running.ConsumeMessageDirectlyResult"),
    Code.SUSPEND_CONSUMER: Exchange(unused=_NOBODY),
    Code.RESUME_CONSUMER: Exchange(unused=_NOBODY),
    Code.ADJUST_CONSUMER_THREAD_POOL: Exchange(unused=_NOBODY),
    Code.REGISTER_FILTER_SERVER: Exchange(unused=_FILTER_SERVERS),
    Code.REGISTER_MESSAGE_FILTER_CLASS: Exchange(unused=_FILTER_SERVERS),
}

_BROKER: Final[dict[int, Exchange]] = {
    Code.UPDATE_BROKER_CONFIG: Exchange("", "properties", about="Change settings of a running broker."),
    Code.GET_BROKER_CONFIG: Exchange("admin", "", "properties", about="Ask for the settings of a broker."),
    Code.GET_BROKER_RUNTIME_INFO: Exchange("", "", "route.KVTable", about="Ask a broker how it is."),
    Code.GET_TIMER_CHECK_POINT: Exchange("", "", "timer.TimerCheckpoint", about="Ask how far the timer is."),
    Code.GET_TIMER_METRICS: Exchange("", "", "timer.TimerMetrics", about="Ask how many messages wait for their time."),
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: Exchange(
        "", "properties", about="Say how many bytes a second groups may read that are far behind."
    ),
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: Exchange("", "text", about="Lift that for the group in the body."),
    Code.GET_COLD_DATA_FLOW_CTR_INFO: Exchange(
        "", "", "cold_data.ColdDataFlowControlInfo", about="Ask what groups that are far behind read."
    ),
    Code.SET_COMMITLOG_READ_MODE: Exchange("admin"),
    Code.NOTIFY_MIN_BROKER_ID_CHANGE: Exchange("route"),
    Code.EXCHANGE_BROKER_HA_INFO: Exchange("replication"),
    Code.GET_BROKER_HA_STATUS: Exchange(
        "", "", "replication.HARuntimeInfo", about="Ask how master and slaves keep up with each other."
    ),
    Code.RESET_MASTER_FLUSH_OFFSET: Exchange("replication"),
    Code.ADD_BROKER: Exchange("replication", "properties"),
    Code.REMOVE_BROKER: Exchange("replication"),
    Code.GET_BROKER_EPOCH_CACHE: Exchange(
        "", "", "replication.EpochEntryCache", about="Ask under which masters the log was written."
    ),
    Code.NOTIFY_BROKER_ROLE_CHANGED: Exchange("replication", "replication.SyncStateSet"),
}

_NAME_SERVER: Final[dict[int, Exchange]] = {
    Code.PUT_KV_CONFIG: Exchange("route"),
    Code.GET_KV_CONFIG: Exchange("route"),
    Code.DELETE_KV_CONFIG: Exchange("route"),
    Code.GET_KVLIST_BY_NAMESPACE: Exchange("route", "", "route.KVTable"),
    Code.REGISTER_BROKER: Exchange("route", "registration.RegisterBrokerBody", "route.KVTable"),
    Code.UNREGISTER_BROKER: Exchange("route"),
    Code.BROKER_HEARTBEAT: Exchange("route"),
    Code.QUERY_DATA_VERSION: Exchange("route", "topics.DataVersion", "topics.DataVersion"),
    Code.GET_BROKER_MEMBER_GROUP: Exchange("route", "", "route.GetBrokerMemberGroupResponseBody"),
    Code.GET_ROUTEINFO_BY_TOPIC: Exchange("route", "", "route.TopicRouteData"),
    Code.GET_BROKER_CLUSTER_INFO: Exchange("", "", "route.ClusterInfo", about="Ask for all brokers and clusters."),
    Code.WIPE_WRITE_PERM_OF_BROKER: Exchange("route"),
    Code.ADD_WRITE_PERM_OF_BROKER: Exchange("route"),
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Exchange("", "", "topics.TopicList", about="Ask for all topics."),
    Code.GET_TOPICS_BY_CLUSTER: Exchange("route", "", "topics.TopicList"),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: Exchange(
        "", "", "topics.TopicList", about="Ask for the names of clusters and brokers, which are topics, too."
    ),
    Code.GET_UNIT_TOPIC_LIST: Exchange("", "", "topics.TopicList", about="Ask for the topics of units."),
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: Exchange(
        "", "", "topics.TopicList", about="Ask for the topics that units subscribe."
    ),
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: Exchange(
        "", "", "topics.TopicList", about="Ask for those of them that are not a unit's own."
    ),
    Code.DELETE_TOPIC_IN_NAMESRV: Exchange("route"),
    Code.REGISTER_TOPIC_IN_NAMESRV: Exchange("route", "route.TopicRouteData"),
    Code.UPDATE_NAMESRV_CONFIG: Exchange("", "properties", about="Change settings of a running name server."),
    Code.GET_NAMESRV_CONFIG: Exchange("", "", "properties", about="Ask for the settings of a name server."),
}

_CONTROLLER: Final[dict[int, Exchange]] = {
    Code.CONTROLLER_ALTER_SYNC_STATE_SET: Exchange(
        "controller", "replication.SyncStateSet", "replication.SyncStateSet"
    ),
    Code.CONTROLLER_ELECT_MASTER: Exchange("controller", "", "controller.ElectMasterResponseBody"),
    Code.CONTROLLER_REGISTER_BROKER: Exchange("controller", "", "replication.SyncStateSet"),
    Code.CONTROLLER_GET_REPLICA_INFO: Exchange("controller", "", "replication.SyncStateSet"),
    Code.CONTROLLER_GET_METADATA_INFO: Exchange("controller", about="Ask which controller leads."),
    Code.CONTROLLER_GET_SYNC_STATE_DATA: Exchange(
        "", "names", "controller.BrokerReplicasInfo", about="Ask who keeps up with the masters of these names."
    ),
    Code.UPDATE_CONTROLLER_CONFIG: Exchange("", "properties", about="Change settings of a running controller."),
    Code.GET_CONTROLLER_CONFIG: Exchange("", "", "properties", about="Ask for the settings of a controller."),
    Code.CLEAN_BROKER_DATA: Exchange("controller"),
    Code.CONTROLLER_GET_NEXT_BROKER_ID: Exchange("controller"),
    Code.CONTROLLER_APPLY_BROKER_ID: Exchange("controller"),
    Code.BROKER_CLOSE_CHANNEL_REQUEST: Exchange(unused=_RAFT),
    Code.CHECK_NOT_ACTIVE_BROKER_REQUEST: Exchange(unused=_RAFT),
    Code.GET_BROKER_LIVE_INFO_REQUEST: Exchange(unused=_RAFT),
    Code.GET_SYNC_STATE_DATA_REQUEST: Exchange(unused=_RAFT),
    Code.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST: Exchange(unused=_RAFT),
}

_ACCESS: Final[dict[int, Exchange]] = {
    Code.AUTH_CREATE_USER: Exchange("auth", "auth.UserInfo"),
    Code.AUTH_UPDATE_USER: Exchange("auth", "auth.UserInfo"),
    Code.AUTH_DELETE_USER: Exchange("auth"),
    Code.AUTH_GET_USER: Exchange("auth", "", "auth.UserInfo"),
    Code.AUTH_LIST_USER: Exchange("auth", "", "[auth.UserInfo]"),
    Code.AUTH_CREATE_ACL: Exchange("auth", "auth.AclInfo"),
    Code.AUTH_UPDATE_ACL: Exchange("auth", "auth.AclInfo"),
    Code.AUTH_DELETE_ACL: Exchange("auth"),
    Code.AUTH_GET_ACL: Exchange("auth", "", "auth.AclInfo"),
    Code.AUTH_LIST_ACL: Exchange("auth", "", "[auth.AclInfo]"),
    Code.UPDATE_AND_CREATE_ACL_CONFIG: Exchange("plain_access"),
    Code.DELETE_ACL_CONFIG: Exchange("plain_access"),
    Code.GET_BROKER_CLUSTER_ACL_INFO: Exchange("plain_access", about="Ask which version of the accounts a broker has."),
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: Exchange("plain_access"),
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: Exchange(
        "", "", "plain_access.GetBrokerClusterAclConfigResponseBody", about="Ask for the accounts (before 4.9.5)."
    ),
}

EXCHANGES: Final[dict[str, dict[int, Exchange]]] = {
    "Messages": _MESSAGES,
    "Offsets": _OFFSETS,
    "Topics": _TOPICS,
    "Groups": _GROUPS,
    "Clients": _CLIENTS,
    "Brokers": _BROKER,
    "The name server": _NAME_SERVER,
    "The controller": _CONTROLLER,
    "Users and rights": _ACCESS,
}
"""Every request code, by subject."""

_NONE = Exchange()


@cache
def _by_code() -> dict[int, Exchange]:
    return {code: exchange for codes in EXCHANGES.values() for code, exchange in codes.items()}


@cache
def _declared(kind: str, subject: str) -> ModuleType:
    """The module of declarations of a subject: of those that code uses, or of those that are only catalogued."""
    used = f"rocketpy.wire.{kind}.{subject}"
    return importlib.import_module(used if find_spec(used) else f"rocketpy.wire.catalogue.{kind}.{subject}")


def body_module(subject: str) -> ModuleType:
    """The module that declares the bodies of a subject."""
    return _declared("bodies", subject)


@cache
def header_class(code: int, *, answer: bool = False) -> type[Header] | None:
    """The header of a request, or of its answers; None when there is none, or the code is not known."""
    subject = _by_code().get(code, _NONE).headers
    if not subject:
        return None
    for kind in vars(_declared("headers", subject)).values():
        if isinstance(kind, type) and issubclass(kind, Header) and kind.is_answer == answer and code in kind.codes:
            return kind
    return None


def body_name(code: int, *, answer: bool = False) -> str:
    """What the body of a request or of its answers is, as this module names bodies; "" for none."""
    exchange = _by_code().get(code, _NONE)
    return exchange.answer if answer else exchange.request


@cache
def body_codec(code: int, *, answer: bool = False) -> BodyCodec | None:
    """How the body of a request or of its answers is read and written; None when it is empty, or not known."""
    name = body_name(code, answer=answer)
    if not name:
        return None
    if "." not in name:
        return plain_codec(name)
    subject, _, kind = name.strip("[]").partition(".")
    declared = getattr(body_module(subject), kind)
    return BodyCodec.of_array(declared) if name.startswith("[") else BodyCodec.of(declared)
