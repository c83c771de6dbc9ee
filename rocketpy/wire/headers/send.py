"""Headers of sending: SEND_MESSAGE in its long and its one-letter form, its answer, and sending back.

The one-letter form (SEND_MESSAGE_V2, SEND_BATCH_MESSAGE) is the same header: read and write it with `from_short_ext`
and `to_short_ext`.
"""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header, boolean, header, int32, int64, text
from rocketpy.wire.headers.common import RpcHeader, TopicHeader, TopicQueueHeader

__all__ = [
    "ConsumerSendMsgBackRequestHeader",
    "RecallMessageRequestHeader",
    "RecallMessageResponseHeader",
    "ReplyMessageRequestHeader",
    "SendMessageRequestHeader",
    "SendMessageResponseHeader",
]


@header(
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
)
class SendMessageRequestHeader(TopicQueueHeader):
    """A message on its way to a broker; its body is the frame's."""

    producer_group: str = text(short="a")
    topic: str = text(short="b")
    default_topic: str = text(short="c")
    default_topic_queue_nums: int = int32(short="d")
    queue_id: int = int32(short="e")
    sys_flag: int = int32(short="f")
    born_timestamp: int = int64(short="g")
    flag: int = int32(short="h")
    properties: str | None = text(default=None, short="i")
    reconsume_times: int | None = int32(default=None, short="j")
    unit_mode: bool | None = boolean(default=None, short="k")
    batch: bool | None = boolean(default=None, short="m", one=True)  # what the C++ client writes for true
    max_reconsume_times: int | None = int32(default=None, short="l")
    bname: str | None = text(default=None, short="n")


@header(
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    answer=True,
)
class SendMessageResponseHeader(Header):
    """Where the broker put the message."""

    msg_id: str = text()
    queue_id: int = int32()
    queue_offset: int = int64()
    transaction_id: str | None = text(default=None)
    batch_uniq_id: str | None = text(default=None)
    recall_handle: str | None = text(default=None)
    trace_on: bool | None = boolean(default=None, name="TRACE_ON")
    region_id: str | None = text(default=None, name="MSG_REGION")


@header(RequestCode.CONSUMER_SEND_MSG_BACK)
class ConsumerSendMsgBackRequestHeader(RpcHeader):
    """A consumer gives a message back, to get it again later."""

    offset: int = int64()
    group: str = text()
    delay_level: int = int32()
    origin_msg_id: str | None = text(default=None)
    origin_topic: str | None = text(default=None)
    unit_mode: bool = boolean(default=False)
    max_reconsume_times: int | None = int32(default=None)


@header(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
class ReplyMessageRequestHeader(TopicQueueHeader):
    """A broker hands a reply to the client that asked."""

    producer_group: str = text()
    topic: str = text()
    default_topic: str = text()
    default_topic_queue_nums: int = int32()
    queue_id: int = int32()
    sys_flag: int = int32()
    born_timestamp: int = int64()
    flag: int = int32()
    properties: str | None = text(default=None)
    reconsume_times: int | None = int32(default=None)
    unit_mode: bool = boolean(default=False)
    born_host: str = text()
    store_host: str = text()
    store_timestamp: int = int64()


@header(RequestCode.RECALL_MESSAGE)
class RecallMessageRequestHeader(TopicHeader):
    """Take a delayed message back before it is due."""

    producer_group: str | None = text(default=None)
    topic: str = text()
    recall_handle: str = text()


@header(RequestCode.RECALL_MESSAGE, answer=True)
class RecallMessageResponseHeader(Header):
    """Which message was taken back."""

    msg_id: str = text()
    region_id: str | None = text(default=None, name="MSG_REGION")
