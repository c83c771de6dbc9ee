"""What peers can make a server keep: one budget in bytes for each server, and who counts what against it.

Beyond it the newest request of the greediest connection is refused, or that connection is closed
(`rocketpy.remoting.budget` says which one that is). Tables that outlive connections count too, by a plain reckoning of
what an entry takes: half of the budget is theirs at most, and a request that would make them larger is refused. What a
server reads from its own files at the start counts and is never refused, or it could not start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rocketpy.errors import BrokerError
from rocketpy.logs import get_logger
from rocketpy.remoting.budget import CONNECTIONS, Budget
from rocketpy.wire.codes import ResponseCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand

__all__ = [
    "ANSWERS",
    "BUDGET_BYTES",
    "CONNECTIONS",
    "HELD_PULLS",
    "MEMBERSHIP",
    "OVERHEAD",
    "PUSHED_REPLIES",
    "REGISTRATIONS",
    "WAITING_REQUESTS",
    "WORK",
    "Account",
    "ConnectionCharges",
    "MemoryBudget",
    "TableRoom",
    "Uncounted",
    "size_of",
    "warn_of_full_tables",
]

log = get_logger(__name__)

BUDGET_BYTES = 256 * 1024 * 1024
"""What all peers of a server together may make it keep, unless `maxKeptBytes` says something else."""
OVERHEAD = 1024
"""Bytes that a request takes besides its body and its fields: objects, and places in tables."""

HELD_PULLS = "held pulls"
PUSHED_REPLIES = "pushed replies"
"""Replies that are being pushed, whose senders wait for the outcome."""
WAITING_REQUESTS = "waiting requests"
"""One-way requests among them: only the budget bounds how many a peer sends."""
MEMBERSHIP = "membership"
"""What heartbeats have left in the tables."""
ANSWERS = "answers"
"""Those that wait for the disk, or for the name servers."""
WORK = "work"
"""Requests that are carried out in slices."""
REGISTRATIONS = "registrations"


class Account(Protocol):
    """One kind of holding."""

    def charge(self, connection: Connection, size: int) -> bool:
        """Keep so many bytes more. False when they must not be kept: refuse the request."""
        ...

    def note(self, connection: Connection, size: int) -> None:
        """Keep so many bytes more that cannot be refused; the greediest connection is closed when they are too many."""
        ...

    def release(self, connection: Connection, size: int) -> None:
        """Let go of what was charged or noted."""
        ...


class Uncounted:
    """An account that counts nothing: of a part that stands alone."""

    def charge(self, connection: Connection, size: int) -> bool:
        """Always."""
        return True

    def note(self, connection: Connection, size: int) -> None:
        """Nothing."""

    def release(self, connection: Connection, size: int) -> None:
        """Nothing."""


class _KindOfHolding:
    def __init__(self, budget: Budget, kind: str) -> None:
        self._budget = budget
        self._kind = kind

    def charge(self, connection: Connection, size: int) -> bool:
        return self._budget.charge(connection, size, self._kind)

    def note(self, connection: Connection, size: int) -> None:
        self._budget.note(connection, size, self._kind)

    def release(self, connection: Connection, size: int) -> None:
        self._budget.release(connection, size, self._kind)


class ConnectionCharges:
    """What each connection has in a table that outlives its requests, until the connection closes.

    Args:
        account: where it counts.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._sizes: dict[Connection, int] = {}

    def of(self, connection: Connection) -> int:
        """Bytes that a connection has."""
        return self._sizes.get(connection, 0)

    def set(self, connection: Connection, size: int) -> bool:
        """A connection has so many bytes in all. Returns as `add` does."""
        return self.add(connection, size - self.of(connection))

    def add(self, connection: Connection, change: int) -> bool:
        """A connection has so many bytes more, or less. False when it must not have more: nothing is counted.

        What a connection has that has closed is not counted any more.
        """
        if not connection.is_open:
            return True
        kept = self._sizes.get(connection)
        change = max(change, -(kept or 0))
        if change > 0 and not self._account.charge(connection, change):
            return False
        if change < 0:
            self._account.release(connection, -change)
        if kept is None:
            self._sizes[connection] = change
            connection.add_close_callback(self._forget)
        else:
            self._sizes[connection] = kept + change
        return True

    def _forget(self, connection: Connection) -> None:
        size = self._sizes.pop(connection, 0)
        if size:
            self._account.release(connection, size)


class TableRoom:
    """What one table takes, of the room that the tables of a server share.

    Args:
        budget: that of the server; None for a table that stands alone, which is only measured.
        remedy: what to do when there is no room, as it stands in the refusal: "delete topics that are not needed".

    Attributes:
        taken: Bytes that the table is reckoned to take.
    """

    def __init__(self, budget: Budget | None = None, remedy: str = "") -> None:
        self.taken = 0
        self._budget = budget
        self._remedy = remedy

    def fits(self, change: int) -> bool:
        """Whether the table may take so many bytes more."""
        return self._budget is None or self._budget.fits_table(change)

    def take(self, change: int) -> None:
        """The table is about to take so many bytes more, or less.

        Raises:
            BrokerError: there is no room for them: nothing is counted.
        """
        if not self.fits(change):
            raise BrokerError.for_code(ResponseCode.SYSTEM_ERROR, self.refusal)
        self.note(change)

    def note(self, change: int) -> None:
        """The table takes so many bytes more, or less, whether there is room or not."""
        self.taken += change
        if self._budget is not None:
            self._budget.note_table(change)

    def set(self, size: int) -> None:
        """The table takes so many bytes, as read from its file."""
        self.note(size - self.taken)

    @property
    def refusal(self) -> str:
        """Why it may not take more, and what to do."""
        if self._budget is None:
            return self._remedy
        return (
            f"the tables of this server take {self._budget.tables} bytes, {self._budget.most_in_tables} are allowed: "
            f"{self._remedy}, or raise maxKeptBytes"
        )


def warn_of_full_tables(budget: Budget) -> None:
    """Say in the log that the tables which a server read from its own files leave no room for anything new."""
    if budget.tables > budget.most_in_tables:
        log.warning(
            "the tables of this server take %d bytes, %d are allowed: nothing can be added to them until enough is"
            " deleted, or maxKeptBytes is raised",
            budget.tables,
            budget.most_in_tables,
        )


class MemoryBudget(Budget):
    """The budget of one server.

    Args:
        most: bytes.
    """

    def __init__(self, most: int = BUDGET_BYTES) -> None:
        super().__init__(most)
        self._make_room: list[Callable[[int], object]] = []

    def on_tables_full(self, make_room: Callable[[int], object]) -> None:
        """Call a plain function with so many bytes that tables lack: it gives up what the server can do without."""
        self._make_room.append(make_room)

    def fits_table(self, size: int) -> bool:
        """Whether tables may take so many bytes more, also after what is not needed has made room."""
        if super().fits_table(size):
            return True
        for make_room in self._make_room:
            make_room(self.tables + size - self.most_in_tables)
        return super().fits_table(size)

    def account(self, kind: str) -> Account:
        """Where one part of the server counts what it keeps.

        A part that keeps something for a connection after it has closed drops that in `on_gave_way`.
        """
        return _KindOfHolding(self, kind)


def size_of(request: RemotingCommand) -> int:
    """About what a request takes while it is kept, in bytes."""
    fields = sum(len(name) + len(value) for name, value in request.ext_fields.items())
    return OVERHEAD + len(request.body) + fields
