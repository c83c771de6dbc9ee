"""Connections by address: one to each peer, one dial at a time, closed when idle.

Callers ask for an address and get a connection that is open; a caller that finds it lost asks again. After a failed
dial the next one waits, longer with every failure up to three seconds, so that a server that is back is soon used, and
no address is dialled more than twice in any second, so that a thousand clients do not storm a server that restarts.
Plays the part of the channel table in NettyRemotingClient.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
import trio

from rocketpy.errors import ClientClosedError, ConnectError, RequestTimeoutError, rounded, unsent
from rocketpy.logs import counted, get_logger
from rocketpy.remoting.backoff import FullJitter
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import RequestDispatcher
from rocketpy.remoting.limits import CLIENT_LIMITS, ConnectionLimits
from rocketpy.remoting.request_meter import RequestMeter
from rocketpy.remoting.timers import Timers
from rocketpy.seams import random_source
from rocketpy.services import open_services
from rocketpy.wire.codes import SerializeType
from rocketpy.wire.hosts import parse_address

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Handler
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.remoting.network import Network

__all__ = ["ConnectionPool", "PoolStatistics"]

_logger = get_logger(__name__)
_MAX_PEERS = 4096
"""Addresses that a client knows at a time."""
_SECOND = 1.0
_LONG_ENOUGH = 2.0
"""Seconds after which a caller is let dial again; up to one more, or all who lost a server would come together."""


@attrs.frozen(kw_only=True)
class PoolStatistics:
    """What a pool has done and what it holds."""

    open: int
    dialling: int
    dials: int
    """Dials since the beginning."""
    failures: int
    """Dials that failed, since the beginning."""
    addresses_failing: int
    """Addresses whose last dial failed, or whose last connection ended without a byte from the peer."""


class _Peer:
    """What the pool knows of one address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.connection: Connection | None = None
        self.dialled: trio.Event | None = None
        """Set when the dial that is under way has ended; None when none is."""
        self.failures = 0
        self.not_before = 0.0
        self.since = 0.0
        self.begun = (-math.inf, -math.inf)
        """When the dial before the last one began, and the last one."""
        self.error: ConnectError | None = None


