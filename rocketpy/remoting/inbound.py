"""The receiving half of a connection: bytes to frames, answers to their waiters, requests to the handler in turns.

Up to 64 requests are handed over at a time. While the peer has too many parked requests, or does not read its answers,
nothing more is handed over or read. The processor time of a turn is bounded too: see `rounds`.
Plays the part of NettyDecoder and NettyServerHandler.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias

import trio

from rocketpy.errors import ConnectionLostError, RemoteProtocolError
from rocketpy.logs import counted, get_logger
from rocketpy.remoting.rounds import ConnectionShare, Slice
from rocketpy.remoting.transport import MOST_RECEIVED
from rocketpy.wire.codes import ONEWAY_FLAG, RESPONSE_FLAG, ResponseCode
from rocketpy.wire.fast_answer import peek, sent_answer
from rocketpy.wire.frame import Frame, FrameDecoder
from rocketpy.wire.send_layout import SendReader

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from rocketpy.remoting.link import Link
    from rocketpy.remoting.rounds import RoundShare
    from rocketpy.wire.command import RemotingCommand

__all__ = ["Inbound"]

_logger = get_logger(__name__)
_OVERHEAD, _OVERHEAD_OF_FIELD = 1024, 200
"""Bytes that a request takes besides its body, and a field besides its name and value."""
_CHUNK = 128 * 1024
"""Bytes that a server receives at a time while time is short."""
_PIECE = 32 * 1024
"""Frames that begin within this many bytes are decoded without looking at the clock in between."""


class Owner(Protocol):
    """What reading needs of the connection that it reads for.

    Attributes:
        address: the peer as "host:port".
    """

    address: str

    def note_received(self, frame_due: float) -> None:
        """A chunk was dealt with; a frame that has begun must be complete by `frame_due`, on trio's clock."""

    def note_kept(self) -> None:
        """The number of bytes that wait here has changed."""

    def flush(self) -> object:
        """Send the answers of the handler."""

    def send_answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        """Answer a request."""


Handle: TypeAlias = "Callable[[list[RemotingCommand], float], int | None]"
"""Takes the requests of a peer; `Handler.handle` of a connection."""


