"""One attempt of a send: what it consists of, and what it needs of a connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import attrs

from rocketpy.client.meter import Cell
from rocketpy.client.preparing.outgoing import Outgoing
from rocketpy.client.send_hooks import SendContext
from rocketpy.message import MessageQueue
from rocketpy.wire.command import RemotingCommand

if TYPE_CHECKING:
    from rocketpy.client.routes.publish_info import TopicPublishInfo
    from rocketpy.remoting.hooks import RequestHook
    from rocketpy.results import LocalTransactionState, SendResult
    from rocketpy.wire.codes import SerializeType

__all__ = ["AnyConnection", "Attempt", "Choice", "RequestConnection", "Tracer", "WritingConnection"]

Choice = Callable[["TopicPublishInfo"], MessageQueue]
"""Chooses the queue of a send that does not leave it to us."""


class RequestConnection(Protocol):
    """What a connection needs for an attempt to be made for it."""

    @property
    def address(self) -> str:
        """The peer as "host:port"."""
        ...

    @property
    def hooks(self) -> Sequence[RequestHook]:
        """What wants to see typed requests."""
        ...

    @property
    def serialize_type(self) -> SerializeType:
        """How headers are encoded."""
        ...

    def next_opaque(self) -> int:
        """The number for the next request."""
        ...

    def on_go_away(self) -> object:
        """The peer has asked us to go away: take no more requests, and let the next one dial. In the trio thread."""
        ...


AnyConnection = TypeVar("AnyConnection", bound=RequestConnection)


class WritingConnection(RequestConnection, Protocol):
    """What a connection needs besides for a request without an answer."""

    def send_frame(self, frame: bytes) -> None:
        """Write a frame."""
        ...


class Tracer(Protocol):
    """Records the sends, transactions and recalls of a producer, on any thread; never raises, never waits."""

    def sent(self, outgoing: Outgoing, address: str, seconds: float, result: SendResult) -> None:
        """Record a message that was stored after `seconds`."""
        ...

    def ended(
        self,
        topic: str,
        properties: Mapping[str, str],
        message_id: str,
        transaction_id: str | None,
        address: str,
        state: LocalTransactionState,
        *,
        from_check: bool,
    ) -> None:
        """Record the state of a transaction, which is about to be sent, perhaps as the answer to a check."""
        ...

    def recalled(self, topic: str, message_id: str, region: str, *, success: bool) -> None:
        """Record a recall that a broker has answered."""
        ...


_Connection_co = TypeVar("_Connection_co", bound=RequestConnection, covariant=True)


@attrs.define(eq=False)
class Attempt(Generic[_Connection_co]):
    """One attempt of a send, in flight."""

    outgoing: Outgoing
    queue: MessageQueue
    broker_name: str
    address: str
    connection: _Connection_co
    opaque: int
    frame: bytes
    started: float
    """On trio's clock."""
    command: RemotingCommand | None = None
    """The request as fields, if request hooks need it."""
    others: bool = False
    """Whether there is another broker that could take the message."""
    cell: Cell | None = None
    """Counts the attempt when it is acknowledged; None if the cell must be looked up then."""
    context: SendContext | None = None
    """The context for send hooks; None if there are none, and after they were called with the outcome."""
