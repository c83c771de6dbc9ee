"""The receipt of a popped message: what a consumer says to acknowledge it, or to keep it for longer.

It is a text of numbers and names with blanks between them, and travels as `extraInfo` and as the property POP_CK. Plays
the part of ReceiptHandle and of the half of ExtraInfoUtil that is about one message.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.seams import wall_ms
from rocketpy.wire.names import is_pop_retry_topic_v2, is_retry_topic, pop_retry_topic_v1, pop_retry_topic_v2

__all__ = ["ORDER_REVIVE_QUEUE", "ReceiptHandle", "TopicKind", "topic_kind"]

ORDER_REVIVE_QUEUE: Final = 999
"""The revive queue of messages that are popped in order: nothing of theirs is revived."""
_PARTS = 8
_MAX_LENGTH = 1024


class TopicKind(Enum):
    """Which of the topics of a group a message was popped from."""

    NORMAL = "0"
    RETRY_V1 = "1"
    RETRY_V2 = "2"

    def real_topic(self, topic: str, group: str) -> str:
        """The topic that a broker looks into when `topic` is asked for."""
        if self is TopicKind.RETRY_V1:
            return pop_retry_topic_v1(topic, group)
        return pop_retry_topic_v2(topic, group) if self is TopicKind.RETRY_V2 else topic


def topic_kind(topic: str) -> TopicKind:
    """What kind of topic a name is of."""
    if is_pop_retry_topic_v2(topic):
        return TopicKind.RETRY_V2
    return TopicKind.RETRY_V1 if is_retry_topic(topic) else TopicKind.NORMAL


@attrs.frozen(kw_only=True)
class ReceiptHandle:
    """Where a message is, and until when it is the consumer's."""

    start_offset: int
    """The first offset of what was popped together; the broker counts from it."""
    retrieve_time: int
    """When it was popped, in ms."""
    invisible_time: int
    """For how long nobody else gets it, in ms."""
    revive_queue_id: int
    topic_kind: TopicKind
    broker_name: str
    queue_id: int
    offset: int
    commit_log_offset: int | None = None

    @property
    def next_visible_time(self) -> int:
        """When others get the message unless it was acknowledged, in ms."""
        return self.retrieve_time + self.invisible_time

    @property
    def is_expired(self) -> bool:
        """Whether that time has come."""
        return self.next_visible_time <= wall_ms()

    @property
    def is_order(self) -> bool:
        """Whether the message was popped in order."""
        return self.revive_queue_id == ORDER_REVIVE_QUEUE

    def real_topic(self, topic: str, group: str) -> str:
        """The topic that the message is in, for the topic that a consumer knows."""
        return self.topic_kind.real_topic(topic, group)

    def encode(self) -> str:
        """The text."""
        parts = (
            self.start_offset,
            self.retrieve_time,
            self.invisible_time,
            self.revive_queue_id,
            self.topic_kind.value,
            self.broker_name,
            self.queue_id,
            self.offset,
        )
        text = " ".join(map(str, parts))
        return text if self.commit_log_offset is None else f"{text} {self.commit_log_offset}"

    @classmethod
    def decode(cls, text: str) -> ReceiptHandle:
        """Read the text.

        Raises:
            RemoteProtocolError: it is no receipt.
        """
        parts = text.split(" ") if len(text) <= _MAX_LENGTH else []
        try:
            if len(parts) < _PARTS:
                raise ValueError(f"{len(parts)} parts")
            return cls(
                start_offset=_number(parts[0]),
                retrieve_time=_number(parts[1]),
                invisible_time=_number(parts[2]),
                revive_queue_id=_number(parts[3]),
                topic_kind=TopicKind(parts[4]),
                broker_name=parts[5],
                queue_id=_number(parts[6]),
                offset=_number(parts[7]),
                commit_log_offset=_number(parts[8]) if len(parts) > _PARTS else None,
            )
        except ValueError as exc:
            raise RemoteProtocolError(f"not the receipt of a popped message: {text!r:.100} ({exc})") from exc


def _number(text: str) -> int:
    if len(text) > 20 or not text.isascii() or not text.removeprefix("-").isdigit():
        raise ValueError(f"{text!r:.30} is not a number")
    return int(text)
