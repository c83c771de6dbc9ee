"""Answers that have not left yet, and what they wait for.

A reply belongs to one request, or to a run of sends that were put together. Before it leaves its messages must be
written, or the disk must have them; it may also wait until the name servers know a topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.command import RemotingCommand

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection

__all__ = ["NOTHING_PUT", "Replies", "Reply", "refuse", "without_body"]

NOTHING_PUT = -1
"""The position of a reply that depends on no put."""


class Replies(Protocol):
    """The replies to one or several requests of a connection, which wait for the same.

    Attributes:
        connection: Whose they are.
        position: Where the log must have come to before they may leave; NOTHING_PUT when they depend on no put.
        for_disk: Whether the disk must have the log up to there; else it must be written.
        new_topic: The topic that the name servers must know; None when they may leave without that.
    """

    connection: Connection
    position: int
    for_disk: bool
    new_topic: str | None

    def __len__(self) -> int:
        """To how many requests."""
        ...

    def send(self) -> None:
        """Let them go."""
        ...

    def send_instead(self, code: int, remark: str) -> None:
        """Tell the peer this instead."""
        ...

    def send_as(self, code: int) -> None:
        """Let them go with another code: the messages are stored, and something about them is not as asked for."""
        ...

    def settle_down(self) -> None:
        """They are about to wait: keep no more than they need."""
        ...


class Reply:
    """The reply to one request."""

    __slots__ = ("command", "connection", "for_disk", "new_topic", "position", "request")

    def __init__(
        self,
        connection: Connection,
        request: RemotingCommand,
        command: RemotingCommand,
        position: int = NOTHING_PUT,
        *,
        for_disk: bool = False,
        new_topic: str | None = None,
    ) -> None:
        self.connection = connection
        self.request = request
        self.command = command
        self.position = position
        self.for_disk = for_disk
        self.new_topic = new_topic

    def __len__(self) -> int:
        """One."""
        return 1

    def send(self) -> None:
        """Let it go."""
        self.connection.send_answer(self.request, self.command)

    def send_instead(self, code: int, remark: str) -> None:
        """Tell the peer this instead."""
        self.connection.send_answer(self.request, self.request.answer(code, remark))

    def send_as(self, code: int) -> None:
        """Let it go with another code."""
        self.command.code = code
        self.send()

    def settle_down(self) -> None:
        """Forget the body of the request: it is in the log."""
        self.request = without_body(self.request)


def without_body(request: RemotingCommand) -> RemotingCommand:
    """What is needed of a request to answer it."""
    return RemotingCommand(
        request.code, opaque=request.opaque, flag=request.flag, serialize_type=request.serialize_type
    )


def refuse(replies: Sequence[Replies], remark: str) -> int:
    """Tell several peers that nothing can be stored now. Returns how many requests that were."""
    for each in replies:
        each.send_instead(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
    return sum(map(len, replies))
