"""Requests of one client that wait for their replies, by correlation id.

A broker pushes a reply over the client's own connection, and the reader of that connection completes the request. All
of this runs in the trio thread. Replies without a waiting request are counted, and logged at most once a second. Plays
the part of RequestFutureHolder and RequestResponseFuture.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

import attrs
import trio

from rocketpy.errors import TooManyRequestsError
from rocketpy.logs import Seldom, get_logger
from rocketpy.message import MessageExt, PropertyName
from rocketpy.seams import random_source, wall_ms
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.headers.send import ReplyMessageRequestHeader
from rocketpy.wire.pushed_reply import pushed_reply

if TYPE_CHECKING:
    from rocketpy.client.callbacks import Callbacks
    from rocketpy.remoting.connection import Connection
    from rocketpy.wire.command import RemotingCommand

__all__ = ["PendingRequest", "ReplyCounts", "Requests", "new_correlation_id"]

logger = get_logger(__name__)

MOST: Final = 10_000
"""The largest number of requests of one client that wait for replies."""
_MOST_ENDED: Final = 10_000
"""The number of requests that are remembered after they have ended without a reply, to recognize late replies."""


def new_correlation_id() -> str:
    """A new correlation id, in the form of a UUID. Thread-safe."""
    text = f"{random_source().getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@attrs.frozen
class ReplyCounts:
    """Counts of the requests and replies of a client."""

    pending: int
    """Requests that wait for a reply now."""
    replied: int
    """Requests that got a reply."""
    late: int
    """Replies that arrived after their request had timed out or was cancelled."""
    unknown: int
    """Replies to requests that this client never made, or that already had a reply."""


@attrs.define(eq=False)
class PendingRequest:
    """One request.

    Attributes:
        correlation_id: The correlation id.
        owner: The producer that made the request.
        reply: The reply; None until it arrives.
        ended: Set when the reply has arrived, or will not be taken any more.
        sending: The scope in which the message is sent; cancelled if the reply arrives before the broker's answer.
    """

    correlation_id: str
    owner: object
    reply: MessageExt | None = None
    ended: trio.Event = attrs.Factory(trio.Event)
    sending: trio.CancelScope = attrs.Factory(trio.CancelScope)

    def end(self, reply: MessageExt | None) -> None:
        """End the request, with a reply or without one."""
        self.reply = reply
        self.ended.set()
        self.sending.cancel()


class Requests:
    """The requests of one client. For its trio thread only.

    Args:
        callbacks: The table of processors, which gets the one for pushed replies.
    """

    def __init__(self, callbacks: Callbacks) -> None:
        callbacks.processors[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = self._pushed
        self._pending: dict[str, PendingRequest] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._replied = self._late = self._unknown = 0
        self._seldom = Seldom(logger, clock=trio.current_time)

    def __len__(self) -> int:
        """The number of requests that wait."""
        return len(self._pending)

    def counts(self) -> ReplyCounts:
        """Counts of requests and replies so far. Thread-safe."""
        return ReplyCounts(len(self._pending), self._replied, self._late, self._unknown)

    def open(self, correlation_id: str, owner: object) -> PendingRequest:
        """Add a request, until `close` removes it.

        Raises:
            TooManyRequestsError: too many requests wait.
        """
        if len(self._pending) >= MOST:
            raise TooManyRequestsError(f"{MOST} requests of this client wait for replies: wait until some have ended")
        made = self._pending[correlation_id] = PendingRequest(correlation_id, owner)
        return made

    def close(self, pending: PendingRequest) -> None:
        """Remove a request, which has ended with or without a reply."""
        if self._pending.pop(pending.correlation_id, None) is not None:
            self._ended[pending.correlation_id] = None
            while len(self._ended) > _MOST_ENDED:
                self._ended.popitem(last=False)

    def end(self, owner: object = None) -> None:
        """End the requests of one owner, or of all, because the producer or the client closes."""
        for pending in list(self._pending.values()):
            if owner is None or pending.owner is owner:
                pending.end(None)

    def take(self, reply: MessageExt, address: str) -> None:
        """Pass a pushed reply to its request."""
        correlation_id = reply.wire_properties.get(PropertyName.CORRELATION_ID, "")
        pending = self._pending.pop(correlation_id, None)
        if pending is not None:
            self._replied += 1
            pending.end(reply)
        elif correlation_id in self._ended:
            del self._ended[correlation_id]
            self._late += 1
            self._seldom.warning(
                "late", "a reply arrived after its request %s had ended: allow a longer timeout", correlation_id
            )
        else:
            self._unknown += 1
            self._seldom.warning(
                "unknown",
                "%s pushed a reply to the request %r, which has a reply already or is not of this client",
                address,
                correlation_id,
            )

    def _pushed(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Take a pushed reply. The answer is success even if no request waits for it, as in Java."""
        header = ReplyMessageRequestHeader.from_ext(request.ext_fields)
        self.take(pushed_reply(header, request.body, arrived=wall_ms()), connection.address)
        return request.answer()
