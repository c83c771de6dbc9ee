"""Headers of everything about offsets: committed ones, the ends of a queue, search by time, resets."""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.enums import BoundaryType
from rocketpy.wire.fields import Header, boolean, choice, header, int32, int64, text
from rocketpy.wire.headers.common import RpcHeader, TopicHeader, TopicQueueHeader

__all__ = [
    "CloneGroupOffsetRequestHeader",
    "GetConsumerStatusRequestHeader",
    "GetEarliestMsgStoretimeRequestHeader",
    "GetEarliestMsgStoretimeResponseHeader",
    "GetMaxOffsetRequestHeader",
    "GetMaxOffsetResponseHeader",
    "GetMinOffsetRequestHeader",
    "GetMinOffsetResponseHeader",
    "QueryConsumeTimeSpanRequestHeader",
    "QueryConsumerOffsetRequestHeader",
    "QueryConsumerOffsetResponseHeader",
    "QueryCorrectionOffsetHeader",
    "ResetOffsetRequestHeader",
    "SearchOffsetRequestHeader",
    "SearchOffsetResponseHeader",
    "UpdateConsumerOffsetRequestHeader",
]


@header(RequestCode.QUERY_CONSUMER_OFFSET)
class QueryConsumerOffsetRequestHeader(TopicQueueHeader):
    """Ask where a group stands in a queue."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = int32()
    set_zero_if_not_found: bool | None = boolean(default=None)


@header(RequestCode.QUERY_CONSUMER_OFFSET, answer=True)
class QueryConsumerOffsetResponseHeader(Header):
    """Where the group stands: the next offset to consume."""

    offset: int = int64()


@header(RequestCode.UPDATE_CONSUMER_OFFSET)
class UpdateConsumerOffsetRequestHeader(TopicQueueHeader):
    """Commit where a group stands in a queue."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = int32()
    commit_offset: int = int64()


@header(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
class SearchOffsetRequestHeader(TopicQueueHeader):
    """Ask for the offset that belongs to a store time."""

    topic: str = text()
    queue_id: int = int32()
    timestamp: int = int64()
    boundary_type: BoundaryType | None = choice(BoundaryType, default=None)


@header(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, answer=True)
class SearchOffsetResponseHeader(Header):
    """The offset that belongs to the time."""

    offset: int = int64()


@header(RequestCode.GET_MAX_OFFSET)
class GetMaxOffsetRequestHeader(TopicQueueHeader):
    """Ask for the end of a queue."""

    topic: str = text()
    queue_id: int = int32()
    committed: bool = boolean(default=True)


@header(RequestCode.GET_MAX_OFFSET, answer=True)
class GetMaxOffsetResponseHeader(Header):
    """The offset that the next message gets."""

    offset: int = int64()


@header(RequestCode.GET_MIN_OFFSET)
class GetMinOffsetRequestHeader(TopicQueueHeader):
    """Ask for the beginning of a queue."""

    topic: str = text()
    queue_id: int = int32()


@header(RequestCode.GET_MIN_OFFSET, answer=True)
class GetMinOffsetResponseHeader(Header):
    """The offset of the oldest message that is left."""

    offset: int = int64()


@header(RequestCode.GET_EARLIEST_MSG_STORETIME)
class GetEarliestMsgStoretimeRequestHeader(TopicQueueHeader):
    """Ask when the oldest message of a queue was stored."""

    topic: str = text()
    queue_id: int = int32()


@header(RequestCode.GET_EARLIEST_MSG_STORETIME, answer=True)
class GetEarliestMsgStoretimeResponseHeader(Header):
    """When the oldest message was stored, in ms."""

    timestamp: int = int64()


@header(RequestCode.QUERY_CORRECTION_OFFSET)
class QueryCorrectionOffsetHeader(TopicHeader):
    """Ask by how much the offsets of groups must be corrected."""

    filter_groups: str | None = text(default=None)
    compare_group: str = text()
    topic: str = text()


@header(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
class ResetOffsetRequestHeader(TopicQueueHeader):
    """Move a group to a time or an offset; told to the broker, and by it to clients."""

    group: str = text()
    topic: str = text()
    queue_id: int = int32(default=-1)
    offset: int | None = int64(default=None)
    timestamp: int = int64()
    is_force: bool = boolean()


@header(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
class GetConsumerStatusRequestHeader(TopicHeader):
    """Ask clients where they stand."""

    topic: str = text()
    group: str = text()
    client_addr: str | None = text(default=None)


@header(RequestCode.CLONE_GROUP_OFFSET)
class CloneGroupOffsetRequestHeader(RpcHeader):
    """Copy the offsets of a group to another."""

    src_group: str = text()
    dest_group: str = text()
    topic: str | None = text(default=None)
    offline: bool = boolean(default=False)


@header(RequestCode.QUERY_CONSUME_TIME_SPAN)
class QueryConsumeTimeSpanRequestHeader(TopicHeader):
    """Ask between which store times a group consumes."""

    topic: str = text()
    group: str = text()
