"""The data connections of a client, by address: made in the background as soon as somebody outside of the loop sends.

The first sends to a broker take the way through the loop of the client. Once that has a connection to the broker, a
second one is dialled for those outside, and used by them as long as it is there; when it is lost they are back on the
first way, with its rules for dialling and trying again, until the next one stands.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from rocketpy.errors import ConnectError, RocketMQError
from rocketpy.logs import get_logger
from rocketpy.remoting.signing import SigningHook
from rocketpy.remoting.tcp import socket_of

if TYPE_CHECKING:
    from rocketpy.remoting.pool import ConnectionPool

__all__ = ["DataConnection", "DataLinks", "Maker"]

logger = get_logger(__name__)

_PAUSE = 1.0
"""Seconds between two dials of one address."""
_IDLE = 60.0
"""Seconds without a send after which a connection is closed; brokers close one after 120."""


class DataConnection(Protocol):
    """What the links know of a connection.

    Attributes:
        address: of the peer.
        error: why it ended, None while it is open.
        retired: whether it takes no requests any more.
        uses: how often it was asked for.
        sent_bytes: to the peer, since the beginning.
        received_bytes: from the peer, likewise.
    """

    address: str
    error: RocketMQError | None
    retired: bool
    uses: int

    @property
    def sent_bytes(self) -> int: ...

    @property
    def received_bytes(self) -> int: ...

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent now."""

    def send_frame(self, frame: bytes) -> None:
        """Send a frame that nobody answers."""

    def send_answer(self, frame: bytes) -> None:
        """Answer a request of the peer. A peer that does not read its answers is disconnected."""

    def retire(self) -> None:
        """Take no more requests, and close when those that wait are answered. Thread-safe."""

    def shut(self) -> None:
        """Close at once. Thread-safe."""

    def __len__(self) -> int:
        """How many requests wait for answers."""


Maker = Callable[[socket.socket, str, Callable[[DataConnection], object]], object]
"""Makes a connection of a socket that is connected, in the loop of the client; tells the function when it stands."""


class DataLinks:
    """Data connections of one client.

    `nowait` and `all` are for any thread, all else is for the loop of the client.

    Args:
        pool: the connections of the loop, beside which these stand.
    """

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._make: Maker | None = None
        self._post: Callable[[Callable[[], object]], object] | None = None
        self._links: dict[str, DataConnection] = {}
        self._asked: set[str] = set()
        self._not_before: dict[str, float] = {}
        self._nursery: trio.Nursery | None = None

    def attach(self, make: Maker, post: Callable[[Callable[[], object]], object]) -> None:
        """Have connections made from now on. Does nothing where users' hooks want to see every request.

        Args:
            make: makes one of a socket.
            post: has a function called in the loop of the client, from any thread.
        """
        if all(isinstance(hook, SigningHook) for hook in self._pool.hooks):
            self._make, self._post = make, post

    @property
    def is_attached(self) -> bool:
        """Whether `attach` was called since the client was opened, and did something."""
        return self._make is not None

    def nowait(self, address: str) -> DataConnection | None:
        """The connection to an address if there is one that can be used; otherwise one is asked for."""
        found = self._links.get(address)
        if found is not None and found.is_usable:
            found.uses += 1
            return found
        if found is not None and found.error is None and not found.retired:
            return None  # it has too much to do just now, and a second one would not help its peer
        post = self._post  # read once: the client may close at any moment
        if post is not None and address not in self._asked:
            self._asked.add(address)
            post(partial(self._dial_soon, address))
        return None

    def all(self) -> list[DataConnection]:
        """Those that stand."""
        return list(self._links.values())

    # --- in the loop of the client ----------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def run(self) -> None:
        """Make connections and close those that nobody uses, until cancelled; then close all."""
        try:
            async with trio.open_nursery() as self._nursery:
                await self._close_idle()
        finally:
            self._nursery = None
            self._post = self._make = None
            links, self._links = self._links, {}
            for connection in list(links.values()):
                connection.shut()

    async def _close_idle(self) -> None:
        before: dict[DataConnection, int] = {}
        while True:
            await trio.sleep(_IDLE / 2)
            for address, connection in list(self._links.items()):
                if connection.error is not None or (before.get(connection) == connection.uses and not len(connection)):
                    if self._links.get(address) is connection:  # and no other one stands there meanwhile
                        del self._links[address]
                    connection.retire()
            before = {connection: connection.uses for connection in self.all()}

    def _dial_soon(self, address: str) -> None:
        now = trio.current_time()
        if self._nursery is None or self._make is None or self._pool.nowait(address) is None:
            self._asked.discard(address)  # asked for again by the next send
        elif now < self._not_before.get(address, 0.0):
            self._asked.discard(address)
        else:
            self._not_before[address] = now + _PAUSE
            self._nursery.start_soon(self._dial, address, self._make)

    # --- dialling --------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    async def _dial(self, address: str, make: Maker) -> None:
        try:
            stream = await self._pool.connect(address)
            if not isinstance(stream, trio.SocketStream):
                await trio.aclose_forcefully(stream)  # memory, which lives in the loop alone
                self._post = None
                return
            link = socket_of(stream)
            try:
                make(link, address, self._stands)
            except Exception:  # whatever it is, nobody else has the socket to close it
                link.close()
                raise
        except (ConnectError, OSError, RuntimeError) as exc:
            logger.log(logging.DEBUG, "no data connection to %s: %s", address, exc)
        finally:
            self._asked.discard(address)

    def _is_running(self) -> bool:
        return self._nursery is not None

    def _stands(self, connection: DataConnection) -> None:
        """A connection stands; from any thread."""
        before = self._links.get(connection.address)
        self._links[connection.address] = connection
        if before is not None:
            before.retire()
        if not self._is_running():  # looked at last: the client may close at any moment, without having seen it
            connection.shut()
