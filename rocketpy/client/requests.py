"""Requests of one client that wait for their replies, by correlation id.

A broker pushes a reply over the client's own connection, and the reader of that connection completes the request it
belongs to: in the trio thread, where all of this lives. Replies that nobody waits for are counted, and told in one line
a second at most. Plays the part of RequestFutureHolder and RequestResponseFuture.
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
"""Requests of one client that may wait for replies."""
_MOST_ENDED: Final = 10_000
"""Requests that have ended without a reply and are remembered, so that a late one is known for what it is."""


def new_correlation_id() -> str:
    """A name for a request, in the form of a UUID. Any thread."""
    text = f"{random_source().getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@attrs.frozen
class ReplyCounts:
    """What became of the requests of a client so far."""

    pending: int
    """Requests that wait for a reply now."""
    replied: int
    """Requests that got one."""
    late: int
    """Replies to requests that had ended by then: by their timeout, or because somebody gave them up."""
    unknown: int
    """Replies to requests that this client has never made, or got a reply to before."""


@attrs.define(eq=False)
class PendingRequest:
    """One request.

    Attributes:
        correlation_id: Its name.
        owner: Who has made it.
        reply: What has come; None while nothing has.
        ended: Set when the reply is here, or nobody will hear of it any more.
        sending: The part of it in which it is sent; cancelled when the reply is here before the answer to that.
    """

    correlation_id: str
    owner: object
    reply: MessageExt | None = None
    ended: trio.Event = attrs.Factory(trio.Event)
    sending: trio.CancelScope = attrs.Factory(trio.CancelScope)

    def end(self, reply: MessageExt | None) -> None:
        """The reply is here, or will never be heard of."""
        self.reply = reply
        self.ended.set()
        self.sending.cancel()


class Requests:
    """The table of one client. For its trio thread alone.

    Args:
        callbacks: Gets the processor of replies that brokers push.
    """

    def __init__(self, callbacks: Callbacks) -> None:
        callbacks.processors[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = self._pushed
        self._pending: dict[str, PendingRequest] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._replied = self._late = self._unknown = 0
        self._seldom = Seldom(logger, clock=trio.current_time)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._pending)

    def counts(self) -> ReplyCounts:
        """What became of the requests so far."""
        return ReplyCounts(len(self._pending), self._replied, self._late, self._unknown)

    def open(self, correlation_id: str, owner: object) -> PendingRequest:
        """A request begins. `close` ends it.

        Raises:
            TooManyRequestsError: as many wait as may.
        """
        if len(self._pending) >= MOST:
            raise TooManyRequestsError(f"{MOST} requests of this client wait for replies: wait until some have ended")
        made = self._pending[correlation_id] = PendingRequest(correlation_id, owner)
        return made

    def close(self, pending: PendingRequest) -> None:
        """A request has ended, with or without a reply."""
        if self._pending.pop(pending.correlation_id, None) is not None:
            self._ended[pending.correlation_id] = None
            while len(self._ended) > _MOST_ENDED:
                self._ended.popitem(last=False)

    def end(self, owner: object = None) -> None:
        """End what waits, of one owner or of all: the producer or the client closes."""
        for pending in list(self._pending.values()):
            if owner is None or pending.owner is owner:
                pending.end(None)

    def take(self, reply: MessageExt, address: str) -> None:
        """A broker has pushed a reply."""
        correlation_id = reply.properties.get(PropertyName.CORRELATION_ID, "")
        pending = self._pending.pop(correlation_id, None)
        if pending is not None:
            self._replied += 1
            pending.end(reply)
        elif correlation_id in self._ended:
            del self._ended[correlation_id]
            self._late += 1
            self._seldom.warning(
                "late", "a reply came when its request %s had ended: allow a longer timeout", correlation_id
            )
        else:
            self._unknown += 1
            self._seldom.warning(
                "unknown", "%s pushed a reply to a request %r that is not this client's", address, correlation_id
            )

    def _pushed(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """The answer is success even where nobody waits for the reply, as in Java."""
        header = ReplyMessageRequestHeader.from_ext(request.ext_fields)
        self.take(pushed_reply(header, request.body, arrived=wall_ms()), connection.address)
        return request.answer()
