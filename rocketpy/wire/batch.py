"""Several messages in one send: the rules, the body of SEND_BATCH_MESSAGE, and the batch stored as one message.

Plays the part of MessageBatch and of the batch half of MessageDecoder.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rocketpy.errors import ConfigError, LocalProtocolError, MessageDecodeError
from rocketpy.message import Message, PropertyName
from rocketpy.wire.names import is_retry_topic
from rocketpy.wire.properties import MAX_PROPERTIES_SIZE, encode_properties

__all__ = ["BatchItem", "batch_item_size", "check_batch", "decode_batch", "encode_batch", "encode_batch_item"]

_HEAD = struct.Struct(">iiiii")
_LENGTH_16 = struct.Struct(">h")
_FIXED = _HEAD.size + _LENGTH_16.size
_DELAYS = (PropertyName.TIMER_DELAY_MS, PropertyName.TIMER_DELAY_SEC, PropertyName.TIMER_DELIVER_MS)


class BatchItem(NamedTuple):
    """One message of a batch; topic, queue and flags are those of the request."""

    flag: int
    body: bytes
    properties: bytes
    """In their encoded form."""


def check_batch(messages: Sequence[Message]) -> None:
    """Refuse messages that cannot travel together.

    Raises:
        ConfigError: there is none, or they differ in topic or in whether to wait for the store, or one is delayed or
            goes to a retry topic.
    """
    if not messages:
        raise ConfigError("a batch needs at least one message")
    topic, wait = messages[0].topic, messages[0].wait_store_ok
    if is_retry_topic(topic):
        raise ConfigError(f"messages to the retry topic {topic} cannot be sent as a batch")
    for message in messages:
        if message.topic != topic:
            raise ConfigError(f"a batch goes to one topic, this one to {topic} and {message.topic}")
        if message.wait_store_ok != wait:
            raise ConfigError("the messages of a batch differ in wait_store_ok: give them the same value")
        properties = message.properties
        if message.delay_level > 0 or any(name in properties for name in _DELAYS):
            raise ConfigError("a batch cannot hold delayed messages: send them one by one")


def encode_batch_item(message: Message) -> bytes:
    """One message as an item of a batch body.

    Raises:
        LocalProtocolError: its properties cannot be encoded, or are too long.
    """
    try:
        properties = encode_properties(message.properties, refuse_separators=True).encode()
        body = message.body
        size = _FIXED + len(body) + len(properties)
        head = _HEAD.pack(size, 0, 0, message.flag, len(body))
        return b"".join((head, body, _LENGTH_16.pack(len(properties)), properties))
    except (struct.error, UnicodeEncodeError) as exc:
        raise LocalProtocolError(
            f"{message!r} does not fit into a batch: flags are 32-bit numbers, properties valid text of at most "
            f"{MAX_PROPERTIES_SIZE} bytes ({exc})"
        ) from exc


def encode_batch(messages: Iterable[Message]) -> bytes:
    """The body of a batch request; the rules are those of `check_batch`, which the caller has asked."""
    return b"".join([encode_batch_item(message) for message in messages])


def batch_item_size(message: Message) -> int:
    """Bytes of `encode_batch_item`, for splitting."""
    return _FIXED + len(message.body) + len(encode_properties(message.properties).encode("utf-8", "replace"))


def decode_batch(data: bytes) -> list[BatchItem]:
    """The items of a batch body.

    Raises:
        MessageDecodeError: the lengths in it do not add up.
    """
    items: list[BatchItem] = []
    position, end = 0, len(data)
    while position < end:
        if end - position < _FIXED:
            raise _bad_item(position, len(items))
        size, _, _, flag, body_size = _HEAD.unpack_from(data, position)
        body_at = position + _HEAD.size
        item_end = position + size
        properties_at = body_at + body_size + 2
        if body_size < 0 or item_end > end or properties_at > item_end:
            raise _bad_item(position, len(items))
        if _LENGTH_16.unpack_from(data, properties_at - 2)[0] != item_end - properties_at:
            raise _bad_item(position, len(items))
        items.append(BatchItem(flag, data[body_at : properties_at - 2], data[properties_at:item_end]))
        position = item_end
    return items


def _bad_item(position: int, count: int) -> MessageDecodeError:
    return MessageDecodeError(
        f"item {count} of a batch, at byte {position}, has lengths that do not add up", position=position
    )