class ConnectionPool:
    """Connections of one client. Use it as an async context manager, which owns every task there is.

    Requests that peers send go to `handler`; without one they are refused as not supported.
    Headers are encoded as `serialize_type` says.
    `on_open` is told of every connection that was dialled: a peer may have to be told who we are.
    """

    def __init__(
        self,
        network: Network,
        *,
        handler: Handler | None = None,
        hooks: Sequence[RequestHook] = (),
        connect_timeout: float = 3.0,
        idle_timeout: float | None = 120.0,
        limits: ConnectionLimits = CLIENT_LIMITS,
        serialize_type: SerializeType = SerializeType.JSON,
        on_open: Callable[[Connection], object] | None = None,
    ) -> None:
        self.network = network
        self.handler = handler or RequestDispatcher({})
        self.hooks = tuple(hooks)
        self.connect_timeout = connect_timeout
        self.serialize_type = serialize_type
        self._limits = attrs.evolve(limits, idle_timeout=idle_timeout)
        self._on_open = on_open
        self._backoff = FullJitter()
        self._peers: dict[str, _Peer] = {}
        self._timers = Timers()
        self._nursery: trio.Nursery | None = None
        self._dials = 0
        self._failures = 0
        self.meter = RequestMeter()

    # --- lifetime --------------------------------------------------------------------------------------

    @asynccontextmanager
    async def open(self) -> AsyncIterator[ConnectionPool]:
        """Run the pool for the time of a block; connections are closed at its end, after what they have to send."""
        async with open_services() as nursery:
            nursery.start_soon(self._timers.run)
            self._nursery = nursery
            self.meter.open()
            try:
                yield self
            finally:
                self._nursery = None
                await self._close_all()

    async def _close_all(self) -> None:
        async with trio.open_nursery() as nursery:
            for peer in self._peers.values():
                if peer.connection is not None:
                    nursery.start_soon(peer.connection.aclose)

    # --- connections -----------------------------------------------------------------------------------

    def nowait(self, address: str) -> Connection | None:
        """The connection to an address if there is one that is open: a look into a table."""
        peer = self._peers.get(address)
        connection = peer.connection if peer is not None else None
        return connection if connection is not None and connection.link.error is None else None

    async def get(self, address: str, *, timeout: float) -> Connection:
        """The connection to an address, dialled if need be. Always a checkpoint.

        Callers share the dial; one that goes away does not end it for the others.

        Raises:
            ConnectError: it cannot be opened, or could not a moment ago and it is too early to try again.
            RequestTimeoutError: it was not open in time.
            ConfigError: this is no address.
            ClientClosedError: the pool is closed.
        """
        await trio.lowlevel.checkpoint()
        connection = self.nowait(address)
        if connection is not None:
            return connection
        peer = self._peer(address)
        with trio.move_on_after(timeout):
            return await self._dialled(peer, trio.current_time() + timeout)
        text = f"no connection to {address} within {rounded(timeout)} s: nothing was sent"
        raise unsent(RequestTimeoutError(text, address=address, timeout=timeout))

    @property
    def limits(self) -> ConnectionLimits:
        """Bounds of each connection."""
        return self._limits

    def discard(self, address: str) -> None:
        """Forget an address, as when a broker has left the route; its connection ends when it has served.

        The broker may be well: a name server that has just started does not know all brokers yet.
        """
        peer = self._peers.pop(address, None)
        connection = peer.connection if peer is not None else None
        if connection is None:
            return
        if self._nursery is None or connection.is_idle:
            connection.close()
        else:
            self._nursery.start_soon(connection.see_off)
            connection.retire()

    def retire(self, connection: Connection) -> None:
        """Dial again for callers that ask from now on: the peer has asked us to go away.

        The old connection ends when what waits on it is answered. A peer that says so as its very first word counts as
        one that cannot be reached, so that the next dial waits.
        """
        peer = self._peers.get(connection.address)
        if peer is None or peer.connection is not connection or self._nursery is None:
            return
        peer.connection = None
        self._nursery.start_soon(connection.see_off)
        connection.retire()
        _logger.info("%s sent GO_AWAY: the next request opens another connection", peer.address)
        if connection.statistics().received_answers <= 1:
            error = ConnectError(f"{peer.address} asked us to go away at once: does it stop?", address=peer.address)
            self._note_failure(peer, error)

    @property
    def timers(self) -> Timers:
        """What rings alarms while the pool is open."""
        return self._timers

    def addresses(self) -> list[str]:
        """Where connections are open."""
        return [address for address in self._peers if self.nowait(address) is not None]

    def connections(self) -> list[Connection]:
        """Those that are open. Thread-safe."""
        found = [peer.connection for peer in self._peers.copy().values()]
        return [connection for connection in found if connection is not None and connection.is_open]

    def statistics(self) -> PoolStatistics:
        """Counters and holdings, now. Thread-safe."""
        peers = list(self._peers.copy().values())  # a copy in one step: other threads may ask
        return PoolStatistics(
            open=len(self.connections()),
            dialling=sum(peer.dialled is not None for peer in peers),
            dials=self._dials,
            failures=self._failures,
            addresses_failing=sum(peer.failures > 0 and peer.connection is None for peer in peers),
        )

    # --- dialling --------------------------------------------------------------------------------------

    def _peer(self, address: str) -> _Peer:
        peer = self._peers.get(address)
        if peer is None:
            parse_address(address)
            if len(self._peers) >= _MAX_PEERS:
                self._make_room(address)
            peer = self._peers[address] = _Peer(address)
        return peer

    def _make_room(self, wanted: str) -> None:
        """Keep the table bounded when addresses come and go without end.

        Raises:
            ConnectError: every place in it is taken by a connection.
        """
        for address, peer in list(self._peers.items()):
            if peer.connection is None and peer.dialled is None:
                del self._peers[address]
        if len(self._peers) >= _MAX_PEERS:
            raise ConnectError(
                f"no connection to {wanted}: {len(self._peers)} are open already, use another client for more",
                address=wanted,
            )

    async def _dialled(self, peer: _Peer, deadline: float) -> Connection:
        """Wait for the dial that is under way, or for one of our own."""
        dialled = peer.dialled
        if dialled is None:
            dialled = await self._start_dial(peer, deadline)
        await dialled.wait()
        if self._nursery is None:
            raise self._closed(peer)
        if peer.connection is not None and peer.connection.is_open:
            return peer.connection
        raise self._dial_error(peer)

    async def _start_dial(self, peer: _Peer, deadline: float) -> trio.Event:
        """Start a dial as soon as the pause after the last failure is over; at once when it is not over in time."""
        if peer.not_before > deadline:
            raise self._dial_error(peer)
        await trio.sleep_until(peer.not_before)
        if peer.dialled is None:
            if self._nursery is None:
                raise self._closed(peer)
            return self._begin_dial(peer, self._nursery)
        return peer.dialled

    @trio.lowlevel.enable_ki_protection  # or Ctrl-C may leave an event that nobody ever sets
    def _begin_dial(self, peer: _Peer, nursery: trio.Nursery) -> trio.Event:
        peer.dialled = trio.Event()
        nursery.start_soon(self._dial, peer)
        return peer.dialled

    def _closed(self, peer: _Peer) -> ClientClosedError:
        return ClientClosedError(f"the client is not open: it has no connection to {peer.address}")

    def _dial_error(self, peer: _Peer) -> ConnectError:
        """An error of each caller's own, for what the last dial met."""
        text = str(peer.error) if peer.error is not None else f"the connection to {peer.address} was lost at once"
        reason = text if peer.error is None else peer.error.reason
        pause = peer.not_before - trio.current_time()
        if pause > 0:
            text += f" (not tried again for {pause:.1f} s)"
        error = ConnectError(text, address=peer.address, reason=reason)
        error.__cause__ = peer.error
        return error

    @trio.lowlevel.enable_ki_protection
    async def _dial(self, peer: _Peer) -> None:
        """Connect once, and tell everybody who waits."""
        assert peer.dialled is not None
        self._dials += 1
        peer.begun = (peer.begun[1], trio.current_time())
        try:
            stream = await self.connect(peer.address)
            if self._nursery is not None and self._peers.get(peer.address) is peer:
                self._keep(peer, stream, self._nursery)
            else:
                await trio.aclose_forcefully(stream)
        except ConnectError as exc:
            self._note_failure(peer, exc)
        finally:
            peer.dialled.set()
            peer.dialled = None

    async def connect(self, address: str) -> trio.abc.Stream:
        """A stream to an address that does not belong to the pool.

        Raises:
            ConnectError: it cannot be opened.
        """
        host, port = parse_address(address)
        try:
            with trio.fail_after(self.connect_timeout):
                return await self.network.open_stream(host, port)
        except trio.TooSlowError as exc:
            reason = f"no answer within {self.connect_timeout:g} s"
            raise ConnectError(
                f"cannot connect to {address}: {reason}; is the host up, and does a firewall let the port through?",
                address=address,
                reason=reason,
            ) from exc
        except OSError as exc:
            raise ConnectError(
                f"cannot connect to {address}: {exc}; is the server up, and is the address right?",
                address=address,
                reason=str(exc),
            ) from exc

    def _keep(self, peer: _Peer, stream: trio.abc.Stream, nursery: trio.Nursery) -> None:
        connection = Connection(
            stream,
            self.handler,
            self._timers,
            address=peer.address,
            hooks=self.hooks,
            limits=self._limits,
            serialize_type=self.serialize_type,
            on_go_away=self.retire,
        )
        connection.add_close_callback(self._note_ended)
        nursery.start_soon(connection.run)
        if peer.failures:
            _logger.info("connected to %s, after %s", peer.address, counted(peer.failures, "failure"))
        else:
            _logger.info("connected to %s", peer.address)
        peer.connection = connection
        peer.error = None
        peer.since = trio.current_time()
        if self._on_open is not None:
            self._on_open(connection)

    def _note_ended(self, connection: Connection) -> None:
        """A peer that takes connections and drops them without a byte counts as one that fails."""
        peer = self._peers.get(connection.address)
        if peer is None or peer.connection is not connection:
            return
        peer.connection = None
        if self._nursery is None:
            return
        lived = trio.current_time() - peer.since
        if connection.statistics().received_bytes == 0 and lived < self._backoff.maximum:
            lost = ConnectError(f"the connection to {peer.address} was lost at once: {connection.error}")
            lost.__cause__ = connection.error
            self._note_failure(peer, lost)
        else:
            _logger.info("connection lost: %s", connection.error)
            self._forget_dials(peer)

    def _forget_dials(self, peer: _Peer) -> None:
        """A connection that was good has ended: nothing is held against the peer but dials of the last second."""
        now = trio.current_time()
        peer.failures = 0
        peer.not_before = max(now, peer.begun[0] + _SECOND)
        if peer.begun[1] + _SECOND <= now:
            del self._peers[peer.address]

    def _note_failure(self, peer: _Peer, error: ConnectError) -> None:
        peer.error = error
        peer.failures += 1
        # The jitter counts on from there, too, or all who lost their connection together would come back together.
        now = trio.current_time()
        latest = now + _LONG_ENOUGH + random_source().random()
        peer.not_before = min(max(now, peer.begun[0] + _SECOND) + self._backoff.after(peer.failures), latest)
        self._failures += 1
        _logger.log(logging.WARNING if peer.failures == 1 else logging.DEBUG, "%s", error)
