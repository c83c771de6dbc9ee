"""Headers of pop consumption (5.x), where the broker chooses the messages and each is acknowledged by its receipt.

Their codes need more than 16 bits, so they travel with JSON headers only. BATCH_ACK_MESSAGE has a body and no header.
"""

from __future__ import annotations

from rocketpy.wire.codes import RequestCode
from rocketpy.wire.fields import Header, boolean, header, int32, int64, text
from rocketpy.wire.headers.common import TopicQueueHeader

__all__ = [
    "AckMessageRequestHeader",
    "ChangeInvisibleTimeRequestHeader",
    "ChangeInvisibleTimeResponseHeader",
    "NotificationRequestHeader",
    "NotificationResponseHeader",
    "PeekMessageRequestHeader",
    "PollingInfoRequestHeader",
    "PollingInfoResponseHeader",
    "PopMessageRequestHeader",
    "PopMessageResponseHeader",
]


@header(RequestCode.POP_MESSAGE)
class PopMessageRequestHeader(TopicQueueHeader):
    """Take messages of a topic for a while; those that are not acknowledged come again."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = int32()
    """-1 for any queue."""
    max_msg_nums: int = int32()
    invisible_time: int = int64()
    poll_time: int = int64()
    born_time: int = int64()
    init_mode: int = int32()
    exp_type: str | None = text(default=None)
    exp: str | None = text(default=None)
    order: bool | None = boolean(default=False)
    attempt_id: str | None = text(default=None)


@header(RequestCode.POP_MESSAGE, RequestCode.PEEK_MESSAGE, answer=True)
class PopMessageResponseHeader(Header):
    """What receipts are made of; the messages are the body."""

    pop_time: int = int64()
    invisible_time: int = int64()
    revive_qid: int = int32()
    rest_num: int = int64()
    start_offset_info: str | None = text(default=None)
    msg_offset_info: str | None = text(default=None)
    order_count_info: str | None = text(default=None)


@header(RequestCode.PEEK_MESSAGE)
class PeekMessageRequestHeader(TopicQueueHeader):
    """Look at messages of a topic without taking them."""

    topic: str = text()
    queue_id: int = int32()
    max_msg_nums: int = int32()
    consumer_group: str = text()


@header(RequestCode.ACK_MESSAGE)
class AckMessageRequestHeader(TopicQueueHeader):
    """Acknowledge one message."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = int32()
    extra_info: str = text()
    """The receipt."""
    offset: int = int64()


@header(RequestCode.CHANGE_MESSAGE_INVISIBLETIME)
class ChangeInvisibleTimeRequestHeader(TopicQueueHeader):
    """Keep a message for longer, or give it back sooner."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = int32()
    extra_info: str = text()
    """The receipt."""
    offset: int = int64()
    invisible_time: int = int64()


@header(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, answer=True)
class ChangeInvisibleTimeResponseHeader(Header):
    """What the new receipt is made of."""

    pop_time: int = int64()
    invisible_time: int = int64()
    revive_qid: int = int32()


@header(RequestCode.NOTIFICATION)
class NotificationRequestHeader(TopicQueueHeader):
    """Wait until a topic has messages."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = int32()
    poll_time: int = int64()
    born_time: int = int64()
    order: bool | None = boolean(default=False)
    attempt_id: str | None = text(default=None)


@header(RequestCode.NOTIFICATION, answer=True)
class NotificationResponseHeader(Header):
    """Whether there are messages, or too many wait already."""

    has_msg: bool = boolean()
    polling_full: bool = boolean(default=False)


@header(RequestCode.POLLING_INFO)
class PollingInfoRequestHeader(TopicQueueHeader):
    """Ask how many requests wait for a queue."""

    consumer_group: str = text()
    topic: str = text()
    queue_id: int = int32()


@header(RequestCode.POLLING_INFO, answer=True)
class PollingInfoResponseHeader(Header):
    """How many requests wait."""

    polling_num: int = int32()
