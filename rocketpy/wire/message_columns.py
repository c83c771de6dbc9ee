"""Messages to send as columns, for senders of many messages that need no object for each. Pure.

`rocketpy.wire.record_columns` does the same for readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from rocketpy.message import Message, PropertyName
from rocketpy.wire.properties import decode_properties

__all__ = ["MessageColumns"]


class MessageColumns(Sequence[Message]):
    """Messages of one topic that may share a frame. It is a sequence of messages, which are made when asked for.

    Any of them may share a frame with any other: all have the same WAIT, and none has a sharding key, a delay, or
    another property that calls for a frame of its own. The maker of the columns sees to that, and checks what a
    `Message` would check; nothing is checked here.

    Args:
        topic: The topic of all messages.
        bodies: Their bodies, at least one byte each.
        properties: Their properties, encoded by `rocketpy.wire.properties.encode_properties`, without a unique id.
        unique_ids: Their unique ids, if they have them already. Then the property comes after all others.

    Attributes:
        body_sizes: Bytes of each body.
        size: Bytes of all bodies.
    """

    __slots__ = ("bodies", "body_sizes", "properties", "size", "topic", "unique_ids")

    def __init__(
        self,
        topic: str,
        bodies: Sequence[bytes],
        properties: Sequence[str],
        unique_ids: Sequence[str] | None = None,
    ) -> None:
        self.topic = topic
        self.bodies = bodies
        self.properties = properties
        self.unique_ids = unique_ids
        self.body_sizes = list(map(len, bodies))
        self.size = sum(self.body_sizes)

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.bodies)

    @overload
    def __getitem__(self, at: int) -> Message: ...
    @overload
    def __getitem__(self, at: slice) -> MessageColumns: ...

    def __getitem__(self, at: int | slice) -> Message | MessageColumns:
        """One message, or columns with some of them."""
        ids = self.unique_ids
        if isinstance(at, slice):
            return MessageColumns(self.topic, self.bodies[at], self.properties[at], None if ids is None else ids[at])
        message = Message.__new__(Message)  # without the checks, which were made before
        message.topic, message.body, message.flag = self.topic, self.bodies[at], 0
        message.wire_properties = decode_properties(self.properties[at])
        if ids is not None:
            message.wire_properties[PropertyName.UNIQUE_KEY] = ids[at]
        return message

    def parts(self, count: int, size: int) -> Iterator[MessageColumns]:
        """Split into parts in the same order; one part, if that is enough.

        Args:
            count: The largest number of messages in a part.
            size: The largest number of bytes of bodies in a part; a larger message is a part by itself.
        """
        start = total = 0
        if len(self) > count or self.size > size:
            for at, this in enumerate(self.body_sizes):
                if at > start and (at - start == count or total + this > size):
                    yield self[start:at]
                    start, total = at, 0
                total += this
        yield self[start:] if start else self
