"""The part of a connection that asks its peer: requests of ours, in flight and one-way.

`exchange` is the hot path and as short as it gets: a test for cancellation, a frame into the output, a slot in the
table, and the task parks. A frame goes straight to the kernel when nobody else is under way; otherwise more will come
within the same tick, and the writer task sends them all at once. Plays the part of invokeSync, invokeAsync and
invokeOneway.
"""

from __future__ import annotations

from collections.abc import Callable
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
from rocketpy.wire.codes import ONEWAY_FLAG
from rocketpy.wire.frame import Frame
from rocketpy.wire.serialize import decode_command, encode_command

if TYPE_CHECKING:
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.in_flight import Done
    from rocketpy.remoting.link import Link
    from rocketpy.wire.codes import SerializeType
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.fast_answer import SendAnswer

__all__ = ["Outbound"]

_FRAMES_A_TURN = 32
_BYTES_A_TURN = 64 * 1024


class Outbound:
    """Sends requests of ours and waits for their answers, on one connection. `Connection` offers its functions.

    Args:
        link: what it shares with the other parts of the connection.
        hooks: what wants to see typed requests; who sends prebuilt frames must do without.
        serialize_type: how headers are encoded where a command does not say it itself.
        close: ends the connection with an error, at once.

    Attributes:
        next_opaque: Returns the number for the next request; nothing else that waits on this connection has it.
    """

    def __init__(
        self,
        link: Link,
        hooks: tuple[RequestHook, ...],
        serialize_type: SerializeType,
        close: Callable[[RocketMQError], object],
    ) -> None:
        self._link = link
        self._hooks = hooks
        self._serialize_type = serialize_type
        self._close = close
        self._address = link.address
        self._transport = link.transport
        self._alarm = link.alarm
        self._limits = link.limits
        self._in_flight = link.in_flight
        self.next_opaque = link.in_flight.next_opaque
        self._unanswered = 0

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
            error = RequestTimeoutError(text, address=self._address, timeout=timeout)
            error.nothing_sent = exc.nothing_sent
            raise error from None
        answer = self.decode_answer(reply)
        if self._hooks:
            hook_after(self._hooks, self._address, command, answer)
        return answer

    @trio.lowlevel.enable_ki_protection  # or Ctrl-C may leave a slot that wakes the task from what it does next
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

    @trio.lowlevel.enable_ki_protection
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
        if self._hooks:
            hook_after(self._hooks, self._address, command, None)

    @trio.lowlevel.enable_ki_protection  # or Ctrl-C may leave a writer task that nobody wakes any more
    def send_frame(self, frame: bytes) -> None:
        """Send a prebuilt frame of a one-way request. Raises as `start_request`."""
        self._check_open()
        self._check_output()
        self._transport.append(frame)
        self._transport.flush_soon()

    async def checkpoint_if_due(self) -> None:
        """What a task does after each frame that nobody answers, so that it may send them in a loop.

        A cancellation strikes here every time. Other tasks, the one that writes among them, get their turn when some
        frames or some bytes have gathered: a turn of the loop and a write for each frame would cost more than all else.

        Raises:
            ConnectionLostError: the connection was closed after the frame was written.
        """
        self._unanswered += 1
        if self._unanswered < _FRAMES_A_TURN and self._transport.pending < _BYTES_A_TURN:
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        self._unanswered = 0
        await trio.lowlevel.checkpoint()
        self._check_kept()

    async def wait_writable(self) -> None:
        """Wait until the peer has read enough of what was sent for more to be sent. Always a checkpoint.

        Raises:
            ConnectionLostError: the connection is closed.
        """
        await self._wait_read()
        self._check_kept()

    async def _wait_read(self) -> None:
        await trio.lowlevel.checkpoint()
        while self._link.error is None and self._transport.pending > self._limits.pending_writes:
            await self._transport.wait_progress()

    def _prepare(self, command: RemotingCommand) -> None:
        command.opaque = self.next_opaque()
        command.serialize_type = command.serialize_type or self._serialize_type
        if self._hooks:
            hook_before(self._hooks, self._address, command)

    def _send_request(self, opaque: int, frame: bytes, deadline: float) -> None:
        """Write first, register after: nothing can come back in between."""
        if self._link.error is not None or self._link.retired:
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
            await self._wait_read()
            self._check_open()
            return
        pending, sent = self._transport.pending, self._transport.sent - sent
        if sent:
            text = (
                f"{sent} bytes were sent to {self._address} in the time of this request, and {pending} still wait to "
                "be sent before it: send less at a time, or allow more time; the event loop of this program may be "
                "too busy; this request was not sent"
            )
        else:
            text = f"{self._address} does not read: {pending} bytes wait for it; this request was not sent"
        raise unsent(RequestTimeoutError(text, address=self._address))

    def decode_answer(self, frame: Frame) -> RemotingCommand:
        """What `exchange` has returned. The connection ends with a frame that is not valid.

        Raises:
            RemoteProtocolError: the header is not valid.
        """
        try:
            return decode_command(frame, limits=self._limits.wire)
        except RemoteProtocolError as exc:
            self._close(exc)
            raise

    def flush(self) -> None:
        """Send what has gathered, as far as that goes without waiting."""
        if self._link.error is not None:
            return
        try:
            self._transport.flush_now()
        except ConnectionLostError as exc:
            self._close(exc)

    def _check_open(self) -> None:
        error = self._link.error
        if error is not None:
            text = f"the connection to {self._address} is closed, nothing was sent: {error}"
            raise unsent(ConnectionLostError(text, address=self._address)) from error
        if self._link.retired:
            text = (
                f"the connection to {self._address} takes no more requests, nothing was sent: the peer asked us to go"
                " away and to connect again, or name servers do not know it any more"
            )
            raise unsent(ConnectionLostError(text, address=self._address))

    def _check_kept(self) -> None:
        """For frames that nobody answers, after they were written: the peer may have got them or not."""
        error = self._link.error
        if error is not None:
            text = (
                f"the connection to {self._address} was closed after a message was written to it; whether the last "
                f"message arrives is unknown: {error}"
            )
            raise ConnectionLostError(text, address=self._address) from error

    def _check_output(self) -> None:
        if self._transport.pending > self._limits.max_pending_writes:
            raise TooManyRequestsError(
                f"{self._transport.pending} bytes wait for {self._address} to read them: send more slowly"
            )
