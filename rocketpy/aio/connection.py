"""A data connection in the user's event loop: what its tasks send leaves, and is answered, without another thread.

A Protocol of asyncio over the core that it shares with the connections of threads. Frames of one turn of the loop leave
in one write; one timer watches over all deadlines.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from rocketpy.errors import ConnectionLostError, RemoteProtocolError, RequestTimeoutError, RocketMQError, unsent
from rocketpy.remoting.data.waiting import Answer, WaitingRequests
from rocketpy.remoting.limits import too_slow
from rocketpy.remoting.rounds import Slice, thread_clock

if TYPE_CHECKING:
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.limits import ConnectionLimits
    from rocketpy.wire.codes import SerializeType
    from rocketpy.wire.command import RemotingCommand

__all__ = ["LoopConnection"]

_LATE = 0.05
"""Seconds of delay from which on the loop counts as busy: then received data is read before any request times out."""


class _Answer:
    """A request whose task awaits a future, which holds the answer or the error in the place of it."""

    __slots__ = ("deadline", "future")

    def __init__(self, deadline: float, future: asyncio.Future[Answer | RocketMQError]) -> None:
        self.deadline = deadline
        self.future = future

    def complete(self, result: Answer | RocketMQError) -> None:
        """Wake the task."""
        if not self.future.done():
            self.future.set_result(result)


class LoopConnection(asyncio.Protocol):
    """A link to one broker. All of it is for the loop, save `is_usable` and `retire`.

    Args:
        loop: whose tasks send.
        address: of the peer as "host:port".
        limits: bounds.
        serialize_type: how headers are encoded.
        hooks: what signs requests.
        clock: of the client, in seconds.
        on_requests: gets the requests of the peer.

    Attributes:
        error: why it ended, None while it is open.
        retired: whether it takes no requests any more.
        uses: how often it was asked for.
        sent_bytes: given to the loop, which writes them as soon as the kernel takes them.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: str,
        *,
        limits: ConnectionLimits,
        serialize_type: SerializeType,
        hooks: Sequence[RequestHook],
        clock: Callable[[], float],
        on_requests: Callable[[list[RemotingCommand]], object],
    ) -> None:
        self.address = address
        self.serialize_type = serialize_type
        self.hooks = tuple(hooks)
        self.error: RocketMQError | None = None
        self.retired = False
        self.uses = 0
        self.sent_bytes = 0
        self._loop = loop
        self._limits = limits
        self._clock = clock
        self._on_requests = on_requests
        self._waiting = WaitingRequests(limits.wire, scan=not hooks)
        self._slots = self._waiting.slots
        self._transport: asyncio.Transport | None = None
        self._time_slice = Slice(thread_clock())
        self._frames: list[bytes] = []
        self._paused = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = math.inf
        self._overdue_since = 0.0
        self.next_opaque = self._waiting.next_opaque

    @property
    def received_bytes(self) -> int:
        """Bytes from the peer, since the beginning."""
        return self._waiting.received_bytes

    # --- what asyncio calls ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is connected."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Complete those whose answers came."""
        self._overdue_since = 0.0
        self._take(data)

    def _take(self, data: bytes = b"") -> None:
        """Process received bytes. If a peer sends many requests, the rest waits for the next turn of the loop."""
        if self.error is not None or self._transport is None:
            return
        self._time_slice.begin()
        was_behind = self._waiting.has_more
        try:
            requests = self._waiting.take(data, self._time_slice)
        except RemoteProtocolError as exc:
            self.close(exc)
            return
        if requests:
            self._on_requests(requests)
        if self._waiting.has_more:
            self._transport.pause_reading()
            self._loop.call_soon(self._take)
        elif was_behind:
            self._transport.resume_reading()
        self._close_settled()

    def pause_writing(self) -> None:
        """The peer reads too slowly."""
        self._paused = True

    def resume_writing(self) -> None:
        """It has caught up."""
        self._paused = False

    def eof_received(self) -> None:
        """The peer has closed."""
        self.close(ConnectionLostError(f"{self.address} closed the connection", address=self.address))

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, by us or by the peer."""
        self.close(
            ConnectionLostError(
                f"the connection to {self.address} broke: {exc or 'it was closed'}", address=self.address
            )
        )

    # --- requests --------------------------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent now."""
        return (
            self.error is None
            and not self.retired
            and not self._paused
            and self._transport is not None
            and len(self._slots) < self._limits.max_in_flight
        )

    def start_request(self, opaque: int, frame: bytes, deadline: float) -> asyncio.Future[Answer | RocketMQError]:
        """Send a frame; the future holds its answer, or the error in the place of it.

        A task that stops waiting for the future says so with `give_up`.

        Raises:
            ConnectionLostError: the connection is closed, nothing was sent.
        """
        future: asyncio.Future[Answer | RocketMQError] = self._loop.create_future()
        slots = self._slots
        self._send(frame, alone=not slots)
        slots[opaque] = _Answer(deadline, future)
        if deadline < self._alarm_at:
            self._set_alarm(deadline)
        return future

    def give_up(self, opaque: int) -> bool:
        """Forget a request. False when it has ended."""
        known = self._waiting.forget(opaque)
        self._close_settled()
        return known

    def send_frame(self, frame: bytes) -> None:
        """Send a frame that nobody answers.

        Raises:
            ConnectionLostError: the connection is closed, nothing was sent.
        """
        self._send(frame, alone=False)

    def _send(self, frame: bytes, *, alone: bool) -> None:
        transport = self._transport
        if self.error is not None or self.retired or transport is None:
            raise unsent(
                ConnectionLostError(
                    f"the connection to {self.address} is closed, nothing was sent: {self.error or 'it was retired'}",
                    address=self.address,
                )
            ) from self.error
        if self._frames:
            self._frames.append(frame)
        elif alone:
            self.sent_bytes += len(frame)
            transport.write(frame)  # nobody else is under way: what comes next comes later
        else:
            self._frames.append(frame)
            self._loop.call_soon(self._flush)

    def send_answer(self, frame: bytes) -> None:
        """Answer a request of the peer. A peer that does not read its answers is disconnected."""
        if self.error is not None or self._transport is None:
            return
        pending = self._transport.get_write_buffer_size()
        if pending > self._limits.max_pending_writes:
            self.close(too_slow(self.address, pending))
            return
        if not self._frames:
            self._loop.call_soon(self._flush)
        self._frames.append(frame)

    def _flush(self) -> None:
        frames, self._frames = self._frames, []
        if self._transport is not None and self.error is None:
            data = frames[0] if len(frames) == 1 else b"".join(frames)
            self.sent_bytes += len(data)
            self._transport.write(data)

    def __len__(self) -> int:
        """How many requests wait for answers."""
        return len(self._slots)

    # --- deadlines -------------------------------------------------------------------------------------

    def _set_alarm(self, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = when
        self._alarm = self._loop.call_later(max(0.0, when - self._clock()), self._ring)

    def _ring(self) -> None:
        if self._clock() - self._alarm_at > _LATE:
            self._loop.call_later(0, self._sweep)  # a turn of the loop later, with the reading before it
        else:
            self._sweep()

    def _sweep(self) -> None:
        now = self._clock()
        self._alarm, self._alarm_at = None, math.inf
        self._waiting.earliest = -math.inf
        if self._waiting.sweep(now, self._timed_out):
            self._note_timeout(now)
        if self._slots:
            self._set_alarm(self._waiting.earliest)
        self._close_settled()

    def _note_timeout(self, now: float) -> None:
        limit = self._limits.silence_timeout
        if not self._overdue_since:
            self._overdue_since = now
        if not self._waiting.received_bytes:
            # Perhaps nobody has accepted it: the kernel does that for a server that cannot.
            text = f"{self.address} took the connection and has never sent anything"
            self.close(ConnectionLostError(text, address=self.address))
        elif limit is not None and now - self._overdue_since >= limit:
            text = f"{self.address} has sent nothing for {limit:g} s although answers are due"
            self.close(ConnectionLostError(text, address=self.address))

    def _timed_out(self) -> RequestTimeoutError:
        return RequestTimeoutError(
            f"no answer from {self.address} in time; the request may or may not have been carried out",
            address=self.address,
        )

    # --- lifetime --------------------------------------------------------------------------------------

    def retire(self) -> None:
        """Take no more requests, and close when those that wait are answered. Thread-safe."""
        self.retired = True
        with suppress(RuntimeError):  # the loop is closed, and the socket with it
            self._loop.call_soon_threadsafe(self._close_settled)

    def on_go_away(self) -> None:
        """The peer has asked us to go away."""
        self.retire()

    def shut(self) -> None:
        """Close at once. Thread-safe."""
        with suppress(RuntimeError):  # the loop is closed, and the socket with it
            self._loop.call_soon_threadsafe(self.close)

    def _close_settled(self) -> None:
        if self.retired and not self._slots:
            self.close()

    def close(self, error: RocketMQError | None = None) -> None:
        """Close at once: waiting requests get ConnectionLostError. Idempotent."""
        if self.error is not None:
            return
        self.error = error or ConnectionLostError(
            f"the connection to {self.address} was closed on this side", address=self.address
        )
        if self._alarm is not None:
            self._alarm.cancel()
        if self._transport is not None:
            # A peer that does not read would be waited for, without end, until it has taken what is left for it.
            self._transport.abort() if self._slots or self._paused else self._transport.close()
        self._waiting.fail_all(self._lost_while_waiting)

    def _lost_while_waiting(self) -> ConnectionLostError:
        error = ConnectionLostError(
            f"the connection to {self.address} closed before the answer arrived; the request may or may not have been "
            f"carried out: {self.error}",
            address=self.address,
        )
        error.__cause__ = self.error
        return error
