"""One bound on the memory that all peers of a server make it keep: the peer that keeps most gives way first.

What is counted: begun frames, requests that wait, answers that nobody reads, and whatever else the server keeps for a
connection. Beyond the bound the newest request of the greediest connection is refused, or that connection is closed.
Greediest is the connection that keeps most on the host that keeps most; of equals, the newer one. So a peer that keeps
little is served whatever others do.

Tables that outlive connections take their bytes from the same budget, half of it at most. What they take, connections
lose; the other half is theirs whatever the tables hold, so that a full table closes nobody who keeps little.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketpy.errors import RemoteProtocolError

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection

__all__ = ["CONNECTIONS", "Budget"]

CONNECTIONS = "connections"
"""The kind under which a server counts begun frames, requests in hand and unread answers."""


class _Account:
    __slots__ = ("host", "kept", "order")

    def __init__(self, host: str, order: int) -> None:
        self.host = host
        self.order = order
        self.kept = 0


class Budget:
    """What each connection keeps, in bytes.

    Args:
        most: what all of them together may keep, and the tables with them.

    Attributes:
        most: The same.
        kept: What connections keep now.
        tables: What the tables take now.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.kept = 0
        self.tables = 0
        self._accounts: dict[Connection, _Account] = {}
        self._hosts: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._orders = itertools.count()
        self._drops: list[Callable[[Connection], object]] = []

    def on_gave_way(self, drop: Callable[[Connection], object]) -> None:
        """Call a plain function with each connection that has been closed to make room: let go of all it keeps."""
        self._drops.append(drop)

    def kinds(self) -> dict[str, int]:
        """What is kept, by kind."""
        return {kind: kept for kind, kept in self._kinds.items() if kept}

    @property
    def most_in_tables(self) -> int:
        """What tables may take, unless they were read at the start."""
        return self.most // 2

    @property
    def room(self) -> int:
        """What connections may keep now."""
        return self.most - min(self.tables, self.most_in_tables)

    def fits_table(self, size: int) -> bool:
        """Whether tables may take so many bytes more. They may always take less."""
        return size <= 0 or self.tables + size <= self.most_in_tables

    def note_table(self, size: int) -> None:
        """Tables take so many bytes more, or less. Greedy connections are closed where that takes their room."""
        self.tables += size
        while size > 0 and self.kept > self.room:
            top = self._find_greediest()
            if top is None or self._is_left_behind():
                break  # the rest was kept for connections that have closed
            self._close(top)

    def kept_for(self, connection: Connection) -> int:
        """What one connection keeps."""
        account = self._accounts.get(connection)
        return 0 if account is None else account.kept

    def charge(self, connection: Connection, size: int, kind: str) -> bool:
        """Keep so many bytes more for a connection, until `release`.

        Greedier connections are closed to make room. False when there is none: nothing is counted, and the caller
        refuses what it was about to keep.
        """
        self._add(connection, size, kind)
        if self._has_room_for(connection):
            return True
        self.release(connection, size, kind)
        return False

    def note(self, connection: Connection, size: int, kind: str) -> None:
        """Count what is kept already; the greediest connection is closed for it, which may be this one."""
        self._add(connection, size, kind)
        if not self._has_room_for(connection) and not self._is_left_behind():
            self._close(connection)

    def release(self, connection: Connection, size: int, kind: str) -> None:
        """Let go of bytes that were charged or noted. The caller that counted them calls this, even after the close."""
        account = self._accounts[connection]
        account.kept -= size
        self.kept -= size
        self._kinds[kind] -= size
        self._hosts[account.host] -= size
        if not self._hosts[account.host]:
            del self._hosts[account.host]
        if not account.kept:
            del self._accounts[connection]

    def _add(self, connection: Connection, size: int, kind: str) -> None:
        account = self._accounts.get(connection)
        if account is None:
            host = connection.address.rpartition(":")[0]
            account = self._accounts[connection] = _Account(host, next(self._orders))
        account.kept += size
        self.kept += size
        self._kinds[kind] += size
        self._hosts[account.host] += size

    def _has_room_for(self, connection: Connection) -> bool:
        while self.kept > self.room:
            if not connection.is_open:
                return False  # what it left behind is no reason to close others
            top = self._find_greediest()
            if top is None or top is connection or self._is_left_behind():
                return False
            self._close(top)
        return True

    def _is_left_behind(self) -> bool:
        """Whether open connections keep so little that the lack of room comes from those that have closed.

        Work that is done to its end goes on without its connection. That is no reason to close others.
        """
        return 2 * sum(account.kept for each, account in self._accounts.items() if each.is_open) <= self.room

    def _find_greediest(self) -> Connection | None:
        candidates = (connection for connection in self._accounts if connection.is_open)
        return max(candidates, key=self._greed, default=None)

    def _greed(self, connection: Connection) -> tuple[int, int, int]:
        account = self._accounts[connection]
        return self._hosts[account.host], account.kept, account.order

    def _close(self, connection: Connection) -> None:
        connection.close(
            RemoteProtocolError(
                f"{self.kept} bytes are kept for all connections, {self.room} are allowed: the one that keeps most"
                f" ({self.kept_for(connection)}) was closed; its client should read answers sooner or send less"
            )
        )
        for drop in self._drops:
            drop(connection)
