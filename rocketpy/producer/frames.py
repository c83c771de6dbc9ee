"""Which messages of `send_many` share a frame: those with the same queue, or the same topic and wait_store_ok.

Pure: takes messages and positions, and returns full frames. A message with a sharding key goes by the queue of its key.
Messages that cannot be sent with others (delayed ones, replies, those to a retry topic), and objects that are not
messages, get frames of their own. Plays the part of ProduceAccumulator's
aggregation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeGuard

import attrs

from rocketpy.client.preparing.outgoing import Outgoing
from rocketpy.message import Message, MessageQueue, PropertyName
from rocketpy.wire.message_columns import MessageColumns
from rocketpy.wire.names import is_retry_topic

__all__ = ["FrameBuilder", "MessageFrame", "is_sound"]

_WAIT: Final = PropertyName.WAIT
_ALONE: Final = frozenset(
    {
        PropertyName.DELAY,
        PropertyName.TIMER_DELAY_MS,
        PropertyName.TIMER_DELAY_SEC,
        PropertyName.TIMER_DELIVER_MS,
        PropertyName.MESSAGE_TYPE,
    }
)
_SHARDING_KEY: Final = PropertyName.SHARDING_KEY
_SPECIAL: Final = _ALONE | {_SHARDING_KEY}
"""A message with none of these properties can share a frame with others of its topic and wait_store_ok."""

_Key: TypeAlias = MessageQueue | tuple[str, str | None]
"""What the messages of a frame have in common: the queue; or topic and wait_store_ok."""

_MAX_OPEN: Final = 4096
"""Messages that may wait for their frames to fill. Beyond this, the oldest frame is sent as it is."""


@attrs.define(eq=False)
class MessageFrame:
    """Messages that are sent together."""

    messages: Sequence[Message]
    positions: Sequence[int]
    """Their positions among the messages given to `send_many`, from 0."""
    queue: MessageQueue | None
    """The queue of their sharding keys, to which they are sent in order; None if they have none."""
    size: int
    """Bytes of the bodies."""
    outgoing: Outgoing | None = None
    """The encoded request, once there is one."""

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.messages)

    def halves(self) -> tuple[MessageFrame, MessageFrame]:
        """Return two frames with the halves of the messages."""
        middle = len(self.messages) // 2
        front, back = self.messages[:middle], self.messages[middle:]
        size = sum(map(_body_size, front))
        return (
            MessageFrame(front, self.positions[:middle], self.queue, size),
            MessageFrame(back, self.positions[middle:], self.queue, self.size - size),
        )


@attrs.define(eq=False)
class _Open:
    """A frame that is being filled."""

    wait: str | None
    messages: list[Message] = attrs.Factory(list)
    positions: list[int] = attrs.Factory(list)
    size: int = 0


class FrameBuilder:
    """Puts messages into frames.

    Args:
        count: the largest number of messages in a frame.
        size: the largest number of bytes of bodies in a frame; a larger message is sent alone.
        open_size: the largest number of bytes of bodies that may wait for their frames to fill.

    Attributes:
        size: may be changed for later frames.
    """

    def __init__(self, count: int, size: int, open_size: int) -> None:
        self._count = count
        self.size = size
        self._open_size = open_size
        self._open: dict[_Key, _Open] = {}
        self._waiting = 0
        self._waiting_size = 0

    def whole(self, messages: Sequence[Message], first: int) -> MessageFrame | None:
        """Return all messages as one frame if they are alike, fit, and have no special properties; otherwise None."""
        if type(messages) is MessageColumns:
            if messages.size > self.size or is_retry_topic(messages.topic):
                return None
            return MessageFrame(messages, range(first, first + len(messages)), None, messages.size)
        head = messages[0]
        if not is_sound(head) or is_retry_topic(head.topic):
            return None
        topic, wait = head.topic, head.wire_properties.get(_WAIT)
        size, ordinary = 0, _SPECIAL.isdisjoint
        for message in messages:
            if type(message) is not Message or message.topic != topic or type(message.body) is not bytes:
                return None
            properties = message.wire_properties
            if type(properties) is not dict or properties.get(_WAIT) != wait or not ordinary(properties):
                return None
            size += len(message.body)
        if size > self.size:
            return None
        return MessageFrame(messages, range(first, first + len(messages)), None, size)

    def add(self, message: Any, position: int, queue: MessageQueue | None) -> Sequence[MessageFrame]:
        """Put a message into its frame. Returns the frames that can be sent now, in order.

        Args:
            message: what the user gave, which may not be a message.
            position: its position among what the user gave.
            queue: that of its sharding key. A message with a key but without a queue is sent alone.
        """
        if queue is None and (not is_sound(message) or _SHARDING_KEY in message.wire_properties):
            return self._alone(message, position, queue)
        if not _ALONE.isdisjoint(message.wire_properties):
            return self._alone(message, position, queue)
        wait, body = message.wire_properties.get(_WAIT), message.body
        size = len(body) if type(body) is bytes else 0
        key = queue or (message.topic, wait)
        found = self._open.get(key)
        before: Sequence[MessageFrame] = ()
        if found is None or found.wait != wait or found.size + size > self.size:
            if is_retry_topic(message.topic):
                return self._alone(message, position, queue)
            before = [self._close(key)] if found is not None else ()
            found = self._open[key] = _Open(wait)
        found.messages.append(message)
        found.positions.append(position)
        found.size += size
        self._waiting += 1
        self._waiting_size += size
        if len(found.messages) >= self._count or self._is_too_much():
            return [*before, *self._closed(key)]
        return before

    def _alone(self, message: Any, position: int, queue: MessageQueue | None) -> Sequence[MessageFrame]:
        """Return the frame of a message that is sent alone, after the open frame of its queue."""
        before = [self._close(queue)] if queue in self._open else []
        return [*before, MessageFrame([message], [position], queue, _body_size(message))]

    def _is_too_much(self) -> bool:
        return self._waiting >= _MAX_OPEN or self._waiting_size > self._open_size

    def _closed(self, key: _Key) -> Iterator[MessageFrame]:
        """Close this frame if it is full, and the oldest frames as long as too much waits."""
        if len(self._open[key].messages) >= self._count:
            yield self._close(key)
        while self._is_too_much():
            yield self._close(next(iter(self._open)))

    def rest(self) -> Iterator[MessageFrame]:
        """Close and return the frames that are not full."""
        for key in list(self._open):
            yield self._close(key)

    def _close(self, key: _Key) -> MessageFrame:
        found = self._open.pop(key)
        self._waiting -= len(found.messages)
        self._waiting_size -= found.size
        queue = key if isinstance(key, MessageQueue) else None
        return MessageFrame(found.messages, found.positions, queue, found.size)


def is_sound(message: object) -> TypeGuard[Message]:
    """Whether this is a message with a usable topic and properties; anything else is refused when it is encoded."""
    if not isinstance(message, Message):
        return False
    topic: object = message.topic
    properties: object = message.wire_properties
    return isinstance(topic, str) and isinstance(properties, dict) and isinstance(properties.get(_WAIT), str | None)


def _body_size(message: object) -> int:
    """The size of the body in bytes; 0 if it is something else, which is refused when it is encoded."""
    body = getattr(message, "body", None)
    return len(body) if isinstance(body, bytes) else 0
