"""The reading half of a connection that threads share: who reads, and who wakes whom.

One party has the role of the reader at a time: a caller that is alone with its request, or the thread of the
connection, which keeps it as long as there is more than one. The right to take bytes out of the socket and to cut
them is another one, which a caller holds for microseconds and never while it waits: so the thread can relieve a caller
that is held up, as the main thread is by a signal handler.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from rocketpy.errors import ConnectionLostError, RemoteProtocolError
from rocketpy.logs import get_logger
from rocketpy.remoting.data.late_thread import LateThread

if TYPE_CHECKING:
    from rocketpy.errors import RocketMQError
    from rocketpy.remoting.data.call import Call
    from rocketpy.remoting.data.waiting import WaitingRequests
    from rocketpy.wire.command import RemotingCommand

__all__ = ["Reading"]

_logger = get_logger(__name__)
_RECEIVE_SIZE = 256 * 1024
_NOW = getattr(socket, "MSG_DONTWAIT", 0)
_STEP = 0.1
"""Seconds that one wait for bytes takes at most, and that the thread waits for a caller that reads."""
_LOOK = 0.5
"""Seconds that one wait for the thread takes at most: only between two waits does Python call signal handlers that the
system has given to another thread."""
_LOOKS = 64
"""Reads, at most, for what has arrived by a deadline: more than a kernel keeps, and a bound for a peer that floods."""
_LONELY = 64
"""Requests answered one by one after which the thread leaves reading to the caller that is alone."""


class ReadConnection(Protocol):
    """What reading asks of the connection that it reads for.

    Attributes:
        address: the peer as "host:port".
        clock: of the client, in seconds.
        silence_timeout: seconds without a byte after which the peer is given up.
        error: why it ended, None while it is open.
    """

    address: str
    clock: Callable[[], float]
    error: RocketMQError | None

    @property
    def silence_timeout(self) -> float | None:
        """Seconds without a byte after which the peer is given up."""

    def close(self, error: RocketMQError | None = None) -> None:
        """Close at once; everyone who waits gets an error."""

    def close_settled(self) -> None:
        """Close if it is retired and nothing waits any more."""

    def dispose(self) -> None:
        """Give the socket back."""

    def timed_out(self) -> RocketMQError:
        """The error of a request without an answer."""


class Reading:
    """Reads for one connection.

    Attributes:
        thread: the thread of the connection.
        active: whether the thread of the connection reads, or is about to.
        last_received: when bytes were last received, on the clock of the client.
    """

    def __init__(
        self,
        connection: ReadConnection,
        link: socket.socket,
        waiting: WaitingRequests,
        inside: set[int],
        on_requests: Callable[[list[RemotingCommand]], object],
    ) -> None:
        self._connection = connection
        self._socket = link
        self._waiting = waiting
        self._slots = waiting.slots
        self._inside = inside
        self._on_requests = on_requests
        self._clock = connection.clock
        self._role = threading.Lock()
        self._cutting = threading.Lock()
        self._call = threading.Lock()
        self._call.acquire()
        self.active = False
        self._closed = False
        self._overdue_since = 0.0
        self.thread = LateThread(self._run, "rocketpy-reader")
        self.last_received = self._clock()
        link.settimeout(None)
        step = struct.pack("ll", 0, int(_STEP * 1e6))
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, step)

    # --- a caller that waits ---------------------------------------------------------------------------

    def wait(self, call: Call) -> None:
        """Wait until a call is completed, or its deadline is over; reads meanwhile when nobody else would."""
        if not self.active and (len(self._slots) <= 1 or self._are_of(call.owner)) and self._role.acquire(False):
            try:
                self._read_until(call)
            finally:
                self._role.release()
                if self._slots and not self._are_of(call.owner):
                    self.call_thread()
            return
        self.call_thread()
        while (left := call.deadline - self._clock()) > 0:
            if call.lock.acquire(timeout=min(left, _LOOK)):
                return

    def _are_of(self, owner: int | None) -> bool:
        """Whether all who wait come for their answers by themselves, in one thread."""
        return owner is not None and all(getattr(each, "owner", None) == owner for each in list(self._slots.values()))

    def _read_until(self, call: Call) -> None:
        poll, clock = select.poll(), self._clock
        number = self._socket.fileno()
        if number < 0:  # closed since the request was entered: who did so completes it
            call.lock.acquire(timeout=max(0.0, call.deadline - clock()))
            return
        poll.register(number, select.POLLIN)
        while call.result is None:
            left = call.deadline - clock()
            if left <= 0:
                return
            if not poll.poll(min(left, _STEP) * 1000):
                continue
            if self._take_here() is None and call.lock.acquire(timeout=0.001):
                return

    def look(self) -> None:
        """Take what has arrived already, without waiting for more."""
        for _ in range(_LOOKS):
            if self._connection.error is not None or not self._take_here():
                return

    def is_alive(self) -> bool:
        """Whether the peer has not closed the connection while it was quiet."""
        self._take_here()
        return self._connection.error is None

    # --- taking bytes ----------------------------------------------------------------------------------

    def _take_here(self) -> bool | None:
        """Take bytes in the thread of a caller; whether there were any, None when another thread takes some."""
        me = threading.get_ident()
        if me in self._inside:
            return None  # a signal handler or a finalizer, within these very lines
        self._inside.add(me)
        try:
            return self._cut() if self._cutting.acquire(False) else None
        except BaseException as exc:
            # Ctrl-C, or what else a signal handler raises, within these lines: what was read may be lost.
            self._connection.close(self._lost(exc))
            raise
        finally:
            self._inside.discard(me)

    def _cut(self, flags: int = _NOW) -> bool:
        """Take bytes and deal with them; whether there were any. Gives the right back that its caller took."""
        requests: list[RemotingCommand] = []
        try:
            data = self._socket.recv(_RECEIVE_SIZE, flags)
            if data:
                self.last_received = self._clock()
                self._overdue_since = 0.0
                requests = self._waiting.take(data)
            else:
                self._connection.close(self._ended())
        except (BlockingIOError, InterruptedError):
            return False
        except RemoteProtocolError as exc:
            self._connection.close(exc)
        except OSError as exc:
            self._connection.close(self._lost(exc))
        finally:
            self._cutting.release()
            if self._connection.error is not None:
                self._connection.dispose()
        if requests:
            self._on_requests(requests)
        self._connection.close_settled()
        return True

    def note_timeout(self) -> None:
        """A request ran out of time: a peer that sends nothing at all for long is taken for dead."""
        now, limit = self._clock(), self._connection.silence_timeout
        if not self._overdue_since:
            self._overdue_since = now
        if not self._waiting.received_bytes:
            # Perhaps nobody has accepted it: the kernel does that for a server that cannot.
            address = self._connection.address
            self._connection.close(
                ConnectionLostError(f"{address} took the connection and has never sent anything", address=address)
            )
        elif limit is not None and now - self._overdue_since >= limit:
            address = self._connection.address
            self._connection.close(
                ConnectionLostError(
                    f"{address} has sent nothing for {limit:g} s although answers are due", address=address
                )
            )

    # --- the thread of the connection ------------------------------------------------------------------

    def call_thread(self) -> None:
        """Have the thread of the connection read. Never waits."""
        if self.active:
            return
        try:
            self.thread.begin()
        except BaseException as exc:
            # Usually no thread could be started. No thread would read the answers, so pending requests fail here, and
            # are sent in another way.
            self._connection.close(self._lost(exc))
            if not isinstance(exc, RuntimeError):
                raise
        self.active = (
            True  # not earlier: a finalizer that runs before this may have to call the thread, and wait for it
        )
        self._awaken()

    def _awaken(self) -> None:
        with suppress(RuntimeError):  # called already
            self._call.release()

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as exc:
            _logger.exception("the thread that reads from %s failed", self._connection.address)
            self._connection.close(self._lost(exc))

    def _serve(self) -> None:
        while not self._closed:
            self._call.acquire()
            # A caller that reads is not waited for long: a signal handler may have struck there, and wait for us.
            relieved = not self._role.acquire(timeout=_STEP)
            try:
                self._read_on()
            finally:
                if not relieved:
                    self._role.release()
        self._awaken()  # wakes a second thread, if there is one: see LateThread

    def _read_on(self) -> None:
        """Read as long as there is something to wait for, and a little longer: more of it comes as a rule."""
        lonely = 0
        while not self._closed:
            before = self._waiting.answers
            if not self._cutting.acquire(timeout=_STEP):
                continue
            came = self._cut(0)
            self._sweep()
            lonely = lonely + 1 if came and self._waiting.answers - before <= 1 and len(self._slots) <= 0 else 0
            if self._slots or (came and lonely < _LONELY):
                continue
            self.active = False
            if not self._slots:
                return
            self.active = True

    def _sweep(self) -> None:
        if self._clock() < self._waiting.earliest:
            return
        for _ in range(_LOOKS):  # what has arrived counts, however late we come to read it
            if not self._cutting.acquire(False) or not self._cut():
                break
        if self._waiting.sweep(self._clock(), self._connection.timed_out):
            self.note_timeout()
            self._connection.close_settled()

    def close(self) -> None:
        """Let the thread end."""
        self._closed = True
        self._awaken()

    def try_hold(self) -> bool:
        """Take the right to take bytes. False when somebody has it."""
        return self._cutting.acquire(False)

    def let_go(self) -> None:
        """Give it back."""
        self._cutting.release()

    def _ended(self) -> ConnectionLostError:
        address = self._connection.address
        return ConnectionLostError(f"{address} closed the connection", address=address)

    def _lost(self, exc: BaseException) -> ConnectionLostError:
        address = self._connection.address
        return ConnectionLostError(f"the connection to {address} broke: {exc!r}", address=address)
