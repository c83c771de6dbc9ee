"""The frames of one `send_many` that are on their way: what flies, what waits for its queue, what has failed.

Lives in the trio thread and is told of answers there; nothing here belongs to a surface. Frames with a queue of their
own follow each other in it, one in flight at a time, all others fly together. What bounds their number is asked by
whoever hands them over.
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
from rocketpy.producer.frames import Frame, is_sound

if TYPE_CHECKING:
    from rocketpy.message import MessageQueue
    from rocketpy.producer.producer import Producer
    from rocketpy.results import SendResult

__all__ = ["Flight"]

_SMALL = 65_536
"""Bytes of bodies that a frame may have in any case: smaller ones would cost more than they spare."""

_UNSENDABLE = (ConfigError, LocalProtocolError, AttributeError, TypeError, ValueError)
"""What encoding raises of a message that may not be sent; the last three where somebody put in what does not belong."""


@attrs.define(eq=False)
class _Flying:
    """A frame that waits for its answer."""

    flight: Flight
    frame: Frame
    give_up: Callable[[], None] | None = None

    def __call__(self, outcome: SendResult | BaseException) -> None:
        self.give_up = None  # it refers to us: nothing that has ended shall wait for the collector
        self.flight.landed(self, outcome)


class Flight:
    """Sends frames, tells how they went.

    Args:
        producer: sends them.
        timeout: seconds for each frame.
        largest: bytes of bodies that a frame should have at most.
        goes_on: whether the others are sent when one has failed.

    Attributes:
        failures: what has failed, for whoever hands frames over to take; safe from any thread.
        stopped: whether nothing is sent any more.
        sent: messages that are acknowledged.
        frames: frames that are acknowledged.
        size: bytes of the bodies that are acknowledged.
        largest: bytes of bodies that a frame should have at most.
        ended: messages of frames that have ended, well or badly.
        ended_size: bytes of their bodies.
    """

    def __init__(self, producer: Producer, timeout: float, *, largest: int, goes_on: bool) -> None:
        self._producer = producer
        self._timeout = timeout
        self._retries = producer.config.retry_times_when_send_failed
        self._goes_on = goes_on
        self.largest = largest
        self.failures: deque[SendManyError] = deque()
        self.stopped = False
        self.sent = self.frames = self.size = self.ended = self.ended_size = 0
        self._submitted = 0
        self._flying: set[_Flying] = set()
        self._ready: deque[Frame] = deque()
        self._lanes: dict[MessageQueue, deque[Frame]] = {}
        self._pumping = False
        self._changed = trio.Event()

    # --- what goes out -----------------------------------------------------------------------------------

    def submit(self, frame: Frame) -> None:
        """Send a frame, or have it wait for the one before it in its queue. In the trio thread."""
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
        """Send what is ready. A loop, for a send may fail at once and make the next one ready."""
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._ready:
                self._launch(self._ready.popleft())
        finally:
            self._pumping = False

    def _launch(self, frame: Frame) -> None:
        if frame.outgoing is None:
            raise AssertionError("a frame is encoded before it is handed over")
        flying = _Flying(self, frame)
        self._flying.add(flying)
        try:
            give_up = self._producer.start_send(
                frame.outgoing,
                flying,
                queue=frame.queue,
                timeout=self._timeout,
                retries=self._retries,
                in_order=frame.queue is not None,
            )
        except BaseException as error:  # noqa: BLE001 - what a hook raises belongs to the sender
            flying(error)
        else:
            flying.give_up = give_up if flying in self._flying else None

    # --- what comes back ---------------------------------------------------------------------------------

    def landed(self, flying: _Flying, outcome: SendResult | BaseException) -> None:
        """A frame has its answer."""
        self._flying.discard(flying)
        frame = flying.frame
        again: list[Frame] = []
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

    def _parted(self, frame: Frame) -> list[Frame]:
        """What to send in the place of a frame that was refused for what it holds: a message is at fault, or all.

        Down to single messages, so that the others do not suffer for one. That frames were too large for the broker
        may be as well: those to come are made smaller, which costs little where it was a message.
        """
        if frame.size > _SMALL:
            self.largest = min(self.largest, max(_SMALL, frame.size // 2))
        parts = [part for half in frame.halves() for part in self.encoded(half)]
        # A message that was changed meanwhile may not be sent any more.
        self.ended += len(frame) - sum(map(len, parts))
        self.ended_size += frame.size - sum(part.size for part in parts)
        self._changed.set()
        return parts

    def _follow(self, queue: MessageQueue | None, again: list[Frame]) -> None:
        """What is to be sent now that a frame has its answer: parts of it, then the next one of its queue."""
        if queue is None:
            self._ready.extend(again)
        elif queue in self._lanes:
            lane = self._lanes[queue]
            lane.extendleft(reversed(again))
            if lane:
                self._ready.append(lane.popleft())
            else:
                del self._lanes[queue]

    def encoded(self, frame: Frame) -> Iterator[Frame]:
        """The frame in its encoded form. Of a message that cannot be sent at all the others are freed. Any thread."""
        stack = [frame]
        while stack:
            part = stack.pop()
            try:
                part.outgoing = self._producer.prepare_many(part.messages)
            except _UNSENDABLE as error:
                if len(part) > 1:
                    stack += reversed(part.halves())
                else:
                    self.refused(part, error)
            else:
                yield part

    def refused(self, frame: Frame, error: BaseException) -> None:
        """A frame cannot be sent at all. Any thread."""
        self.failures.append(_failure(frame, error, self.sent))

    def fail(self, frame: Frame, error: BaseException) -> None:
        """A frame was sent and not acknowledged."""
        self.failures.append(_failure(frame, error, self.sent))
        self._end(frame)
        if not self._goes_on or isinstance(error, ClientClosedError):
            self.stop()

    # --- the end -----------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Send nothing any more; what flies may land."""
        self.stopped = True
        waiting = [*self._ready, *(frame for lane in self._lanes.values() for frame in lane)]
        self._ready.clear()
        self._lanes.clear()
        for frame in waiting:
            self._end(frame)

    def abort(self) -> None:
        """Give everything up."""
        self.stop()
        for flying in list(self._flying):
            if flying.give_up is not None:
                flying.give_up()

    def _end(self, frame: Frame) -> None:
        """It takes no room any more."""
        self.ended += len(frame)
        self.ended_size += frame.size
        self._changed.set()

    async def wait_ended(self) -> None:
        """Wait until everything that was handed over has ended."""
        await trio.lowlevel.checkpoint()
        while self.ended < self._submitted:
            await self._wait_change()

    async def wait_eased(self, ended: int, ended_size: int) -> None:
        """Wait until so much has ended, or nothing is sent any more."""
        await trio.lowlevel.checkpoint()
        while not self.stopped and (self.ended < ended or self.ended_size < ended_size):
            await self._wait_change()

    async def _wait_change(self) -> None:
        if self._changed.is_set():  # or somebody waits for it already
            self._changed = trio.Event()
        await self._changed.wait()


def _is_for_content(error: BaseException) -> bool:
    """Whether a broker refused what the frame holds."""
    return isinstance(error, MessageIllegalError) or isinstance(error.__cause__, MessageIllegalError)


def _failure(frame: Frame, cause: BaseException, sent: int) -> SendManyError:
    first, last = frame.positions[0], frame.positions[-1]
    keys = _keys(frame.messages[0])
    # What a hook or an iterable of the user's raises may say nothing by itself.
    reason = str(cause) if isinstance(cause, RocketMQError) else repr(cause)
    error = SendManyError(reason, first=first, last=last, count=len(frame), keys=keys, sent=sent)
    error.__cause__ = cause
    return error


def _keys(message: object) -> tuple[str, ...]:
    """Those of a message, as far as it has any: whatever somebody has put there is no reason for another error."""
    text: object = message.properties.get(PropertyName.KEYS) if is_sound(message) else None
    return split_keys(text) if isinstance(text, str) else ()
