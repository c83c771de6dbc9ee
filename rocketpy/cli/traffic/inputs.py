"""Messages from standard input or a file: one for all of it, one per line, or one per line of JSON.

The input is read as it arrives, so that each line of a pipe is sent at once, and in a thread, so that a silent pipe
does not delay what is being sent.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import trio

from rocketpy.cli.traffic.records import message_of
from rocketpy.errors import ConfigError, RocketMQError
from rocketpy.message import Message, PropertyName

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["TIMES", "Item", "Pattern", "items", "opened", "size_of", "whole"]

PIECE = 1 << 16
"""Bytes of one read."""
TIMES = frozenset(
    {
        PropertyName.DELAY,
        PropertyName.TIMER_DELAY_MS,
        PropertyName.TIMER_DELAY_SEC,
        PropertyName.TIMER_DELIVER_MS,
    }
)
"""Properties that say when a message is delivered. Brokers look at the first of them that a message has."""
MAX_MESSAGE = 16 << 20
"""Bytes of the longest line or file: the producer's own limit is lower, and says what to do."""


class Item(NamedTuple):
    """A message, and the line that it comes from."""

    line: int
    """Number of the line, from 1."""
    message: Message
    """The message."""
    size: int
    """Bytes of the line."""


class Pattern(NamedTuple):
    """What all messages have in common. Lines of JSON may have their own tags, keys and so on instead."""

    topic: str
    """The topic."""
    tags: str | None = None
    """The tag."""
    keys: tuple[str, ...] = ()
    """The keys."""
    properties: Mapping[str, str] | None = None
    """The properties."""
    timing: Mapping[str, Any] | None = None
    """The argument of `Message` that says when they are delivered, and its value."""
    sharding_key: str | None = None
    """The sharding key."""

    def of_body(self, body: bytes) -> Message:
        """A message with a body.

        Raises:
            ConfigError: it cannot be sent.
        """
        return Message(
            self.topic,
            body,
            tags=self.tags,
            keys=list(self.keys),
            properties=self.properties,
            sharding_key=self.sharding_key,
            **(self.timing or {}),
        )

    def of_record(self, line: bytes) -> Message:
        """A message from a line of JSON; its own members come first.

        Raises:
            ConfigError: it cannot be sent.
        """
        found, common = message_of(self.topic, line), self.of_body(b"-").wire_properties
        if not TIMES.isdisjoint(found.wire_properties):  # in whatever way it says when: that comes first as a whole
            common = {name: value for name, value in common.items() if name not in TIMES}
        found.wire_properties = common | found.wire_properties
        return found


@contextmanager
def opened(path: str | None) -> Iterator[BinaryIO]:
    """The file of a path, or standard input for None and "-", without a buffer in between if that is possible.

    Raises:
        ConfigError: it cannot be opened, or no path is given and standard input is a terminal.
    """
    if path in (None, "-") and sys.stdin is None:  # closed by the parent process: nothing sent would look like success
        raise ConfigError("standard input is closed: pass a body, or a file with --file")
    if path is None and sys.stdin.isatty():
        raise ConfigError(
            "there is nothing to send: pass a body, pass a file with --file, or pipe one into this command"
        )
    if path is None or path == "-":
        buffer: Any = sys.stdin.buffer
        # A thread that waits within the buffer would hold its lock while the interpreter ends.
        yield getattr(buffer, "raw", buffer)
        return
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115  closed below, apart from the errors of the block
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    with file:
        yield file


def size_of(file: BinaryIO) -> int | None:
    """How many bytes a file has; None for a pipe."""
    try:
        found = os.fstat(file.fileno())
    except (OSError, ValueError, AttributeError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


async def _piece(file: BinaryIO) -> bytes:
    """What is there, as soon as something is; nothing at the end."""
    read: Callable[[int], bytes | None] = file.read
    try:
        while (found := await trio.to_thread.run_sync(read, PIECE, abandon_on_cancel=True)) is None:
            # There is nothing yet, and a pipe that does not block tells so. This is not its end.
            await trio.lowlevel.wait_readable(file.fileno())
        return found
    except OSError as exc:
        raise ConfigError(f"the input cannot be read: {exc.strerror or exc}") from exc


async def whole(file: BinaryIO) -> bytes:
    """All of it.

    Raises:
        ConfigError: there is nothing, or too much for one message.
    """
    found = bytearray()
    while piece := await _piece(file):
        found += piece
        if len(found) > MAX_MESSAGE:
            raise ConfigError(f"the input is larger than one message may be, {MAX_MESSAGE} bytes: send it with --lines")
    if not found:
        raise ConfigError("the input is empty, and RocketMQ refuses messages without a body")
    return bytes(found)


async def items(file: BinaryIO, make: Callable[[bytes], Message], *, skip: int) -> AsyncGenerator[list[Item], None]:
    """The messages of all lines, in lists of those that are read together. Empty lines are left out.

    Args:
        file: where they come from.
        make: makes a message from a line.
        skip: how many lines to skip.

    Raises:
        ConfigError: a line is not a message; the messages before it have been yielded.
    """
    number, rest = 0, b""
    while True:
        piece = await _piece(file)
        *lines, rest = (rest + piece).split(b"\n") if piece else (rest, b"")
        found: list[Item] = []
        try:
            for line in lines:
                number += 1
                if number > skip and (body := line.removesuffix(b"\r")):
                    found.append(Item(number, _made(make, number, body), len(line) + 1))
            if len(rest) > MAX_MESSAGE:
                raise ConfigError(f"line {number + 1} is longer than a message may be, {MAX_MESSAGE} bytes")
        except RocketMQError:
            if found:
                yield found
            raise
        if found:
            yield found
        if not piece:
            return


def _made(make: Callable[[bytes], Message], number: int, line: bytes) -> Message:
    try:
        return make(line)
    except ConfigError as error:
        raise ConfigError(f"line {number}: {error}") from error
