"""One `send_many`, on the side of its caller: it takes messages in chunks, puts them into frames, and waits for room.

Shared by the three surfaces. Nothing here waits: what has to be waited for is given out as steps, async functions that
the surface runs in the trio thread in its own way.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, TypeAlias

import trio

from rocketpy.client.sends.selection import sharding_queue
from rocketpy.errors import (
    ClientClosedError,
    ConfigError,
    RocketMQError,
    SendError,
    SendManyError,
    SerializationError,
    TopicNotFoundError,
)
from rocketpy.message import PropertyName
from rocketpy.producer.chunks import chunks_async
from rocketpy.producer.frames import FrameBuilder, MessageFrame, is_sound
from rocketpy.producer.frames_in_flight import FramesInFlight
from rocketpy.results import SendManyResult

if TYPE_CHECKING:
    from datetime import timedelta

    from rocketpy.config import ProducerConfig
    from rocketpy.message import Message, MessageQueue
    from rocketpy.producer.outside import Outside

__all__ = ["BATCH_SIZE", "OnFailure", "SendMany", "call_now", "frame_bounds", "send_all"]

BATCH_SIZE = 256
"""The largest number of messages in a frame of `send_many`, by default."""

_MAX_BATCH_SIZE = 65_535
_FRAME_SIZE = 1 << 20
"""Bytes of bodies that a frame may have: well below the 4 MiB that a broker takes, names and properties aside."""

_MAX_KEYS = 10_000
"""Sharding keys whose queues are remembered."""

OnFailure: TypeAlias = Callable[[SendManyError], object]
"""Called with the error of every frame that failed."""

Step: TypeAlias = Callable[[], Awaitable[None]]
"""What to wait for, in the trio thread."""

_Post: TypeAlias = Callable[[Callable[[MessageFrame], None], MessageFrame], object]


def frame_bounds(config: ProducerConfig, batch_size: int) -> tuple[int, int]:
    """Return how many messages, and bytes of bodies, a frame of `send_many` may have, before a broker refuses any.

    That is at most half of what may be under way: one frame fills while another is on its way.
    """
    most, most_size = config.back_pressure_for_async_send_num, config.back_pressure_for_async_send_size
    return min(batch_size, max(1, most // 2)), min(_FRAME_SIZE, config.max_message_size // 2, most_size // 2)


class _ByKey(dict[str, "MessageQueue"]):
    """The queues of sharding keys, each computed once: few keys and many messages are usual."""

    def __init__(self, queues: tuple[MessageQueue, ...]) -> None:
        super().__init__()
        self.queues = queues

    def __missing__(self, key: str) -> MessageQueue:
        if len(self) >= _MAX_KEYS:
            self.clear()
        found = self[key] = sharding_queue(self.queues, key)
        return found


class SendMany:
    """One `send_many`.

    Args:
        outside: encodes and sends the frames.
        post: runs a plain function in the trio thread soon, in order.
        batch_size: messages a frame may have.
        timeout: seconds for each frame.
        on_failure: called with the error of each frame that failed; without it, the first failure ends everything.

    Raises:
        ConfigError: an argument cannot be used.
    """

    def __init__(
        self,
        outside: Outside,
        post: _Post,
        *,
        batch_size: int,
        timeout: float | timedelta | None,
        on_failure: OnFailure | None,
    ) -> None:
        config = outside.core.config
        self.count, largest = frame_bounds(config, _checked_batch_size(batch_size))
        self._outside = outside
        self._post = post
        self._on_failure = _checked_callback(on_failure)
        self._most = config.back_pressure_for_async_send_num
        self._most_size = config.back_pressure_for_async_send_size
        self._builder = FrameBuilder(self.count, largest, self._most_size // 2)
        self._timeout = outside.seconds(timeout)
        self._frames = FramesInFlight(outside, self._timeout, largest=largest, goes_on=on_failure is not None)
        self._position = 0
        self._handed = self._handed_size = self._failed = 0
        self._queues: dict[str, _ByKey | RocketMQError] = {}
        """Of the topics of a chunk whose messages have sharding keys; or why there are none."""

    # --- messages in -------------------------------------------------------------------------------------

    def feed(self, messages: Sequence[Message]) -> Iterator[Step]:
        """Take the next messages; gives what has to be waited for meanwhile.

        Raises:
            SendManyError: a frame has failed, and there is no `on_failure`.
        """
        self._report_failures()
        self._builder.size = self._frames.largest
        first = self._position
        self._position += len(messages)
        frame = self._builder.whole(messages, first)
        if frame is not None:
            yield from self._hand_over(frame)
            return
        keys = [_sharding_key(message) for message in messages]
        yield from self._look_up(messages, keys)
        for position, (message, key) in enumerate(zip(messages, keys, strict=True), first):
            for frame in self._put(message, position, key):
                yield from self._hand_over(frame)
        self._report_failures()

    def finish(self) -> Iterator[Step]:
        """Send what is left, and wait for every answer.

        Raises:
            SendManyError: a frame has failed, and there is no `on_failure`.
        """
        for frame in self._builder.rest():
            yield from self._hand_over(frame)
        yield self._frames.wait_ended
        self._report_failures()

    @property
    def largest(self) -> int:
        """Bytes of bodies that a frame may have, by what the broker is known to take."""
        return self._frames.largest

    def filled(self, message: Message) -> Message:
        """A message with its value as the body. One whose value cannot be written stays as it is, and fails alone."""
        with suppress(SerializationError):
            return self._outside.filled(message)
        return message

    def result(self) -> SendManyResult:
        """What it came to, at the end."""
        frames = self._frames
        return SendManyResult(frames.sent, frames.frames, frames.size, self._failed)

    # --- queues ------------------------------------------------------------------------------------------

    def _look_up(self, messages: Sequence[Message], keys: Sequence[str | None]) -> Iterator[Step]:
        """Have the queues at hand of all topics whose queues are chosen by sharding keys."""
        topics = {message.topic for message, key in zip(messages, keys, strict=True) if key is not None}
        self._queues = {topic: self._queues[topic] for topic in topics if topic in self._queues}
        for topic in topics:
            if self._outside.client.routes.publish_info(topic) is None:
                yield partial(self._ensure, topic)
            else:
                self._know(topic)

    async def _ensure(self, topic: str) -> None:
        try:
            await self._outside.ensure_route(topic, timeout=self._timeout)
        except RocketMQError as error:
            self._queues[topic] = error
        else:
            self._know(topic)

    def _know(self, topic: str) -> None:
        info, known = self._outside.client.routes.publish_info(topic), self._queues.get(topic)
        if info is None or not info.queues:
            self._queues[topic] = _gone(topic)
        elif not isinstance(known, _ByKey) or known.queues is not info.queues:
            self._queues[topic] = _ByKey(info.queues)

    def _put(self, message: Message, position: int, key: str | None) -> Iterable[MessageFrame]:
        """Put a message into its frame; gives those that may go now."""
        if key is None:
            return self._builder.add(message, position, None)
        queues = self._queues[message.topic]
        if isinstance(queues, _ByKey):
            return self._builder.add(message, position, queues[key])
        self._frames.refused(MessageFrame([message], [position], None, 0), queues)
        return ()

    # --- frames out --------------------------------------------------------------------------------------

    def _hand_over(self, frame: MessageFrame) -> Iterator[Step]:
        frames = self._frames
        for part in frames.encoded(frame):
            if not self._has_room(part):
                rest = max(0, min(self._most_size // 2, self._most_size - part.size))
                yield partial(frames.wait_eased, self._handed - self._most // 2, self._handed_size - rest)
            self._report_failures()
            self._handed += len(part)
            self._handed_size += part.size
            self._post(frames.submit, part)
        self._report_failures()

    def _has_room(self, frame: MessageFrame) -> bool:
        """Whether it may be under way too. A frame larger than all room goes when nothing else is under way."""
        under_way = self._handed - self._frames.ended
        size = self._handed_size - self._frames.ended_size
        return not under_way or (under_way + len(frame) <= self._most and size + frame.size <= self._most_size)

    def _report_failures(self) -> None:
        """Raise the first failure, or call `on_failure` with each."""
        failures = self._frames.failures
        while failures:
            if self._on_failure is None or isinstance(failures[0].__cause__, ClientClosedError):
                raise failures.popleft()  # without a name: its traceback refers to this frame
            failure = failures.popleft()
            self._failed += failure.count
            _forget_traces(failure)
            self._on_failure(failure)

    # --- a bad end ---------------------------------------------------------------------------------------

    async def stop(self, error: BaseException | None = None) -> None:
        """Send nothing any more, and wait until what is in flight has ended. In the trio thread."""
        self._frames.stop()
        await self._frames.wait_ended()
        self._frames.failures.clear()  # nobody asks for them any more, and their tracebacks refer to the frames
        if isinstance(error, SendManyError):
            error.sent = self._frames.sent

    def abort(self) -> None:
        """Give up what is still in flight. In the trio thread."""
        self._frames.abort()


def _sharding_key(message: object) -> str | None:
    """The sharding key of a message. An object that is no message has none; it is refused when it is sent."""
    key: object = message.wire_properties.get(PropertyName.SHARDING_KEY) if is_sound(message) else None
    return key if isinstance(key, str) else None


def _forget_traces(failure: SendManyError) -> None:
    """Leave what `on_failure` may keep, of any number of frames: a traceback holds on to the frame and its messages."""
    errors: list[BaseException | None] = [failure]
    while errors:
        error = errors.pop()
        if isinstance(error, RocketMQError):  # one of a hook's own has nothing of ours, and is worth a look
            error.__traceback__ = None
            errors += [error.__cause__, error.__context__]
            if isinstance(error, SendError):
                errors += [attempt.error for attempt in error.attempts]


def _gone(topic: str) -> RocketMQError:
    return TopicNotFoundError(
        f"the queues of {topic} were removed a moment ago: send again when the topic is back", topic=topic
    )


# --- on trio -------------------------------------------------------------------------------------------


@trio.lowlevel.enable_ki_protection  # or Ctrl-C may pass for the error of a frame, or leave one half written
def call_now(function: Callable[[MessageFrame], None], frame: MessageFrame) -> None:
    """For a caller that is in the trio thread itself."""
    function(frame)


async def send_all(many: SendMany, messages: Iterable[Message] | AsyncIterable[Message]) -> SendManyResult:
    """Send them from a task of trio."""
    try:
        async with aclosing(chunks_async(messages, many)) as parts:
            async for part in parts:
                await trio.lowlevel.checkpoint()
                for step in many.feed(part):
                    await step()
        for step in many.finish():
            await step()
    except Exception as error:
        await many.stop(error)
        raise
    finally:
        many.abort()
    return many.result()


# --- arguments -----------------------------------------------------------------------------------------


def _checked_batch_size(batch_size: Any) -> int:
    if not isinstance(batch_size, int) or isinstance(batch_size, bool) or not 1 <= batch_size <= _MAX_BATCH_SIZE:
        raise ConfigError(f"batch_size must be a whole number from 1 to {_MAX_BATCH_SIZE}, not {batch_size!r}")
    return batch_size


def _checked_callback(on_failure: Any) -> OnFailure | None:
    if on_failure is not None and not callable(on_failure):
        raise ConfigError(f"on_failure must be a function that takes a SendManyError, not {on_failure!r}")
    if iscoroutinefunction(on_failure):
        raise ConfigError("on_failure must be a plain function: an async one would never be awaited")
    found: OnFailure | None = on_failure
    return found
