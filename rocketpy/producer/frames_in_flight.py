"""The frames of one `send_many`: which are in flight, which wait for their queue, and which have failed.

Runs in the trio thread, and serves all three surfaces. Frames with a queue are sent to it in order, one at a time; all
others may be in flight together. The code that submits frames bounds their number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.errors import (
    ClientClosedError,
    ConfigError,
    LocalProtocolError,
    MessageIllegalError,
    RocketMQError,
    SendManyError,
)
from rocketpy.message import PropertyName
from rocketpy.message.accessors import split_keys
from rocketpy.producer.choosing import fixed
from rocketpy.producer.frames import MessageFrame, is_sound

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.producer.outside import Outside
    from rocketpy.results import SendResult

__all__ = ["FramesInFlight"]

_SMALL = 65_536
"""Bytes of bodies that frames may always have, because smaller frames would cost more than they save."""

_UNSENDABLE = (ConfigError, LocalProtocolError, AttributeError, TypeError, ValueError)
"""What encoding raises for a message that cannot be sent; the last three for objects of wrong types."""


@attrs.define(eq=False)
class _FrameInFlight:
    """A frame that waits for its answer."""

    frames: FramesInFlight
    frame: MessageFrame
    give_up: Callable[[], None] | None = None

    def __call__(self, outcome: SendResult | BaseException) -> None:
        self.give_up = None  # breaks a cycle, so that this is freed without the garbage collector
        self.frames.note_outcome(self, outcome)


class FramesInFlight:
    """Sends frames, and keeps count of their outcomes.

    Args:
        outside: encodes and sends them.
        timeout: seconds for each frame.
        largest: bytes of bodies that a frame should have at most.
        goes_on: whether other frames are sent after one has failed.

    Attributes:
        failures: the errors of failed frames, for the submitting code to take; safe from any thread.
        stopped: whether no more frames are sent.
        sent: the number of acknowledged messages.
        frames: the number of acknowledged frames.
        size: bytes of the bodies of acknowledged messages.
        largest: bytes of bodies that a frame should have at most.
        ended: the number of messages with an outcome, good or bad.
        ended_size: bytes of their bodies.
    """

    def __init__(self, outside: Outside, timeout: float, *, largest: int, goes_on: bool) -> None:
        self._outside = outside
        self._timeout = timeout
        self._retries = outside.core.config.retry_times_when_send_failed
        self._goes_on = goes_on
        self.largest = largest
        self.failures: deque[SendManyError] = deque()
        self.stopped = False
        self.sent = self.frames = self.size = self.ended = self.ended_size = 0
        self._submitted = 0
        self._in_flight: set[_FrameInFlight] = set()
        self._ready: deque[MessageFrame] = deque()
        self._lanes: dict[MessageQueue, deque[MessageFrame]] = {}
        self._pumping = False
        self._changed = trio.Event()

    # --- sending -----------------------------------------------------------------------------------------

    def submit(self, frame: MessageFrame) -> None:
        """Send a frame, or keep it until the frame before it in its queue has ended. In the trio thread."""
        self._submitted += len(frame)
        if self.stopped:
            self._end(frame)
            return
        if frame.queue is not None:
            lane = self._lanes.get(frame.queue)
            if lane is not None:
                lane.append(frame)
                return
            self._lanes[frame.queue] = deque()
        self._ready.append(frame)
        self._pump()

    def _pump(self) -> None:
        """Send what is ready. This is a loop because a send may fail at once and make the next frame ready."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._ready:
                self._launch(self._ready.popleft())
        finally:
            self._pumping = False

    def _launch(self, frame: MessageFrame) -> None:
        if frame.outgoing is None:
            raise AssertionError("a frame is encoded before it is submitted")
        sent = _FrameInFlight(self, frame)
        self._in_flight.add(sent)
        try:
            give_up = self._outside.start_send(
                frame.outgoing,
                sent,
                choice=None if frame.queue is None else fixed(frame.outgoing.message, frame.queue),
                retries=self._retries,
                timeout=self._timeout,
                in_order=frame.queue is not None,
            )
        except BaseException as error:  # noqa: BLE001 - what a hook raises belongs to the sender
            sent(error)
        else:
            sent.give_up = give_up if sent in self._in_flight else None

    # --- outcomes ----------------------------------------------------------------------------------------

    def note_outcome(self, sent: _FrameInFlight, outcome: SendResult | BaseException) -> None:
        """Take the outcome of a frame, and send what may follow it."""
        self._in_flight.discard(sent)
        frame = sent.frame
        again: list[MessageFrame] = []
        if not isinstance(outcome, BaseException):
            self.sent += len(frame)
            self.frames += 1
            self.size += frame.size
            self._end(frame)
        elif len(frame) > 1 and not self.stopped and _is_for_content(outcome):
            again = self._parted(frame)
        else:
            self.fail(frame, outcome)
        self._follow(frame.queue, again)
        self._pump()

    def _parted(self, frame: MessageFrame) -> list[MessageFrame]:
        """Return frames to send in place of one that the broker refused for its content.

        Refused frames are split in halves, down to single messages, so that one bad message does not fail the others.
        The frame may also have been too large for the broker. So later frames are made smaller, which costs little if
        the reason was a message.
        """
        if frame.size > _SMALL:
            self.largest = min(self.largest, max(_SMALL, frame.size // 2))
        parts = [part for half in frame.halves() for part in self.encoded(half)]
        # Messages that were changed meanwhile may have become unsendable.
        self.ended += len(frame) - sum(map(len, parts))
        self.ended_size += frame.size - sum(part.size for part in parts)
        self._changed.set()
        return parts

    def _follow(self, queue: MessageQueue | None, again: list[MessageFrame]) -> None:
        """Make ready what follows a frame that has ended: its parts, then the next frame of its queue."""
        if queue is None:
            self._ready.extend(again)
        elif queue in self._lanes:
            lane = self._lanes[queue]
            lane.extendleft(reversed(again))
            if lane:
                self._ready.append(lane.popleft())
            else:
                del self._lanes[queue]

    def encoded(self, frame: MessageFrame) -> Iterator[MessageFrame]:
        """Encode a frame, and split it to separate messages that cannot be sent from the others. Any thread."""
        stack = [frame]
        while stack:
            part = stack.pop()
            try:
                part.outgoing = self._outside.prepare_frame(part.messages)
            except _UNSENDABLE as error:
                if len(part) > 1:
                    stack += reversed(part.halves())
                else:
                    self.refused(part, error)
            else:
                yield part

    def refused(self, frame: MessageFrame, error: BaseException) -> None:
        """Record that a frame cannot be sent at all. Any thread."""
        self.failures.append(_failure(frame, error, self.sent))

    def fail(self, frame: MessageFrame, error: BaseException) -> None:
        """Record that a frame was sent and not acknowledged."""
        self.failures.append(_failure(frame, error, self.sent))
        self._end(frame)
        if not self._goes_on or isinstance(error, ClientClosedError):
            self.stop()

    # --- the end -----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Send no more frames; those in flight go on."""
        self.stopped = True
        waiting = [*self._ready, *(frame for lane in self._lanes.values() for frame in lane)]
        self._ready.clear()
        self._lanes.clear()
        for frame in waiting:
            self._end(frame)

    def abort(self) -> None:
        """Send no more frames, and give up those in flight."""
        self.stop()
        for sent in list(self._in_flight):
            if sent.give_up is not None:
                sent.give_up()

    def _end(self, frame: MessageFrame) -> None:
        """Count a frame as ended."""
        self.ended += len(frame)
        self.ended_size += frame.size
        self._changed.set()

    async def wait_ended(self) -> None:
        """Wait until all submitted frames have ended."""
        await trio.lowlevel.checkpoint()
        while self.ended < self._submitted:
            await self._wait_change()

    async def wait_eased(self, ended: int, ended_size: int) -> None:
        """Wait until this many messages and bytes have ended, or no more frames are sent."""
        await trio.lowlevel.checkpoint()
        while not self.stopped and (self.ended < ended or self.ended_size < ended_size):
            await self._wait_change()

    async def _wait_change(self) -> None:
        if self._changed.is_set():  # otherwise another task waits for this event already
            self._changed = trio.Event()
        await self._changed.wait()


def _is_for_content(error: BaseException) -> bool:
    """Whether a broker refused the content of the frame."""
    return isinstance(error, MessageIllegalError) or isinstance(error.__cause__, MessageIllegalError)


def _failure(frame: MessageFrame, cause: BaseException, sent: int) -> SendManyError:
    first, last = frame.positions[0], frame.positions[-1]
    keys = _keys(frame.messages[0])
    # The error of a user's hook or iterable may have no text of its own.
    reason = str(cause) if isinstance(cause, RocketMQError) else repr(cause)
    error = SendManyError(reason, first=first, last=last, count=len(frame), keys=keys, sent=sent)
    error.__cause__ = cause
    return error


def _keys(message: object) -> tuple[str, ...]:
    """Return the keys of a message. An attribute of a wrong type means no keys, rather than another error."""
    text: object = message.wire_properties.get(PropertyName.KEYS) if is_sound(message) else None
    return split_keys(text) if isinstance(text, str) else ()
