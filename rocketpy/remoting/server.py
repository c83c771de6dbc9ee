"""The listening side: accept, bound, serve, and stop without breaking off what is under way.

One task accepts for each listener, one rings the timers of all connections, one renews what they share of the time, and
each connection runs in the same nursery. Plays the part of NettyRemotingServer.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from rocketpy.errors import RemoteProtocolError, TransportError
from rocketpy.logs import get_logger, tell_left_out
from rocketpy.remoting.budget import CONNECTIONS, Budget
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.limits import ServerLimits
from rocketpy.remoting.network import LOOPBACK, Listener, Network, address_of_listener, addresses_of
from rocketpy.remoting.peer_log import PeerLog
from rocketpy.remoting.rounds import SLICE_SECONDS, RoundShare
from rocketpy.remoting.tcp import TcpListener
from rocketpy.remoting.timers import Timers

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Handler
    from rocketpy.remoting.hooks import RequestHook

__all__ = ["RemotingServer", "cannot_listen", "serve"]

_logger = get_logger(__name__)
_NO_LISTENER = frozenset({errno.EBADF, errno.EINVAL, errno.ENOTSOCK})
"""The listening socket itself is gone: no later attempt can be better."""
_TOO_MANY_FILES = frozenset({errno.EMFILE, errno.ENFILE})
_ACCEPT_PAUSE = 0.1
_CLOSE_WITHIN = 1.0

ConnectionCallback = Callable[[Connection], object]


class RemotingServer:
    """A server that runs.

    Attributes:
        addresses: Where it listens, as "host:port", port 0 resolved.
        connections: Those that are open.
        budget: What they make this server keep.
        share: What they have of the processor in each round of the loop.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        handler: Handler,
        limits: ServerLimits,
        hooks: Sequence[RequestHook],
        on_open: ConnectionCallback | None,
        on_close: ConnectionCallback | None,
        budget: Budget | None = None,
        share: RoundShare | None = None,
    ) -> None:
        self.addresses = [address_of_listener(listener) for listener in listeners]
        self.connections: dict[Connection, None] = {}  # in the order of their coming, the same in every run
        self._listeners = listeners
        self._handler = handler
        self._limits = limits
        self._hooks = hooks
        self._on_open = on_open
        self._on_close = on_close
        self._timers = Timers()
        self._per_host: Counter[str] = Counter()
        self.budget = budget or Budget(limits.max_kept)
        self.share = share or RoundShare()
        self._log = PeerLog(_logger, timers=self._timers)
        self._scope = trio.CancelScope()
        self._stopping = False
        self._ended = trio.Event()

    async def stop_reading(self) -> None:
        """Accept no more, and begin nothing that has not been read yet; what was taken goes on."""
        self._stopping = True
        await self._close_listeners()
        for connection in self.connections:
            connection.stop_reading()

    async def stop(self, grace: float) -> None:
        """Accept no more, let what is under way finish for up to `grace` seconds, then close everything.

        Requests that were taken are answered; what has not been read yet is not begun. When this returns, nothing
        is open; `serve` returns as well.
        """
        await self.stop_reading()
        with trio.move_on_after(grace):
            async with trio.open_nursery() as nursery:
                for connection in list(self.connections):
                    nursery.start_soon(connection.finish)
        self.close()
        await self._ended.wait()

    def close(self) -> None:
        """End everything at once."""
        for connection in list(self.connections):
            connection.close()
        self._scope.cancel()

    async def run(self) -> None:
        """Serve until stopped or cancelled."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._timers.run)
                    nursery.start_soon(self.share.run)
                    for listener in self._listeners:
                        nursery.start_soon(self._accept, listener, nursery)
        finally:
            self.close()
            # Behind a shield, though it never waits: cancelled, it would leave the other listeners open.
            with trio.move_on_after(_CLOSE_WITHIN, shield=True):
                for listener in self._listeners:
                    await trio.aclose_forcefully(listener)
            self._log.tell()
            tell_left_out()
            self._ended.set()

    async def _close_listeners(self) -> None:
        for listener in self._listeners:
            await listener.aclose()

    # --- accepting -------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def _accept(self, listener: Listener, nursery: trio.Nursery) -> None:
        """Take connections until the listener is closed."""
        while True:
            try:
                stream = await listener.accept()
            except trio.ClosedResourceError:
                return
            except OSError as exc:
                if exc.errno in _NO_LISTENER:
                    raise
                self._log.warn("accept", _cannot_accept(exc))
                await trio.sleep(_ACCEPT_PAUSE)
                continue
            self._take_in(stream, nursery)
            if isinstance(listener, TcpListener):
                self._accept_more(listener, nursery)

    def _accept_more(self, listener: TcpListener, nursery: trio.Nursery) -> None:
        """Take those that are there already, for a slice.

        One in each round of the loop would be few when rounds are long, and who connects without end would keep
        everybody else waiting.
        """
        clock = self.share.clock
        end = clock() + SLICE_SECONDS
        # What fails here fails again in the next `accept`, which tells of it.
        with suppress(OSError, trio.ClosedResourceError):
            while clock() < end:
                stream = listener.accept_now()
                if stream is None:
                    break
                self._take_in(stream, nursery)

    def _take_in(self, stream: trio.abc.Stream, nursery: trio.Nursery) -> None:
        """Serve a connection, or close it."""
        if not self._admitted(stream, nursery):
            nursery.start_soon(trio.aclose_forcefully, stream)

    def _admitted(self, stream: trio.abc.Stream, nursery: trio.Nursery) -> bool:
        """Whether a connection is served now. An error of the system ends this connection alone."""
        try:
            return self._admit(stream, nursery)
        except OSError as exc:
            self._log.warn("accept", _cannot_accept(exc))
            return False

    def _admit(self, stream: trio.abc.Stream, nursery: trio.Nursery) -> bool:
        """Start to serve a connection, if the bounds allow one more."""
        peer = addresses_of(stream)[1]  # asked once: after a reset the system does not know it any more
        host = _host_of(peer)
        if self._stopping:
            return False
        if len(self.connections) >= self._limits.max_connections:
            self._log.warn(host, f"refused: {len(self.connections)} connections are open")
            return False
        if self._per_host[host] >= self._limits.max_connections_per_host:
            self._log.warn(host, f"refused: {self._per_host[host]} connections from there are open")
            return False
        connection = Connection(
            stream,
            self._handler,
            self._timers,
            address=peer,
            hooks=self._hooks,
            limits=self._limits.connection,
            on_kept=self._note_kept,
            share=self.share,
        )
        self._per_host[host] += 1
        self.connections[connection] = None
        connection.add_close_callback(self._note_closed)
        if self._on_open is not None:
            self._on_open(connection)
        nursery.start_soon(connection.run)
        return True

    # --- what connections report -----------------------------------------------------------------------

    def _note_kept(self, connection: Connection, change: int) -> None:
        if change > 0:
            self.budget.note(connection, change, CONNECTIONS)
        else:
            self.budget.release(connection, -change, CONNECTIONS)

    def _note_closed(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        host = _host_of(connection.address)
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]
        if isinstance(connection.error, RemoteProtocolError):
            self._log.warn(host, f"closed {connection.address}: {connection.error}")
        else:
            _logger.debug("%s", connection.error)
        if self._on_close is not None:
            self._on_close(connection)


@trio.lowlevel.enable_ki_protection
async def serve(
    network: Network,
    host: str | None,
    port: int,
    handler: Handler,
    *,
    limits: ServerLimits | None = None,
    hooks: Sequence[RequestHook] = (),
    on_open: ConnectionCallback | None = None,
    on_close: ConnectionCallback | None = None,
    budget: Budget | None = None,
    share: RoundShare | None = None,
    task_status: trio.TaskStatus[RemotingServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Listen and serve until cancelled or stopped; started with the RemotingServer.

    Without a host this listens on loopback only. Port 0 takes a free port. A budget bounds what peers make the server
    keep; without one it has one of its own, of `ServerLimits.max_kept`. A share bounds
    what they have of each round of the loop; there is one in any case.

    Raises:
        TransportError: the address cannot be listened on.
    """
    address = host or LOOPBACK
    try:
        listeners = await network.listen(address, port)
    except OSError as exc:
        raise TransportError(cannot_listen(address, port, exc), address=f"{address}:{port}") from exc
    server = RemotingServer(listeners, handler, limits or ServerLimits(), hooks, on_open, on_close, budget, share)
    task_status.started(server)
    await server.run()


def cannot_listen(host: str, port: int, exc: OSError) -> str:
    """The text of an error: why an address cannot be listened on, and what to do about it."""
    reason = f"cannot listen on {host}:{port}: {exc}"
    if exc.errno == errno.EADDRINUSE:
        return f"{reason}; another process has the port: stop it, or choose another port (0 takes a free one)"
    if exc.errno == errno.EADDRNOTAVAIL:
        return f"{reason}; this machine has no such address"
    if exc.errno in (errno.EACCES, errno.EPERM):
        return f"{reason}; ports below 1024 need privileges: choose a higher one"
    return reason


def _cannot_accept(exc: OSError) -> str:
    if exc.errno in _TOO_MANY_FILES:
        remedy = "raise the limit of open files (ulimit -n)"
    elif exc.errno in (errno.ENOMEM, errno.ENOBUFS):
        remedy = "free memory on this machine"
    else:
        remedy = "the log of this machine's kernel may say more"
    return f"no connection can be accepted ({exc}): trying again; {remedy}"


def _host_of(address: str) -> str:
    return address.rpartition(":")[0]
