"""What peers can make a server keep: one budget in bytes for each server, and who counts what against it.

Above it the newest of the greediest connection is refused, or that connection is closed (`rocketpy.remoting.budget`
says who is greedy). The figure is for what waits; tables that a server keeps for good have bounds of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rocketpy.remoting.budget import CONNECTIONS, Budget

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand

__all__ = [
    "BUDGET_BYTES",
    "CONNECTIONS",
    "HELD_PULLS",
    "MEMBERSHIP",
    "REGISTRATIONS",
    "WAITING_REQUESTS",
    "Account",
    "MemoryBudget",
    "size_of",
]

BUDGET_BYTES = 256 * 1024 * 1024
"""What all connections of a server together may make it keep."""
OVERHEAD = 1024
"""Bytes that a request takes beside its body and its fields: objects, and places in tables."""

HELD_PULLS = "held pulls"
WAITING_REQUESTS = "waiting requests"
"""One-way requests among them: nobody but the budget bounds how many a peer sends."""
MEMBERSHIP = "membership"
"""What heartbeats have left in the tables."""
REGISTRATIONS = "registrations"


class Account(Protocol):
    """One kind of holding."""

    def charge(self, connection: Connection, size: int) -> bool:
        """Keep so many bytes more. False when they must not be kept: refuse the request."""
        ...

    def release(self, connection: Connection, size: int) -> None:
        """Let go of what was charged."""
        ...


class _KindOfHolding:
    def __init__(self, budget: Budget, kind: str) -> None:
        self._budget = budget
        self._kind = kind

    def charge(self, connection: Connection, size: int) -> bool:
        return self._budget.charge(connection, size, self._kind)

    def release(self, connection: Connection, size: int) -> None:
        self._budget.release(connection, size, self._kind)


class MemoryBudget(Budget):
    """The budget of one server.

    Args:
        most: bytes.
    """

    def __init__(self, most: int = BUDGET_BYTES) -> None:
        super().__init__(most)

    def account(self, kind: str) -> Account:
        """Where one part of the server counts what it keeps."""
        return _KindOfHolding(self, kind)


def size_of(request: RemotingCommand) -> int:
    """About what a request takes while it is kept, in bytes."""
    fields = sum(len(name) + len(value) for name, value in request.ext_fields.items())
    return OVERHEAD + len(request.body) + fields
