"""Pushed replies: requests of the broker to the clients that made requests, which the clients answer.

A push is not a task, but an entry in the table of its connection, with a deadline and a function that is called with
the outcome. Pushes under way are bounded, and end when the broker stops. Plays the part of callClient in Broker2Client,
where a thread waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import trio

from rocketpy.errors import RemoteProtocolError, RequestTimeoutError, RocketMQError
from rocketpy.logs import Seldom, get_logger, quote
from rocketpy.wire.codes import ResponseCode
from rocketpy.wire.serialize import encode_command
from rocketpy_broker_sim.broker.to_clients.calling import CALL_SECONDS
from rocketpy_broker_sim.serving.memory import OVERHEAD

if TYPE_CHECKING:
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand
    from rocketpy.wire.frame import Frame
    from rocketpy_broker_sim.broker.tables.clients import ClientChannel
    from rocketpy_broker_sim.serving.memory import Account

__all__ = ["Pushed", "ReplyPushes"]

log = get_logger(__name__)

Pushed = Callable[[str | None], object]
"""Called once with the outcome of a push: None if the client has taken the reply, otherwise the reason."""

_STOPS = "the broker stops"


class ReplyPushes:
    """The pushes of one broker.

    Args:
        most: The largest number of pushes under way.
        account: Counts the memory kept for pushes under way.

    Attributes:
        pushed: The number of replies that clients have taken.
        failed: The number of replies that could not be pushed.
    """

    def __init__(self, most: int, account: Account) -> None:
        self.pushed = 0
        self.failed = 0
        self._most = most
        self._account = account
        self._under_way: dict[_Push, None] = {}
        self._stopped = False
        self._seldom = Seldom(log, clock=trio.current_time)

    def __len__(self) -> int:
        """The number of pushes under way."""
        return len(self._under_way)

    def has_room(self, replier: Connection) -> bool:
        """Take room to push one more reply of this connection, which `push` gives back. False if there is none."""
        return len(self._under_way) < self._most and self._account.charge(replier, OVERHEAD)

    def push(self, replier: Connection, asker: ClientChannel | None, command: RemotingCommand, done: Pushed) -> None:
        """Push a reply, for which `has_room` has taken room; `done` may be called before this returns.

        Args:
            replier: The connection over which the reply came.
            asker: The connection of the client that made the request; None if no client with that id is connected.
            command: The request to that client.
            done: Called with the outcome.
        """
        made = _Push(self, replier, done)
        if self._stopped:
            made.end(_STOPS)
        elif asker is None:
            made.end("no producer with the id of the client that made the request is connected to this broker")
        else:
            made.begin(asker, command)

    def note_begun(self, push: _Push) -> None:
        """Add a push that is under way."""
        self._under_way[push] = None

    def note_ended(self, push: _Push, replier: Connection, failure: str | None) -> None:
        """Remove a push that has ended."""
        self._under_way.pop(push, None)
        self._account.release(replier, OVERHEAD)
        if failure is None:
            self.pushed += 1
        else:
            self.failed += 1
            self._seldom.warning("failed", "a reply of %s was not pushed: %s", replier.address, failure)

    def settle(self) -> None:
        """End all pushes, so that their senders get answers, and start no more."""
        self._stopped = True
        for push in list(self._under_way):
            push.give_up()


class _Push:
    """One push."""

    __slots__ = ("_asker", "_done", "_opaque", "_pushes", "_replier")

    def __init__(self, pushes: ReplyPushes, replier: Connection, done: Pushed) -> None:
        self._pushes = pushes
        self._replier = replier
        self._done: Pushed | None = done
        self._asker: Connection | None = None
        self._opaque = 0

    def begin(self, asker: ClientChannel, command: RemotingCommand) -> None:
        """Send it."""
        self._asker = connection = cast("Connection", asker.channel)
        command.opaque = self._opaque = connection.next_opaque()
        command.serialize_type = connection.serialize_type
        self._pushes.note_begun(self)
        try:
            frame = encode_command(command)
            connection.start_request(self._opaque, frame, trio.current_time() + CALL_SECONDS, self._answered)
        except RocketMQError as exc:
            self.end(f"nothing can be sent to {asker}: {exc}")

    def _answered(self, answer: Frame | RocketMQError) -> None:
        try:
            self.end(self._judged(answer))
        except RemoteProtocolError as exc:
            self.end(f"the client has sent an invalid answer: {exc}")

    def _judged(self, answer: Frame | RocketMQError) -> str | None:
        """The reason why the client has not taken the reply, None if it has.

        Raises:
            RemoteProtocolError: the answer is not valid; the connection is closed.
        """
        if isinstance(answer, RequestTimeoutError):
            return f"the client has not answered within {CALL_SECONDS:g} s"
        if isinstance(answer, RocketMQError):
            return "the connection of the client has ended"
        assert self._asker is not None
        command = self._asker.decode_answer(answer)
        if command.code == ResponseCode.SUCCESS:
            return None
        return f"the client refused the reply with code {command.code}: {quote(command.remark or '')}"

    def give_up(self) -> None:
        """End the push, because the broker stops."""
        if self._asker is not None:
            self._asker.give_up(self._opaque)
        self.end(_STOPS)

    def end(self, failure: str | None) -> None:
        """Pass on the outcome, once."""
        done, self._done = self._done, None
        if done is not None:
            self._pushes.note_ended(self, self._replier, failure)
            done(failure)
