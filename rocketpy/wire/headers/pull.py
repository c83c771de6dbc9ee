"""Headers of pulling messages from a queue, for push consumers and for lite pull."""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header, header, int32, int64, text
from rocketpy.wire.headers.common import TopicQueueHeader

__all__ = [
    "PullMessageRequestHeader",
    "PullMessageResponseHeader",
]


@header(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
class PullMessageRequestHeader(TopicQueueHeader):
    """Ask for the messages of one queue from an offset on."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = int32()
    queue_offset: int = int64()
    max_msg_nums: int = int32()
    sys_flag: int = int32()
    commit_offset: int = int64()
    suspend_timeout_millis: int = int64()
    subscription: str | None = text(default=None)
    sub_version: int = int64()
    expression_type: str | None = text(default=None)
    max_msg_bytes: int | None = int32(default=None)
    request_source: int | None = int32(default=None)
    proxy_froward_client_id: str | None = text(default=None)


@header(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE, answer=True)
class PullMessageResponseHeader(Header):
    """What was found and where to go on; the messages are the body."""

    suggest_which_broker_id: int = int64()
    next_begin_offset: int = int64()
    min_offset: int = int64()
    max_offset: int = int64()
    offset_delta: int | None = int64(default=None)
    topic_sys_flag: int | None = int32(default=None)
    group_sys_flag: int | None = int32(default=None)
    forbidden_type: int | None = int32(default=None)
