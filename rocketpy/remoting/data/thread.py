"""A data connection that any number of threads share.

Every sender appends its frame, and one of them writes for all (`output`). A caller that is alone reads for itself,
which spares a switch of threads. As soon as there are more, or a request has nobody who waits for it, a thread of the
connection reads (`reading`). No lock is held while anybody waits, so a signal handler or a finalizer finds nothing
locked for long. Where it strikes within the few lines that must not be entered twice, `is_mine` says so, and its call
takes another way.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rocketpy.errors import (
    ConnectionLostError,
    RequestTimeoutError,
    RocketMQError,
    unsent,
)
from rocketpy.remoting.data.call import Call
from rocketpy.remoting.data.output import ThreadOutput
from rocketpy.remoting.data.reading import Reading
from rocketpy.remoting.data.waiting import Answer, WaitingRequest, WaitingRequests
from rocketpy.remoting.fork import no_fork
from rocketpy.remoting.limits import too_slow

if TYPE_CHECKING:
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.limits import ConnectionLimits
    from rocketpy.wire.codes import SerializeType
    from rocketpy.wire.command import RemotingCommand

__all__ = ["ThreadConnection"]

_QUIET = 0.05
"""Seconds without a byte after which a peer may have closed the connection without our having noticed."""


class ThreadConnection:
    """A link to one broker, over a socket that is connected.

    Args:
        connection: the socket; it belongs to this object from now on.
        address: of the peer as "host:port".
        limits: bounds.
        serialize_type: how headers are encoded.
        hooks: what signs requests.
        clock: of the client, in seconds.
        on_requests: gets the requests of the peer, in the thread that reads; must not block.

    Attributes:
        error: why it ended, None while it is open.
        retired: whether it takes no requests any more.
        uses: how often it was asked for.
    """

    def __init__(
        self,
        connection: socket.socket,
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
        self.clock = clock
        self.error: RocketMQError | None = None
        self.retired = False
        self.uses = 0
        self._socket = connection
        self._limits = limits
        self._waiting = WaitingRequests(limits.wire, scan=not hooks)
        self._slots = self._waiting.slots
        self._inside: set[int] = set()
        self._output = ThreadOutput(connection, address, self._inside, self.close, self.dispose)
        self._reading = Reading(self, connection, self._waiting, self._inside, on_requests)
        self.next_opaque = self._waiting.next_opaque

    @property
    def silence_timeout(self) -> float | None:
        """Seconds without a byte, while answers are due, after which the peer is taken for dead."""
        return self._limits.silence_timeout

    @property
    def sent_bytes(self) -> int:
        """Bytes that the kernel has taken."""
        return self._output.sent

    @property
    def received_bytes(self) -> int:
        """Bytes from the peer."""
        return self._waiting.received_bytes

    # --- requests --------------------------------------------------------------------------------------

    @property
    def is_mine(self) -> bool:
        """Whether this very thread was interrupted within the lines that write or read here."""
        me = threading.get_ident()
        return me in self._inside or me in self._reading.thread.idents or me in self._output.flusher.thread.idents

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent; looks whether the peer has closed, when it has been quiet."""
        if self.error is not None or self.retired or self._output.pending > self._limits.pending_writes:
            return False
        if len(self._slots) >= self._limits.max_in_flight:
            return False
        if self._slots or self.clock() - self._reading.last_received < _QUIET:
            return True
        return self._reading.is_alive()

    def exchange(self, opaque: int, frame: bytes, deadline: float) -> Answer:
        """Send a frame and wait for the frame that answers it.

        Raises:
            ConnectionLostError: the connection ended.
            RequestTimeoutError: no answer by the deadline; whether the request was carried out is unknown.
        """
        call = Call(deadline)
        self._send(opaque, frame, call)
        self._output.flush()
        return self.end(opaque, call)

    def begin(self, frames: Sequence[tuple[int, bytes]], deadline: float) -> list[Call]:
        """Send frames, each with its opaque. This thread calls `end` or `give_up` for each of them soon.

        Nobody may read the answers until then.

        Raises:
            ConnectionLostError: the connection is closed, or was retired; nobody waits for any of the answers.
        """
        me = threading.get_ident()
        calls = []
        try:
            for opaque, frame in frames:
                call = Call(deadline, me)
                self._send(opaque, frame, call)
                calls.append(call)
            self._output.flush()
        except BaseException:  # retired meanwhile, or Ctrl-C: a connection with requests left would never be closed
            for opaque, _ in frames:
                self._waiting.forget(opaque)
            self.close_settled()
            raise
        return calls

    def end(self, opaque: int, call: Call) -> Answer:
        """Wait for the frame that answers a call. Raises what `exchange` raises."""
        try:
            if call.result is None:
                self._reading.wait(call)
        except BaseException:
            self._slots.pop(opaque, None)
            self.close_settled()
            raise
        result = call.result
        if result is None:
            result = self._ran_out(opaque, call)
        if isinstance(result, RocketMQError):
            raise result
        return result

    def start_request(self, opaque: int, frame: bytes, slot: WaitingRequest) -> None:
        """Send a frame soon; the slot is completed once.

        Raises:
            ConnectionLostError: the connection is closed, nothing was sent.
        """
        self._send(opaque, frame, slot)
        self._output.flush_later()
        if not self._reading.active:
            self._reading.call_thread()

    def flush(self) -> None:
        """Write what has gathered, and have answers read, because the caller is about to wait for them.

        The caller may be a finalizer that has interrupted `start_request`, which cannot continue until it returns.
        """
        self._output.flush()
        if self._slots:
            self._reading.call_thread()

    def send_frame(self, frame: bytes) -> None:
        """Send a frame that nobody answers.

        Raises:
            ConnectionLostError: the connection is closed, nothing was sent.
        """
        self._check_open()
        self._output.append(frame)
        self._output.flush_later()

    def send_answer(self, frame: bytes) -> None:
        """Answer a request of the peer. A peer that does not read its answers is disconnected."""
        if self._output.pending > self._limits.max_pending_writes:
            self.close(too_slow(self.address, self._output.pending))
        elif self.error is None:
            self._output.append(frame)
            self._output.flush_later()

    def give_up(self, opaque: int) -> bool:
        """Forget a request. False when it has ended."""
        known = self._waiting.forget(opaque)
        self.close_settled()
        return known

    def __len__(self) -> int:
        """How many requests wait for answers."""
        return len(self._slots)

    def _send(self, opaque: int, frame: bytes, slot: WaitingRequest) -> None:
        """Register, then append: an answer cannot come before the frame is written."""
        if self.error is not None or self.retired:
            self._check_open()
        self._slots[opaque] = slot
        if slot.deadline < self._waiting.earliest:
            self._waiting.earliest = slot.deadline
        if self.error is not None and self._slots.pop(opaque, None) is not None:
            self._check_open()  # closed meanwhile, perhaps by somebody who has not seen the slot
        self._output.append(frame)  # others may write it at once; who closes from here on sees the slot

    def _check_open(self) -> None:
        if self.error is not None or self.retired:
            raise unsent(
                ConnectionLostError(
                    f"the connection to {self.address} is closed, nothing was sent: {self.error or 'it was retired'}",
                    address=self.address,
                )
            ) from self.error

    def _ran_out(self, opaque: int, call: Call) -> Answer | RocketMQError:
        """The deadline is over: what has arrived already counts all the same."""
        self._reading.look()
        if self._slots.pop(opaque, None) is None:
            call.lock.acquire()  # somebody completes it at this moment
            if call.result is not None:
                return call.result
        self._reading.note_timeout()
        self.close_settled()
        return self.timed_out()

    def timed_out(self) -> RequestTimeoutError:
        """What those get whose answers do not come in time."""
        return RequestTimeoutError(
            f"no answer from {self.address} in time; the request may or may not have been carried out",
            address=self.address,
        )

    # --- lifetime --------------------------------------------------------------------------------------

    def retire(self) -> None:
        """Take no more requests, and close when those that wait are answered."""
        self.retired = True
        self.close_settled()

    def close_settled(self) -> None:
        """Close if it was retired and nobody waits any more."""
        if self.retired and not self._slots:
            self.close()

    def on_go_away(self) -> None:
        """The peer has asked us to go away."""
        self.retire()

    def shut(self) -> None:
        """Close at once."""
        self.close()

    def close(self, error: RocketMQError | None = None) -> None:
        """Close at once: those who wait get ConnectionLostError. Thread-safe and idempotent."""
        if self.error is not None:
            return
        self.error = error or ConnectionLostError(
            f"the connection to {self.address} was closed on this side", address=self.address
        )
        self._output.close()
        with suppress(OSError):  # it is broken already
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the reader
        self._waiting.fail_all(self._lost_while_waiting)
        self._reading.close()
        self.dispose()

    def dispose(self) -> None:
        """Close the socket itself as soon as no thread is in a call on it: its number may be given to another one."""
        while self.error is not None and self._reading.try_hold():
            try:
                free = self._output.try_hold()
                if free:
                    with no_fork():
                        self._socket.close()
                    self._output.let_go()
            finally:
                self._reading.let_go()
            if free or self._output.is_held:
                return  # the thread that writes comes here when it has ended

    def _lost_while_waiting(self) -> ConnectionLostError:
        error = ConnectionLostError(
            f"the connection to {self.address} closed before the answer arrived; the request may or may not have been "
            f"carried out: {self.error}",
            address=self.address,
        )
        error.__cause__ = self.error
        return error
