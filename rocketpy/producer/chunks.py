"""What is given to `send_many`, taken a chunk at a time: as many messages as a frame may have, in number and in bytes.

Never more is held than that, whatever the messages come from. Among the messages there may be columns with many of them
(`rocketpy.wire.message_columns`), which become chunks by themselves.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rocketpy.errors import ConfigError
from rocketpy.wire.message_columns import MessageColumns

if TYPE_CHECKING:
    from rocketpy.message import Message

__all__ = ["Bounds", "chunks", "chunks_async"]


class Bounds(Protocol):
    """How much a chunk may hold. A message that is larger is a chunk by itself."""

    @property
    def count(self) -> int:
        """Messages."""
        ...

    @property
    def largest(self) -> int:
        """Bytes of bodies. Looked at again for every chunk."""
        ...

    def filled(self, message: Message) -> Message:
        """A message without a body, or a copy with its value as the body. Never raises: encoding says what is wrong."""
        ...


def chunks(messages: Iterable[Message | MessageColumns], bounds: Bounds) -> Iterator[Sequence[Message]]:
    """The messages, chunk by chunk.

    Raises:
        ConfigError: they are nothing to iterate over.
    """
    if not isinstance(messages, Iterable):
        raise _not_iterable(messages)
    chunk: list[Message] = []
    size, count, largest = 0, bounds.count, bounds.largest
    message: Any
    for message in messages:
        try:
            this = len(message.body)
        except (AttributeError, TypeError):  # columns; or not a message: encoding it says so
            this = 0
        if not this:
            if type(message) is MessageColumns:
                yield from _with_columns(chunk, message, bounds)
                chunk, size, largest = [], 0, bounds.largest
                continue
            message = bounds.filled(message)
            this = _size(message)
        size += this
        if size > largest and chunk:
            yield chunk
            chunk, size, largest = [], this, bounds.largest
        chunk.append(message)
        if len(chunk) == count:
            yield chunk
            chunk, size, largest = [], 0, bounds.largest
    if chunk:
        yield chunk


def _with_columns(chunk: list[Message], columns: MessageColumns, bounds: Bounds) -> Iterator[Sequence[Message]]:
    """The messages before columns, then the columns."""
    if chunk:
        yield chunk
    yield from columns.parts(bounds.count, bounds.largest)


async def chunks_async(
    messages: Iterable[Message] | AsyncIterable[Message], bounds: Bounds
) -> AsyncGenerator[Sequence[Message], None]:
    """The same, of what may have to be awaited.

    Raises:
        ConfigError: they are nothing to iterate over.
    """
    if not isinstance(messages, AsyncIterable):
        for chunk in chunks(messages, bounds):
            yield chunk
        return
    chunk = []
    size = 0
    async for message in messages:
        this = _size(message)
        if not this:
            message = bounds.filled(message)
            this = _size(message)
        size += this
        if size > bounds.largest and chunk:
            yield chunk
            chunk, size = [], this
        chunk.append(message)
        if len(chunk) == bounds.count:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _size(message: object) -> int:
    body = getattr(message, "body", None)
    return len(body) if isinstance(body, bytes) else 0


def _not_iterable(messages: object) -> ConfigError:
    return ConfigError(f"send_many takes an iterable of messages, not {messages!r:.100}")
