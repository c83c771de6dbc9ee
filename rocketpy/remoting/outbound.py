"""The asking half of a connection: requests of ours, in flight and one-way.

`exchange` is the hot path and as short as it gets: a test for cancellation, a frame into the output, a slot in the
table, and the task parks. A frame goes straight to the kernel when nobody else is under way; otherwise more will come
within the same tick, and the writer task sends them all at once. Plays the part of invokeSync, invokeAsync and
invokeOneway.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import (
    ConnectionLostError,
    RemoteProtocolError,
    RequestTimeoutError,
    RocketMQError,
    TooManyRequestsError,
    rounded,
    unsent,
)
from rocketpy.remoting.hooks import hook_after, hook_before
from rocketpy.remoting.in_flight import Done, InFlight
from rocketpy.wire.codes import ONEWAY_FLAG
from rocketpy.wire.frame import Frame
from rocketpy.wire.serialize import decode_command, encode_command

if TYPE_CHECKING:
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.limits import ConnectionLimits
    from rocketpy.remoting.timers import Alarm
    from rocketpy.remoting.transport import Transport
    from rocketpy.wire.codes import SerializeType
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.fast_answer import SendAnswer

__all__ = ["Outbound"]

_FRAMES_A_TURN = 32
_BYTES_A_TURN = 64 * 1024


class Outbound(ABC):
    """What a connection offers to those who ask its peer.

    Attributes:
        address: The peer as "host:port"; on a client the address that was dialled.
        hooks: What wants to see typed requests; who sends prebuilt frames must do without.
        serialize_type: How headers are encoded where a command does not say it itself.
        error: Why the connection ended, None while it is open.
        retired: Whether it takes no requests any more and closes when those that wait are answered.
    """

    def __init__(
        self,
        address: str,
        transport: Transport,
        alarm: Alarm,
        limits: ConnectionLimits,
        hooks: Sequence[RequestHook],
        serialize_type: SerializeType,
    ) -> None:
        self.address = address
        self.hooks = tuple(hooks)
        self.serialize_type = serialize_type
        self.error: RocketMQError | None = None
        self.retired = False
        self._transport = transport
        self._alarm = alarm
        self._limits = limits
        self._in_flight = InFlight(limits.max_in_flight)
        self._unanswered = 0

    @property
    def is_open(self) -> bool:
        """Whether it is connected."""
        return self.error is None

    @abstractmethod
    def close(self, error: RocketMQError | None = None) -> None:
        """Close at once: waiting callers get ConnectionLostError, buffered frames are lost. Plain; harmless twice."""

    def next_opaque(self) -> int:
        """The number for the next request; nothing else that waits on this connection has it."""
        return self._in_flight.next_opaque()

    async def request(self, command: RemotingCommand, *, timeout: float) -> RemotingCommand:
        """Send a request and wait for its answer, whatever its code says.

        Raises:
            RequestTimeoutError: no answer came in time; whether the request was carried out is unknown.
            ConnectionLostError: the connection ended; unless it says that nothing was sent, the same is unknown.
        """
        self._prepare(command)
        frame = encode_command(command, limits=self._limits.wire)
        try:
            reply = await self.exchange(command.opaque, frame, trio.current_time() + timeout)
        except RequestTimeoutError as exc:
            text = f"{command}, allowed {rounded(timeout)} s: {exc}"
            error = RequestTimeoutError(text, address=self.address, timeout=timeout)
            error.nothing_sent = exc.nothing_sent
            raise error from None
        answer = self.decode_answer(reply)
        if self.hooks:
            hook_after(self.hooks, self.address, command, answer)
        return answer

    async def exchange(self, opaque: int, frame: bytes, deadline: float) -> Frame:
        """Send a prebuilt frame and wait for the frame that answers it. The shortest way there is.

        `opaque` comes from `next_opaque` and stands in the frame; `deadline` is on trio's clock. Raises as `request`.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._transport.pending > self._limits.pending_writes:
            await self._wait_writable_until(deadline)
        self._send_request(opaque, frame, deadline)
        slot = self._in_flight.enter(opaque, deadline)
        await trio.lowlevel.wait_task_rescheduled(slot)
        result = slot.result
        if isinstance(result, Frame):
            return result
        assert isinstance(result, RocketMQError)
        raise result

    async def exchange_send(self, opaque: int, frame: bytes, deadline: float) -> Frame | SendAnswer:
        """The same for a send: returns the fields of an answer that is plain success, which are read only once."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._transport.pending > self._limits.pending_writes:
            await self._wait_writable_until(deadline)
        self._send_request(opaque, frame, deadline)
        slot = self._in_flight.enter(opaque, deadline)
        slot.is_send = self._in_flight.has_sends = True
        await trio.lowlevel.wait_task_rescheduled(slot)
        result = slot.result
        if isinstance(result, RocketMQError):
            raise result
        assert result is not None
        return result

    def start_request(self, opaque: int, frame: bytes, deadline: float, done: Done) -> None:
        """Send a prebuilt frame; `done` is called once, in the trio thread, with its answer or an error.

        Plain: it never waits. What cannot even be sent raises at once, and `done` is not called.

        Raises:
            ConnectionLostError: the connection is closed, nothing was sent.
            TooManyRequestsError: too much waits already, in flight or for the peer to read; nothing was sent.
        """
        self._send_request(opaque, frame, deadline)
        self._in_flight.add(opaque, deadline, done)

    def give_up(self, opaque: int) -> bool:
        """Forget a request of `start_request`: its `done` is not called any more. False when it was called already."""
        return self._in_flight.forget(opaque)

    def send_oneway(self, command: RemotingCommand) -> None:
        """Send a request that wants no answer. Raises as `start_request`."""
        command.flag |= ONEWAY_FLAG
        self._prepare(command)
        self.send_frame(encode_command(command, limits=self._limits.wire))
        if self.hooks:
            hook_after(self.hooks, self.address, command, None)

    def send_frame(self, frame: bytes) -> None:
        """Send a prebuilt frame of a one-way request. Raises as `start_request`."""
        self._check_open()
        self._check_output()
        self._transport.append(frame)
        self._transport.flush_soon()

    @property
    def is_full(self) -> bool:
        """Whether more waits for the peer to read than may be added to without waiting."""
        return self._transport.pending > self._limits.pending_writes

    async def take_turn(self) -> None:
        """What a task does after each frame that nobody answers, so that it may send them in a loop.

        A cancellation strikes here every time. Other tasks, the one that writes among them, get their turn when some
        frames or some bytes have gathered: a turn of the loop and a write for each frame would cost more than all else.

        Raises:
            ConnectionLostError: the connection is closed.
        """
        self._unanswered += 1
        if self._unanswered < _FRAMES_A_TURN and self._transport.pending < _BYTES_A_TURN:
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        self._unanswered = 0
        await trio.lowlevel.checkpoint()
        self._check_open()

    async def wait_writable(self) -> None:
        """Wait until the peer has read enough for more to be sent. Always a checkpoint.

        Raises:
            ConnectionLostError: the connection is closed.
        """
        await trio.lowlevel.checkpoint()
        while self.is_open and self.is_full:
            await self._transport.wait_progress()
        self._check_open()

    def _prepare(self, command: RemotingCommand) -> None:
        command.opaque = self.next_opaque()
        command.serialize_type = command.serialize_type or self.serialize_type
        if self.hooks:
            hook_before(self.hooks, self.address, command)

    def _send_request(self, opaque: int, frame: bytes, deadline: float) -> None:
        """Write first, register after: nothing can come back in between."""
        if self.error is not None or self.retired:
            self._check_open()
        transport = self._transport
        if transport.pending > self._limits.max_pending_writes:
            self._check_output()
        others = self._in_flight.check(opaque)
        transport.append(frame)
        if others:
            # More will come within this tick: one send for all of them.
            transport.flush_soon()
        else:
            self.flush()
            self._check_open()
        if deadline < self._alarm.when:
            self._alarm.set(deadline)

    async def _wait_writable_until(self, deadline: float) -> None:
        sent = self._transport.sent
        with trio.move_on_at(deadline):
            await self.wait_writable()
            return
        pending, sent = self._transport.pending, self._transport.sent - sent
        if sent:
            text = (
                f"{sent} bytes were sent to {self.address} in the time of this request, and {pending} still wait to "
                "be sent before it: send less at a time, or allow more time; the event loop of this program may be "
                "too busy; this request was not sent"
            )
        else:
            text = f"{self.address} does not read: {pending} bytes wait for it; this request was not sent"
        raise unsent(RequestTimeoutError(text, address=self.address))

    def decode_answer(self, frame: Frame) -> RemotingCommand:
        """What `exchange` has returned. The connection ends with a frame that is not valid.

        Raises:
            RemoteProtocolError: the header is not valid.
        """
        try:
            return decode_command(frame, limits=self._limits.wire)
        except RemoteProtocolError as exc:
            self.close(exc)
            raise

    def flush(self) -> None:
        """Send what has gathered, as far as that goes without waiting."""
        if self.error is None:
            self._flush_output()

    def _flush_output(self) -> None:
        try:
            self._transport.flush_now()
        except ConnectionLostError as exc:
            self.close(exc)

    def _check_open(self) -> None:
        if self.error is not None:
            text = f"the connection to {self.address} is closed, nothing was sent: {self.error}"
            raise unsent(ConnectionLostError(text, address=self.address)) from self.error
        if self.retired:
            text = (
                f"the connection to {self.address} takes no more requests, nothing was sent: the peer asked us to go"
                " away and to connect again"
            )
            raise unsent(ConnectionLostError(text, address=self.address))

    def _check_output(self) -> None:
        if self._transport.pending > self._limits.max_pending_writes:
            raise TooManyRequestsError(
                f"{self._transport.pending} bytes wait for {self.address} to read them: send more slowly"
            )