class Inbound:
    """Reads for one connection, until its peer ends or breaks it."""

    def __init__(
        self,
        owner: Owner,
        link: Link,
        handle: Handle,
        share: RoundShare | None = None,
    ) -> None:
        self._owner = owner
        self._transport = link.transport
        self._in_flight = link.in_flight
        self._handle = handle
        self._limits = limits = link.limits
        self._shares = share is not None
        self._time_slice: ConnectionShare | Slice = Slice() if share is None else ConnectionShare(share)
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

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Read until `stop` is called.

        Raises:
            ConnectionLostError: the peer has closed, or the stream is broken.
            RemoteProtocolError: the peer sent bytes that are not valid.
        """
        with self._scope:
            await self._read()

    async def _read(self) -> NoReturn:
        time_slice = self._time_slice
        before_read = self._before_read if self._shares else None
        while True:
            data = await self._transport.receive(before_read)
            if not data:
                raise self._ended()
            now = trio.current_time()
            self.last_received = now
            self.received_bytes += len(data)
            self._decoder.receive_data(data)
            if time_slice.note_delivered(self._decoder.buffered):
                await self._next_turn(())
            await self._take(now)

    async def _take(self, now: float) -> None:
        """Deal with every whole frame there is, a turn at a time."""
        time_slice = self._time_slice
        while True:
            requests, is_more = self._decode()
            if requests:
                await self._serve(requests, now)
            if self._bad is not None:
                raise self._bad
            if not is_more:
                break
            await self._next_turn(())
        time_slice.end()
        self._watch_frame()

    def _decode(self) -> tuple[list[RemotingCommand], bool]:
        """The requests among the next frames, as many as a turn has time for; and whether there may be more."""
        time_slice, left = self._time_slice, self._limits.frames_per_turn
        requests: list[RemotingCommand] = []
        while True:
            frames = self._cut(left)
            if not frames:
                return requests, False
            self.frame_due = math.inf
            requests += self._sort(frames)
            left -= len(frames)
            if self._bad is not None or not self._decoder.buffered:
                return requests, False
            if not left or not time_slice.has_time_to_decode():
                return requests, True

    def has_time(self) -> bool:
        """Whether another request may be begun in this turn."""
        return self._time_slice.has_time()

    def _before_read(self) -> Awaitable[None] | None:
        """Begin the turn in which new bytes are dealt with. What it returns is waited for before they are read."""
        time_slice = self._time_slice
        if time_slice.is_short:
            return self._begin_turn(time_slice, ())
        time_slice.begin()
        self._transport.most_received = MOST_RECEIVED
        return None

    async def _begin_turn(self, time_slice: ConnectionShare | Slice, requests: Sequence[RemotingCommand]) -> None:
        """Begin a turn of this connection, which may have to be waited for first; `requests` are decoded already."""
        if time_slice.must_wait:
            await self._wait_for_turn(time_slice, requests)
        time_slice.begin()
        # What is read but not dealt with is kept until the next turn: of each of hundreds that must not be much.
        self._transport.most_received = _CHUNK if time_slice.is_short else MOST_RECEIVED

    async def _next_turn(self, requests: Sequence[RemotingCommand]) -> None:
        """Let others have their turn, and begin the next one; `requests` are decoded already."""
        time_slice = self._time_slice
        time_slice.end()
        if not time_slice.must_wait:
            await trio.lowlevel.checkpoint()
        await self._begin_turn(time_slice, requests)

    async def _wait_for_turn(self, time_slice: ConnectionShare | Slice, requests: Sequence[RemotingCommand]) -> None:
        """Wait in the line of all connections. A frame that has begun is not late by that."""
        self._keep(requests)
        due, self.frame_due = self.frame_due, math.inf
        since = trio.current_time()
        await time_slice.wait()
        self.frame_due = due + (trio.current_time() - since)
        self._keep(())

    def _keep(self, requests: Sequence[RemotingCommand]) -> None:
        """Count what waits to be handed over."""
        self.in_hand = sum(map(_size_of, requests))
        self._owner.note_kept()

    def _cut(self, most: int) -> list[Frame]:
        """Cut off at most `most` frames, and no more than are decoded between two looks at the clock."""
        try:
            return self._decoder.frames(most, _PIECE)
        except RemoteProtocolError as exc:
            self._bad = exc
            return []

    def _watch_frame(self) -> None:
        """A frame that has begun gets its time to be completed, from now: we may have been the slow ones so far."""
        if self._decoder.buffered and self.frame_due == math.inf and self._limits.frame_timeout is not None:
            self.frame_due = trio.current_time() + self._limits.frame_timeout
        self._owner.note_received(self.frame_due)

    def _sort(self, frames: list[Frame]) -> list[RemotingCommand]:
        """Complete those who wait for answers; the requests are left. Stops at a header that is not valid."""
        requests: list[RemotingCommand] = []
        in_flight, read = self._in_flight, self._reader.read
        answers = awaited = 0
        try:
            for frame in frames:
                # A server waits for no answers most of the time: it need not look before it decodes.
                if len(in_flight):
                    sent = sent_answer(frame) if in_flight.has_sends else None
                    if sent is not None:
                        answers += 1
                        awaited += in_flight.answer_send(sent[0], frame, sent[1])
                        continue
                    opaque, flag, _ = peek(frame)
                    if flag & RESPONSE_FLAG:
                        answers += 1
                        awaited += in_flight.answer(opaque, frame)
                        continue
                command = read(frame)
                if command.flag & RESPONSE_FLAG:
                    answers += 1
                else:
                    requests.append(command)
        except RemoteProtocolError as exc:
            self._bad = exc
        self.answers += awaited
        self.unknown_answers += answers - awaited
        self.requests += len(requests)
        return requests

    async def _serve(self, requests: list[RemotingCommand], arrived: float) -> None:
        """Hand requests over, as many as there is room and time for at a time."""
        while True:
            while not self._has_room():
                await self._wait_for_room(requests)
            taken = self._hand_over(requests, arrived)
            if taken >= len(requests):
                return
            requests = requests[taken:]
            await self._next_turn(requests)

    def _has_room(self) -> bool:
        return (
            not self.held
            and self.parked < self._limits.max_parked
            and self._transport.pending <= self._limits.pending_writes
        )

    async def _wait_for_room(self, requests: list[RemotingCommand]) -> None:
        """Wait until the peer has read more or its requests are answered, and for the next turn."""
        time_slice = self._time_slice
        time_slice.end()
        self._keep(requests)
        while not self._has_room():
            if self.held or self.parked >= self._limits.max_parked:
                await self._room.park()
            else:
                await self._transport.wait_progress()
        self._keep(())
        await self._begin_turn(time_slice, requests)

    def _hand_over(self, requests: list[RemotingCommand], arrived: float) -> int:
        """Let the handler work; how many requests it took."""
        before = self.parked
        self.parked += _two_way(requests)
        self.serving = True
        try:
            taken = self._handle(requests, arrived)
        except Exception:
            # The handler answers for each request by itself; a bug here must not take the connection with it.
            _logger.exception("the handler failed on %s of %s", counted(len(requests), "request"), self._owner.address)
            self._answer_for_bug(requests, before)
            taken = None
        finally:
            self.serving = False
        self._owner.flush()
        if self._transport.pending > self._limits.pending_writes:
            self._owner.note_kept()
        if taken is None:
            return len(requests)
        self.parked -= _two_way(requests[taken:])
        return taken

    def _answer_for_bug(self, requests: list[RemotingCommand], parked_before: int) -> None:
        """Nobody shall wait in vain. When some are answered it cannot be told which: those who wait will time out."""
        if self.parked == parked_before + _two_way(requests):
            for request in requests:
                self._owner.send_answer(request, request.answer(ResponseCode.SYSTEM_ERROR, "internal error"))
        self.parked = min(self.parked, parked_before)

    def _ended(self) -> ConnectionLostError:
        address = self._owner.address
        if self._decoder.buffered:
            text = f"{address} closed the connection within a frame, after {self._decoder.buffered} bytes of it"
        else:
            text = f"{address} closed the connection"
        return ConnectionLostError(text, address=address)


def _size_of(request: RemotingCommand) -> int:
    fields = request.ext_fields
    texts = sum(map(len, fields)) + sum(map(len, fields.values()))
    return _OVERHEAD + len(request.body) + texts + len(fields) * _OVERHEAD_OF_FIELD


def _two_way(requests: list[RemotingCommand]) -> int:
    return sum(1 for request in requests if not request.flag & ONEWAY_FLAG)
