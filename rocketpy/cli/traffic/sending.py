"""Sends messages in batches, several at a time, and keeps track of which are stored.

Nothing more is sent after the first failure. Then it reports the first line that is not known to be stored, and the
later lines that are stored all the same, because they were in flight at that time.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import trio

from rocketpy.cli.traffic.inputs import TIMES
from rocketpy.errors import BrokerError, ConfigError, RouteNotFoundError, SendError
from rocketpy.logs import counted
from rocketpy.message import PropertyName
from rocketpy.results import SendStatus
from rocketpy.services import start_whole

if TYPE_CHECKING:
    from rocketpy.cli.traffic.inputs import Item
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.producer import Producer
    from rocketpy.results import SendResult

__all__ = ["Sending"]

BATCH = 256
"""Messages in one request."""
MAX_BYTES = 1 << 20
"""Bytes of their bodies: well below the 4 MiB that a broker takes."""
_BY_THEMSELVES = TIMES | {PropertyName.SHARDING_KEY}
"""Properties of messages that cannot be in a batch with others."""


class _Frame(NamedTuple):
    """Messages that are sent together."""

    items: Sequence[Item]
    """The messages."""
    first: int
    """The line of the first one."""
    last: int
    """The line of the last one."""


class Sending:
    """Sends the messages of an input.

    Args:
        producer: an open producer.
        in_flight: how many requests may be in flight.
        queue: the queue for all of them; None for any.
        progress: called with the messages and bytes that have been stored.
        skipped: how many lines were skipped, because they have been sent already.

    Attributes:
        stored: how many messages are stored.
        size: the bytes of their lines.
        badly: how many of them are stored less safely than the broker is configured to.
    """

    def __init__(
        self,
        producer: Producer,
        *,
        in_flight: int,
        queue: MessageQueue | None,
        progress: Callable[[int, int], object],
        skipped: int = 0,
    ) -> None:
        self.stored = self.size = self.badly = 0
        self._producer = producer
        self._queue = queue
        self._progress = progress
        self._room = trio.CapacityLimiter(1 if queue is not None else in_flight)  # one queue is filled in order
        self._open: dict[int, _Frame] = {}
        """What was sent and is not known to be stored, by the first line."""
        self._refused: set[int] = set()
        """The first lines of those that are certainly not stored."""
        self._stored_behind: list[_Frame] = []
        """What is stored although something before it is not."""
        self._read = skipped
        """The last line that was sent."""
        self._error: Exception | None = None
        self._feeding = trio.CancelScope()
        """Ends with the first failure: the next line of a pipe may be long in coming."""

    async def run(self, chunks: AsyncIterable[list[Item]]) -> None:
        """Send all of them.

        Args:
            chunks: the messages, in the order of their lines.

        Raises:
            ConfigError: a line is not a message. Those before it are stored.
            RocketMQError: messages could not be sent.
        """
        async with trio.open_nursery() as nursery:
            try:
                with self._feeding:
                    await self._feed(chunks, nursery)
            except Exception as error:  # noqa: BLE001  raised below, when nothing is in flight any more
                self._error = self._error or error
        if self._error is not None:
            raise self._error

    async def _feed(self, chunks: AsyncIterable[list[Item]], nursery: trio.Nursery) -> None:
        async for chunk in chunks:
            for items in _parted(chunk):
                frame = _Frame(items, items[0].line, items[-1].line)
                await self._room.acquire_on_behalf_of(frame.first)
                if self._error is not None:  # it came while this task had room already, and waited for its turn
                    return
                self._open[frame.first] = frame
                self._read = frame.last
                start_whole(nursery, self._send, frame)

    async def _send(self, frame: _Frame) -> None:
        try:
            result = await self._sent([each.message for each in frame.items])
        except Exception as error:  # noqa: BLE001  the first of them is raised at the end
            self._error = self._error or error
            self._feeding.cancel()
            if _is_refusal(error):
                self._refused.add(frame.first)
        else:
            self._note(frame, result)
        finally:
            self._room.release_on_behalf_of(frame.first)

    async def _sent(self, messages: list[Message]) -> SendResult:
        if len(messages) == 1:
            return await self._producer.send(messages[0], queue=self._queue)
        return await self._producer.send_batch(messages, queue=self._queue)

    def _note(self, frame: _Frame, result: SendResult) -> None:
        """Count messages that are stored."""
        del self._open[frame.first]
        count, size = len(frame.items), sum(each.size for each in frame.items)
        self.stored += count
        self.size += size
        if result.status is not SendStatus.SEND_OK:
            self.badly += count
        self._stored_behind.append(frame)
        least = min(self._open, default=self._read + 1)
        self._stored_behind = [each for each in self._stored_behind if each.first > least]
        self._progress(count, size)

    # --- the report if it ends early ----------------------------------------------------------

    @property
    def next_line(self) -> int:
        """The first line that is not known to be stored."""
        return min(self._open, default=self._read + 1)

    def state(self) -> str:
        """What is stored, and where to continue."""
        text = f"{counted(self.stored, 'message')} stored; the next line is {self.next_line}"
        ranges = ", ".join(_ranges(self._stored_behind))
        if ranges:
            text += f", but lines {ranges} are stored too"
        if self._open.keys() - self._refused:
            text += "; the lines without an answer may be stored as well"
        return f"{text}. To continue there: --skip {self.next_line - 1}"


def _is_refusal(error: BaseException) -> bool:
    """Whether it is certain after an error that nothing is stored."""
    if isinstance(error, SendError):
        return all(_is_refusal(attempt.error) for attempt in error.attempts)
    return isinstance(error, BrokerError | ConfigError | RouteNotFoundError) or getattr(error, "nothing_sent", False)


def _parted(chunk: Sequence[Item]) -> Iterator[list[Item]]:
    """The messages in lists that can be sent in one request each."""
    part: list[Item] = []
    size = 0
    for item in chunk:
        alone = not _BY_THEMSELVES.isdisjoint(item.message.wire_properties)
        if part and (alone or len(part) >= BATCH or size + item.size > MAX_BYTES):
            yield part
            part, size = [], 0
        if alone:
            yield [item]
        else:
            part.append(item)
            size += item.size
    if part:
        yield part


def _ranges(frames: Sequence[_Frame]) -> Iterator[str]:
    """The lines of frames, such as "5 to 9"."""
    ordered = sorted(frames, key=lambda each: each.first)
    at = 0
    while at < len(ordered):
        first, last = ordered[at].first, ordered[at].last
        at += 1
        while at < len(ordered) and ordered[at].first == last + 1:
            last = ordered[at].last
            at += 1
        yield str(first) if first == last else f"{first} to {last}"
