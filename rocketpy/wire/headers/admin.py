"""Headers of administration: topics, subscription groups, broker configuration and statistics."""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header, boolean, header, int32, int64, text
from rocketpy.wire.headers.common import RpcHeader, TopicHeader, TopicQueueHeader

__all__ = [
    "CheckRocksdbCqWriteProgressRequestHeader",
    "CreateTopicListRequestHeader",
    "CreateTopicRequestHeader",
    "DeleteSubscriptionGroupRequestHeader",
    "DeleteTopicRequestHeader",
    "ExportRocksDBConfigToJsonRequestHeader",
    "GetAllSubscriptionGroupRequestHeader",
    "GetAllSubscriptionGroupResponseHeader",
    "GetAllTopicConfigRequestHeader",
    "GetAllTopicConfigResponseHeader",
    "GetBrokerConfigResponseHeader",
    "GetConsumeStatsInBrokerHeader",
    "GetConsumeStatsRequestHeader",
    "GetSubscriptionGroupConfigRequestHeader",
    "GetTopicConfigRequestHeader",
    "GetTopicStatsInfoRequestHeader",
    "QueryConsumeQueueRequestHeader",
    "SetCommitLogReadModeRequestHeader",
    "UpdateGroupForbiddenRequestHeader",
    "ViewBrokerStatsDataRequestHeader",
]


@header(RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC)
class CreateTopicRequestHeader(TopicHeader):
    """Create a topic on a broker, or change it."""

    topic: str = text()
    default_topic: str = text()
    read_queue_nums: int = int32()
    write_queue_nums: int = int32()
    perm: int = int32()
    topic_filter_type: str = text()
    topic_sys_flag: int | None = int32(default=None)
    order: bool = boolean(default=False)
    attributes: str | None = text(default=None)
    """Changes of attributes: "+name=value" sets one, "-name" takes one away."""
    force: bool = boolean(default=False)


@header(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
class CreateTopicListRequestHeader(RpcHeader):
    """Create or change several topics; they are in the body."""


@header(RequestCode.DELETE_TOPIC_IN_BROKER)
class DeleteTopicRequestHeader(TopicHeader):
    """Delete a topic and its queues on a broker."""

    topic: str = text()


@header(RequestCode.GET_ALL_TOPIC_CONFIG)
class GetAllTopicConfigRequestHeader(Header):
    """Ask for the topics of a broker, all at once or page by page."""

    topic_seq: int | None = int32(default=None)
    data_version: str | None = text(default=None)
    max_topic_num: int | None = int32(default=None)


@header(RequestCode.GET_ALL_TOPIC_CONFIG, answer=True)
class GetAllTopicConfigResponseHeader(Header):
    """How many topics there are."""

    total_topic_num: int | None = int32(default=None)


@header(RequestCode.GET_TOPIC_CONFIG)
class GetTopicConfigRequestHeader(TopicHeader):
    """Ask for the settings of one topic; with `lo` also for the queues of a static one."""

    topic: str = text()


@header(RequestCode.GET_TOPIC_STATS_INFO)
class GetTopicStatsInfoRequestHeader(TopicHeader):
    """Ask for the offsets of a topic on a broker."""

    topic: str = text()


@header(RequestCode.DELETE_SUBSCRIPTIONGROUP)
class DeleteSubscriptionGroupRequestHeader(RpcHeader):
    """Delete a consumer group on a broker."""

    group_name: str = text()
    clean_offset: bool = boolean(default=False)
    remove_offset: bool | None = boolean(default=None)
    """What 4.x calls `clean_offset`."""


@header(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
class GetAllSubscriptionGroupRequestHeader(Header):
    """Ask for the groups of a broker, all at once or page by page."""

    group_seq: int | None = int32(default=None)
    data_version: str | None = text(default=None)
    max_group_num: int | None = int32(default=None)


@header(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, answer=True)
class GetAllSubscriptionGroupResponseHeader(Header):
    """How many groups there are."""

    total_group_num: int | None = int32(default=None)


@header(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
class GetSubscriptionGroupConfigRequestHeader(RpcHeader):
    """Ask for the settings of one group."""

    group: str = text()


@header(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN)
class UpdateGroupForbiddenRequestHeader(TopicHeader):
    """Forbid or allow a group to read a topic; answers what holds."""

    group: str = text()
    topic: str = text()
    readable: bool | None = boolean(default=None)


@header(RequestCode.GET_BROKER_CONFIG, answer=True)
class GetBrokerConfigResponseHeader(Header):
    """Version of the configuration in the body."""

    version: str = text()


@header(RequestCode.GET_CONSUME_STATS)
class GetConsumeStatsRequestHeader(TopicHeader):
    """Ask for the offsets and the lag of a group."""

    consumer_group: str = text()
    topic: str | None = text(default=None)
    topic_list: str | None = text(default=None)


@header(RequestCode.GET_BROKER_CONSUME_STATS)
class GetConsumeStatsInBrokerHeader(Header):
    """Ask for the offsets and the lag of all groups of a broker."""

    is_order: bool = boolean()


@header(RequestCode.VIEW_BROKER_STATS_DATA)
class ViewBrokerStatsDataRequestHeader(Header):
    """Ask for one statistic of a broker."""

    stats_name: str = text()
    stats_key: str = text()


@header(RequestCode.QUERY_CONSUME_QUEUE)
class QueryConsumeQueueRequestHeader(TopicQueueHeader):
    """Look at entries of a consume queue, and which of them a group would get."""

    topic: str | None = text(default=None)
    queue_id: int = int32(default=0)
    index: int = int64(default=0)
    count: int = int32(default=0)
    consumer_group: str | None = text(default=None)


@header(RequestCode.SET_COMMITLOG_READ_MODE)
class SetCommitLogReadModeRequestHeader(Header):
    """Say how the operating system shall read the commit log ahead. (A bare field in Java, without a class.)"""

    read_ahead_mode: str | None = text(default=None, name="READ_AHEAD_MODE")
    """0 for normal, 1 for random access."""


@header(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS)
class CheckRocksdbCqWriteProgressRequestHeader(Header):
    """Compare the consume queues in RocksDB with those in files."""

    topic: str = text()
    check_store_time: int = int64(default=0)


@header(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON)
class ExportRocksDBConfigToJsonRequestHeader(Header):
    """Write tables that are kept in RocksDB as JSON files."""

    config_type: str = text()
    """Joined by semicolons: topics, subscriptionGroups, consumerOffsets."""
