"""The receiving half of a connection: bytes to frames, answers to their waiters, requests to the handler in turns.

Requests are handed over by up to 64, and while the peer owes us room (too many parked requests, or answers that it does
not read) nothing more is handed over and nothing more is read. On a server a turn is bounded by processor time too: see
`rounds`. Plays the part of NettyDecoder and NettyServerHandler.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NoReturn, Protocol

import trio

from rocketpy.errors import ConnectionLostError, RemoteProtocolError
from rocketpy.logs import get_logger
from rocketpy.remoting.rounds import LITTLE, SLICE_SECONDS
from rocketpy.remoting.transport import MOST_RECEIVED
from rocketpy.wire.codes import ONEWAY_FLAG, RESPONSE_FLAG, ResponseCode
from rocketpy.wire.fast_answer import peek
from rocketpy.wire.frame import Frame, FrameDecoder
from rocketpy.wire.send_layout import SendReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketpy.remoting.connection import Connection
    from rocketpy.remoting.in_flight import InFlight
    from rocketpy.remoting.limits import ConnectionLimits
    from rocketpy.remoting.rounds import RoundShare
    from rocketpy.remoting.transport import Transport
    from rocketpy.wire.command import RemotingCommand

__all__ = ["Handler", "Inbound"]

_logger = get_logger(__name__)
_OVERHEAD = 1024
"""Bytes that a request takes besides its body."""
_GROUP = 16
"""Frames that a server decodes between two looks at the time."""
_CHUNK = 64 * 1024
"""Bytes that a server receives at a time while time is short, but for a large frame that has begun."""
_LONG_HEADER = 2048
"""Bytes of a header after which the next frame is a group of its own."""


class Handler(Protocol):
    """Takes the requests of a peer."""

    def handle(self, connection: Connection, requests: list[RemotingCommand], arrived: float) -> int | None:
        """Carry out the requests of one chunk, in order; `arrived` is their time on trio's clock.

        Plain, and never blocking. Answers go through ``connection.send_answer``, in this call or later; those of this
        call leave in one write. Between two requests a handler asks ``connection.has_room()``: when there is none, it
        stops and returns how many it has dealt with, and gets the others again once the peer has read; so it does when
        the time is up, by ``connection.has_time()`` or by its own reckoning. None means all.
        """
        ...


class Inbound:
    """Reads for one connection, until its peer ends or breaks it."""

    def __init__(
        self,
        connection: Connection,
        transport: Transport,
        in_flight: InFlight,
        handler: Handler,
        limits: ConnectionLimits,
        share: RoundShare | None = None,
    ) -> None:
        self._connection = connection
        self._transport = transport
        self._in_flight = in_flight
        self._handler = handler
        self._limits = limits
        self._share = share
        self._began = 0.0  # this turn, in processor time
        self._was_let_go = False
        self._delivered = 0  # bytes that were there when this chunk had come
        self._group = limits.frames_per_turn if share is None else 1
        self._decoder = FrameDecoder(limits.wire)
        self._reader = SendReader(limits.wire)
        self._scope = trio.CancelScope()
        self._room = trio.lowlevel.ParkingLot()
        self._bad: RemoteProtocolError | None = None
        self.last_received = trio.current_time()
        self.frame_due = math.inf
        """When the frame that has begun must be complete."""
        self.serving = False
        """Whether the handler runs: its answers are kept back until it returns."""
        self.parked = 0
        """Requests that the handler took and has not answered."""
        self.in_hand = 0
        """Bytes of requests that wait to be handed over."""
        self.held = False
        """Whether the handler wants no other request for now."""
        self.received_bytes = 0
        self.requests = 0
        self.answers = 0
        self.unknown_answers = 0

    @property
    def unparsed(self) -> int:
        """Bytes of frames that are not whole yet."""
        return self._decoder.buffered

    @property
    def taken(self) -> int:
        """Another number whenever something was read or dealt with."""
        return self.received_bytes + self.requests + self.answers + self.unknown_answers

    def stop(self) -> None:
        """Read no more; what the handler has taken goes on."""
        self._scope.cancel()

    def note_answered(self, count: int = 1) -> None:
        """Requests that the handler took have got their answers."""
        self.parked = max(0, self.parked - count)
        if self._room:
            self._room.unpark_all()

    def release(self) -> None:
        """The handler takes requests again."""
        self.held = False
        self._room.unpark_all()

    def drop(self) -> None:
        """Keep nothing of what has been read and not dealt with: the connection is closed."""
        self._decoder.drop()

    def wake(self) -> None:
        """The connection is closed: let everybody go on who waits."""
        self._room.unpark_all()

    async def wait_answered(self) -> None:
        """Wait until some parked request is answered."""
        await self._room.park()

    async def run(self) -> None:
        """Read until `stop` is called.

        Raises:
            ConnectionLostError: the peer has closed, or the stream is broken.
            RemoteProtocolError: the peer sent bytes that are not valid.
        """
        with self._scope:
            await self._read()

    async def _read(self) -> NoReturn:
        while True:
            data = await self._transport.receive()
            if not data:
                raise self._ended()
            now = trio.current_time()
            self.last_received = now
            self.received_bytes += len(data)
            self._decoder.receive_data(data)
            await self._take(now)
            if self._share is not None:
                # What waits for its turn is kept: while time is short a chunk is no larger than what a frame lacks.
                begun = self._decoder.buffered
                self._transport.most_received = MOST_RECEIVED if begun > LITTLE or not self._share.is_short else _CHUNK

    async def _take(self, now: float) -> None:
        """Deal with every whole frame there is, a turn at a time."""
        share = self._share
        self._delivered = self._decoder.buffered
        while True:
            most = self._limits.frames_per_turn
            if share is not None:
                if share.is_short and self._decoder.is_ready:
                    self.frame_due = math.inf
                    most = await self._wait_for_share(share, (), most)
                self._began = share.clock()
            requests, is_more = self._decode(most)
            if requests:
                await self._serve(requests, now)
            elif share is not None:
                self._end_turn(share)
            if self._bad is not None:
                raise self._bad
            if not is_more:
                break
            await trio.lowlevel.checkpoint()
        self._watch_frame()

    def _decode(self, most: int) -> tuple[list[RemotingCommand], bool]:
        """The requests among the next frames, of which there are so many at most; and whether there may be more."""
        requests: list[RemotingCommand] = []
        share, decoder, left = self._share, self._decoder, most
        end = self._began + SLICE_SECONDS
        while True:
            frames = self._cut(min(left, self._group))
            if not frames:
                return requests, False
            self.frame_due = math.inf
            requests += self._sort(frames)
            left -= len(frames)
            if self._bad is not None or not decoder.buffered:
                return requests, False
            if share is not None:
                self._group = _GROUP if len(frames[-1].header) <= _LONG_HEADER else 1
                if share.clock() >= end:
                    return requests, True
            if not left:
                return requests, True

    def has_time(self) -> bool:
        """Whether another request may be begun in this turn."""
        return self._share is None or self._share.clock() < self._began + 2 * SLICE_SECONDS

    def _end_turn(self, share: RoundShare) -> None:
        seconds = share.clock() - self._began
        if self._was_let_go:
            self._was_let_go = False
            share.note_let_go(seconds)
        else:
            share.note(seconds)

    async def _wait_for_share(self, share: RoundShare, requests: Sequence[RemotingCommand], most: int) -> int:
        """Wait for this connection's turn while time is short; how many requests may be carried out then.

        Args:
            share: what there is for all connections.
            requests: those that are decoded already.
            most: as many as there are for a turn.
        """
        if self._delivered <= LITTLE:
            return 1
        self.in_hand = _size_of(requests)
        self._connection.note_kept()
        await share.wait()
        self._was_let_go = True
        self.in_hand = 0
        self._connection.note_kept()
        return most

    def _cut(self, turn: int) -> list[Frame]:
        try:
            return self._decoder.frames(turn)
        except RemoteProtocolError as exc:
            self._bad = exc
            return []

    def _watch_frame(self) -> None:
        """A frame that has begun gets its time to be completed, from now: we may have been the slow ones so far."""
        if self._decoder.buffered and self.frame_due == math.inf and self._limits.frame_timeout is not None:
            self.frame_due = trio.current_time() + self._limits.frame_timeout
        self._connection.note_received(self.frame_due)

    def _sort(self, frames: list[Frame]) -> list[RemotingCommand]:
        """Complete those who wait for answers; the requests are left. Stops at a header that is not valid."""
        requests: list[RemotingCommand] = []
        in_flight, read = self._in_flight, self._reader.read
        try:
            for frame in frames:
                # A server waits for no answers most of the time: it need not look before it decodes.
                if len(in_flight):
                    opaque, flag, _ = peek(frame)
                    if flag & RESPONSE_FLAG:
                        if in_flight.answer(opaque, frame):
                            self.answers += 1
                        else:
                            self.unknown_answers += 1
                        continue
                command = read(frame)
                if command.flag & RESPONSE_FLAG:
                    self.unknown_answers += 1
                else:
                    requests.append(command)
        except RemoteProtocolError as exc:
            self._bad = exc
        self.requests += len(requests)
        return requests

    async def _serve(self, requests: list[RemotingCommand], arrived: float) -> None:
        """Hand requests over, as many as there is room and time for at a time."""
        share = self._share
        most = len(requests)
        while True:
            if not self._has_room():
                if share is not None:
                    self._end_turn(share)
                await self._wait_for_room(requests)
                if share is not None:
                    self._began = share.clock()
            taken = self._hand_over(requests[:most] if most < len(requests) else requests, arrived)
            if share is not None:
                self._end_turn(share)
            if taken >= len(requests):
                return
            requests = requests[taken:]
            await trio.lowlevel.checkpoint()
            most = len(requests)
            if share is not None:
                if share.is_short:
                    most = await self._wait_for_share(share, requests, most)
                self._began = share.clock()

    def _has_room(self) -> bool:
        return (
            not self.held
            and self.parked < self._limits.max_parked
            and self._transport.pending <= self._limits.pending_writes
        )

    async def _wait_for_room(self, requests: list[RemotingCommand]) -> None:
        self.in_hand = _size_of(requests)
        self._connection.note_kept()
        while not self._has_room():
            if self.held or self.parked >= self._limits.max_parked:
                await self._room.park()
            else:
                await self._transport.wait_progress()
        self.in_hand = 0
        self._connection.note_kept()

    def _hand_over(self, requests: list[RemotingCommand], arrived: float) -> int:
        """Let the handler work; how many requests it took."""
        before = self.parked
        self.parked += _two_way(requests)
        self.serving = True
        try:
            taken = self._handler.handle(self._connection, requests, arrived)
        except Exception:
            # The handler answers for each request by itself; a bug here must not take the connection with it.
            _logger.exception("the handler failed on %d requests of %s", len(requests), self._connection.address)
            self._answer_for_bug(requests, before)
            taken = None
        finally:
            self.serving = False
        self._connection.flush()
        if taken is None:
            return len(requests)
        self.parked -= _two_way(requests[taken:])
        return taken

    def _answer_for_bug(self, requests: list[RemotingCommand], parked_before: int) -> None:
        """Nobody shall wait in vain. When some are answered it cannot be told which: those who wait will time out."""
        if self.parked == parked_before + _two_way(requests):
            for request in requests:
                self._connection.send_answer(request, request.answer(ResponseCode.SYSTEM_ERROR, "internal error"))
        self.parked = min(self.parked, parked_before)

    def _ended(self) -> ConnectionLostError:
        address = self._connection.address
        if self._decoder.buffered:
            text = f"{address} closed the connection within a frame, after {self._decoder.buffered} bytes of it"
        else:
            text = f"{address} closed the connection"
        return ConnectionLostError(text, address=address)


def _size_of(requests: Sequence[RemotingCommand]) -> int:
    return sum(len(request.body) + _OVERHEAD for request in requests)


def _two_way(requests: list[RemotingCommand]) -> int:
    return sum(1 for request in requests if not request.flag & ONEWAY_FLAG)
