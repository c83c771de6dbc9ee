"""Connection: many requests in flight over one stream, in both directions.

Callers put whole frames into the output and park; one writer task sends what has gathered, one reader task cuts what
comes and wakes the caller that it is for. No caller ever touches the stream, so cancelling one forgets its opaque and
nothing else; its late answer is counted and dropped. There is no cancel scope per call: deadlines are in the in-flight
table. Plays the part of NettyRemotingAbstract and of ChannelWrapper.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from rocketpy.errors import ConnectionLostError, RocketMQError
from rocketpy.logs import get_logger
from rocketpy.remoting.answers import answer_frame
from rocketpy.remoting.inbound import Inbound
from rocketpy.remoting.limits import CLIENT_LIMITS, ConnectionLimits, too_slow
from rocketpy.remoting.link import Link
from rocketpy.remoting.liveness import Liveness
from rocketpy.remoting.network import addresses_of
from rocketpy.remoting.outbound import Outbound
from rocketpy.remoting.statistics import ConnectionStatistics
from rocketpy.remoting.timers import Alarm, Timers
from rocketpy.remoting.transport import transport_of
from rocketpy.services import open_services
from rocketpy.wire.codes import ONEWAY_FLAG, SerializeType

if TYPE_CHECKING:
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.rounds import RoundShare
    from rocketpy.wire.command import RemotingCommand

__all__ = ["Connection", "Handler", "open_connection"]

_logger = get_logger(__name__)
_FAREWELL = 1.0


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


class Connection:
    """A link to one peer. Its owner (the pool, the server) runs `run` in a nursery; all else is for everybody.

    It is put together here: `Outbound` sends our requests, `Inbound` reads, `Liveness` judges, and they share a `Link`.
    What callers need of `Outbound` stands here as attributes and not as methods, so that a request costs no call more.

    Attributes:
        local_address: Our side as "host:port".
        address: The peer as "host:port"; on a client the address that was dialled.
        link: What its parts share. `link.error` is `error` without the call of a property.
        hooks: What wants to see typed requests; who sends prebuilt frames must do without.
        serialize_type: How headers are encoded where a command does not say it itself.
        next_opaque: Returns the number for the next request; nothing else that waits on this connection has it.
        request: `Outbound.request`; `exchange`, `exchange_send`, `start_request`, `give_up`, `send_oneway`,
            `send_frame`, `checkpoint_if_due`, `wait_writable`, `decode_answer` and `flush` are those of `Outbound`.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        handler: Handler,
        timers: Timers,
        *,
        address: str | None = None,
        hooks: Sequence[RequestHook] = (),
        limits: ConnectionLimits = CLIENT_LIMITS,
        serialize_type: SerializeType = SerializeType.JSON,
        on_kept: Callable[[Connection, int], None] | None = None,
        on_go_away: Callable[[Connection], object] | None = None,
        share: RoundShare | None = None,
    ) -> None:
        self.local_address, peer = addresses_of(stream)
        self.address = address = address or peer
        self.hooks = tuple(hooks)
        self.serialize_type = serialize_type
        self._limits = limits
        self._transport = transport_of(stream, address, self.note_kept)
        self.link = link = Link(address, self._transport, Alarm(timers, self._ring), limits)
        outbound = Outbound(link, self.hooks, serialize_type, self.close)
        self.next_opaque = outbound.next_opaque
        self.request, self.exchange, self.exchange_send = outbound.request, outbound.exchange, outbound.exchange_send
        self.start_request, self.give_up = outbound.start_request, outbound.give_up
        self.send_oneway, self.send_frame = outbound.send_oneway, outbound.send_frame
        self.checkpoint_if_due, self.wait_writable = outbound.checkpoint_if_due, outbound.wait_writable
        self.decode_answer, self.flush = outbound.decode_answer, outbound.flush
        self._inbound = Inbound(self, link, partial(handler.handle, self), share)
        self._liveness = Liveness(link, self._inbound)
        self._on_kept = on_kept
        self._on_go_away = on_go_away
        self._kept = 0
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._settled = trio.Event()
        self._close_callbacks: list[Callable[[Connection], object]] = []

    def __repr__(self) -> str:
        """One line for a log."""
        state = "open" if self.is_open else "closed"
        return f"<Connection {self.local_address} to {self.address}, {state}, {len(self.link.in_flight)} in flight>"

    @property
    def error(self) -> RocketMQError | None:
        """Why it ended, None while it is open."""
        return self.link.error

    @property
    def is_open(self) -> bool:
        """Whether it is connected."""
        return self.link.error is None

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way: no request of ours or of the peer's, and nothing that is still to be sent."""
        return not (len(self.link.in_flight) or self._transport.pending or self._inbound.parked)

    @property
    def is_full(self) -> bool:
        """Whether more waits for the peer to read than may be added to without waiting."""
        return self._transport.pending > self._limits.pending_writes

    @property
    def unparsed(self) -> int:
        """Bytes kept of frames that are not whole yet."""
        return self._inbound.unparsed

    def statistics(self) -> ConnectionStatistics:
        """Counters and holdings, now."""
        inbound = self._inbound
        return ConnectionStatistics(
            in_flight=len(self.link.in_flight),
            parked=inbound.parked,
            pending_bytes=self._transport.pending,
            unparsed_bytes=inbound.unparsed,
            sent_bytes=self._transport.sent,
            received_bytes=inbound.received_bytes,
            received_requests=inbound.requests,
            received_answers=inbound.answers,
            unknown_answers=inbound.unknown_answers,
        )

    # --- requests of the peer --------------------------------------------------------------------------

    def has_room(self) -> bool:
        """Whether another request of the peer may be served: it reads fast enough, and its requests are not on hold."""
        if self._inbound.held:
            return False
        if self._transport.pending <= self._limits.pending_writes:
            return True
        self.flush()
        return self._transport.pending <= self._limits.pending_writes

    def has_time(self) -> bool:
        """Whether another request of the peer may be begun before other connections have their turn."""
        return self._inbound.has_time()

    def send_answer(self, request: RemotingCommand, answer: RemotingCommand) -> None:
        """Answer a request of the peer: now, or later when it was parked. Nothing is sent for a one-way request.

        The answer takes over the opaque and the header encoding of the request.
        """
        if request.flag & ONEWAY_FLAG:
            return
        self.send_answer_frame(request, self.prepare_answer(request, answer))

    def prepare_answer(self, request: RemotingCommand, answer: RemotingCommand) -> bytes:
        """The frame of an answer, for `send_answer_frame`. It takes over the opaque and the encoding of the request."""
        return answer_frame(request, answer, self.address, self._limits.wire)

    def send_answer_frame(self, request: RemotingCommand, frame: bytes) -> None:
        """Answer a request with a prebuilt frame, which carries its opaque."""
        if request.flag & ONEWAY_FLAG:
            return
        self._inbound.note_answered()
        if self.link.error is not None:
            return
        self._transport.append(frame)
        self._push(len(frame))

    def _push(self, size: int) -> None:
        """Have answers leave: those of one turn leave together, also when their requests came earlier."""
        if self._transport.pending > self._limits.pending_writes:
            self._note_output(size)
        if self._inbound.serving:
            return
        if self._inbound.parked:
            self._transport.flush_soon()
        else:
            self.flush()

    def send_answer_frames(self, count: int, frames: bytes) -> None:
        """Answer `count` requests; `frames` has their answers, one behind the other."""
        self._inbound.note_answered(count)
        if self.link.error is not None:
            return
        self._transport.append(frames)
        self._push(len(frames))

    def forget_request(self, request: RemotingCommand) -> None:
        """Say that a parked request will never be answered, or that somebody else bounds how many like it wait."""
        if not request.flag & ONEWAY_FLAG:
            self._inbound.note_answered()

    def recall_request(self, request: RemotingCommand) -> None:
        """A forgotten request will be answered after all: it counts among the parked ones again."""
        if not request.flag & ONEWAY_FLAG:
            self._inbound.parked += 1

    def hold_requests(self) -> None:
        """Hand over no request until `release_requests`: the one under way comes first."""
        self._inbound.held = True

    def release_requests(self) -> None:
        """Hand requests over again."""
        self._inbound.release()

    # --- lifetime --------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Read and write until the connection is closed. Never raises for what a peer does."""
        try:
            with self._scope:
                self.link.alarm.set(self._liveness.next_due(trio.current_time()))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._guard, self._transport.run_writer)
                    await self._guard(self._read)
        finally:
            self.close()
            try:
                await self._transport.aclose()
            finally:
                # Its parts hold each other: what they keep would stay until a collection of garbage, which comes by the
                # number of objects and not by their size.
                self._inbound.drop()
                self._transport.drop()
                _let_go(self.link.error)
                self._ended.set()

    async def _read(self) -> None:
        """Read until the end; what was answered before it may still leave."""
        try:
            await self._inbound.run()
        except RocketMQError:
            await self._drain()
            raise

    async def _drain(self) -> None:
        """Give what is buffered a second to leave."""
        with trio.move_on_after(_FAREWELL):
            while self.is_open and self._transport.pending:
                await self._transport.wait_progress()

    @trio.lowlevel.enable_ki_protection
    async def _guard(self, part: Callable[[], Awaitable[None]]) -> None:
        """Run one of the two tasks; whatever ends it ends the connection, and only that."""
        try:
            await part()
        except RocketMQError as exc:
            self.close(exc)
        except Exception:  # ours alone: the other connections of this client or server must not fall with it
            _logger.exception("a bug ended the connection to %s", self.address)
            self.close()

    def add_close_callback(self, callback: Callable[[Connection], object]) -> None:
        """Call a plain function when the connection has closed; at once when it has already."""
        if self.link.error is not None:
            callback(self)
        else:
            self._close_callbacks.append(callback)

    def drop_close_callback(self, callback: Callable[[Connection], object]) -> None:
        """Call a function no more when the connection ends."""
        if callback in self._close_callbacks:
            self._close_callbacks.remove(callback)

    def close(self, error: RocketMQError | None = None) -> None:
        """Close at once: waiting callers get ConnectionLostError, buffered frames are lost. Plain and idempotent."""
        if self.link.error is not None:
            return
        self.link.error = error or ConnectionLostError(
            f"the connection to {self.address} was closed on this side", address=self.address
        )
        self.link.alarm.cancel()
        self._scope.cancel()
        self.link.in_flight.fail_all(self._lost_while_waiting)
        self._transport.wake()
        self._inbound.wake()
        self._settled.set()
        self._transport.tells_sent = False
        if self._on_kept is not None and self._kept:
            kept, self._kept = self._kept, 0
            self._on_kept(self, -kept)
        callbacks, self._close_callbacks = self._close_callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                # The others must hear of it all the same.
                _logger.exception("a close callback failed for the connection to %s", self.address)

    def abandon(self, error: RocketMQError) -> None:
        """Close at once, so that nothing reaches the peer later that has not reached it yet. Plain and idempotent.

        For a peer that does not answer: what the system has taken of ours would be sent as soon as it does.
        """
        if self.link.error is None:
            self._transport.reset()
            self.close(error)

    @trio.lowlevel.enable_ki_protection
    async def aclose(self) -> None:
        """Give what is buffered a second to leave, then close and wait until the stream is closed."""
        try:
            await self._drain()
        finally:
            self.close()
        await self._ended.wait()

    def on_go_away(self) -> None:
        """The peer has asked us to go away: the owner of the connection sees to the next one."""
        if self._on_go_away is not None:
            self._on_go_away(self)
        else:
            self.retire()

    def retire(self) -> None:
        """Take no more requests; those that wait for answers may still get them. Plain and idempotent."""
        self.link.retired = True
        self._note_settled()

    @trio.lowlevel.enable_ki_protection
    async def see_off(self) -> None:
        """Retire, and close when every request that was sent is answered or given up."""
        self.retire()
        await self._settled.wait()
        with trio.move_on_after(_FAREWELL):
            await self.finish()
        await self.aclose()

    def _note_settled(self) -> None:
        if self.link.retired and not len(self.link.in_flight):
            self._settled.set()

    def stop_reading(self) -> None:
        """Begin no request that has not been read yet. Not async; calling it twice does no harm."""
        self._inbound.stop()

    @trio.lowlevel.enable_ki_protection
    async def finish(self) -> None:
        """Read no more, and wait until all that was taken is answered and all that was answered has left."""
        self.stop_reading()
        while self.is_open and (self._inbound.parked or self._transport.pending):
            if self._inbound.parked:
                await self._inbound.wait_answered()
            else:
                await self._transport.wait_progress()

    # --- small parts -----------------------------------------------------------------------------------

    def note_received(self, frame_due: float) -> None:
        """The reader has dealt with a chunk; a frame that has begun must be complete by `frame_due`."""
        if self.link.error is not None:
            return  # closed by what came in: what it kept has been given back already
        self._liveness.note_received()
        self._note_settled()
        if frame_due < self.link.alarm.when:
            self.link.alarm.set(frame_due)
        if self._on_kept is not None and self._inbound.unparsed != self._kept:
            self.note_kept()

    def note_kept(self) -> None:
        """Report how much more or less this connection keeps than it last reported: frames, requests, unread answers.

        Unread answers count only while there are so many that the peer is not served. Then each part that leaves is
        reported.
        """
        if self._on_kept is None or self.link.error is not None:
            return
        unread = self._transport.pending
        if unread <= self._limits.pending_writes:
            unread = 0
        self._transport.tells_sent = unread > 0
        kept = self._inbound.unparsed + self._inbound.in_hand + unread
        change, self._kept = kept - self._kept, kept
        if change:
            self._on_kept(self, change)

    def _note_output(self, added: int) -> None:
        """More answers wait for the peer than may wait; if there were far too many before, the connection is closed.

        What is left of those that a handler gives is counted when they have been sent as far as the peer takes them.
        """
        if self._transport.pending - added > self._limits.max_pending_writes:
            self.close(too_slow(self.address, self._transport.pending))
        elif not self._inbound.serving:
            self.note_kept()

    def _ring(self, now: float) -> float:
        """The alarm: judge the connection, and say when to look again."""
        error = self._liveness.judge(now)
        if error is not None:
            (self.abandon if self._liveness.is_silent else self.close)(error)
        self._note_settled()
        return self._liveness.next_due(now)

    def _lost_while_waiting(self) -> ConnectionLostError:
        error = ConnectionLostError(
            f"the connection to {self.address} closed before the answer arrived; the request may or may not have been "
            f"carried out: {self.link.error}",
            address=self.address,
        )
        error.__cause__ = self.link.error
        return error


def _let_go(error: BaseException | None) -> None:
    """Drop the tracebacks of an error and of its causes: their frames hold requests of the peer with their bodies.

    The connection keeps its error, and the frames hold the connection: only a collection of garbage would free them.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


@asynccontextmanager
async def open_connection(
    stream: trio.abc.Stream,
    handler: Handler,
    *,
    address: str | None = None,
    hooks: Sequence[RequestHook] = (),
    limits: ConnectionLimits = CLIENT_LIMITS,
) -> AsyncIterator[Connection]:
    """One connection over a stream that is open, with the tasks it needs; for tools and tests. Clients use the pool."""
    timers = Timers()
    connection = Connection(stream, handler, timers, address=address, hooks=hooks, limits=limits)
    async with open_services() as nursery:
        nursery.start_soon(timers.run)
        nursery.start_soon(connection.run)
        try:
            yield connection
        finally:
            await connection.aclose()
