"""A batch that a RocketMQ 5 broker stored as one message: taking it apart again.

Topics with the attribute ``queue.type=BatchCQ`` keep batches whole; such a message takes as many queue offsets as it
has items. Plays the part of MessageDecoder.decodeMessage.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketpy.message import MessageExt, RecordHead
from rocketpy.wire.batch import decode_batch
from rocketpy.wire.stored_message import StoredMessage
from rocketpy.wire.sysflag import INNER_BATCH, NEED_UNWRAP

__all__ = ["has_inner_batch", "is_inner_batch", "unwrap_inner_batch"]

_BOTH = INNER_BATCH | NEED_UNWRAP


def is_inner_batch(message: MessageExt) -> bool:
    """Whether the body is a batch of messages."""
    return message.sys_flag & _BOTH == _BOTH


def has_inner_batch(messages: Iterable[MessageExt]) -> bool:
    """Whether the body of any of them is a batch of messages."""
    # Not by `any` and a generator: this is asked of every message that is pulled.
    for message in messages:  # noqa: SIM110
        if message._head[7] & _BOTH == _BOTH:
            return True
    return False


def unwrap_inner_batch(message: MessageExt) -> list[MessageExt]:
    """The messages inside, each at its own queue offset, with the place and times of the whole.

    Raises:
        MessageDecodeError: the body cannot be unpacked, or is no batch.
    """
    whole = message._head
    found: list[MessageExt] = []
    for index, item in enumerate(decode_batch(message.body)):
        head = list(whole)
        head[4] = item.flag
        head[5] = whole[5] + index
        head[14] = len(item.body)
        single = StoredMessage.__new__(StoredMessage)
        single.topic = message.topic
        single.broker_name = message.broker_name
        single._head = RecordHead._make(head)
        single._body = item.body
        single._inflate = None
        single._packed_properties = item.properties
        found.append(single)
    return found
