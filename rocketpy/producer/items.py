"""Messages as they wait for company: checked and encoded when they are given, for as little as that can be had.

What is done to a message afterwards changes nothing, and what is wrong with it is told at once. Ids are given when the
batch goes, for all of it together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

from rocketpy.errors import LocalProtocolError
from rocketpy.message import Message, MessageQueue, PropertyName
from rocketpy.results import SendResult
from rocketpy.wire.names import is_retry_topic
from rocketpy.wire.properties import MAX_PROPERTIES_SIZE, encode_properties

if TYPE_CHECKING:
    from rocketpy.client.outgoing import Outgoing, Preparer
    from rocketpy.config import ProducerConfig

__all__ = ["Entry", "Head", "Items", "Outcome", "Sink"]

_MAX_KNOWN_TOPICS: Final = 10_000
_ID_SIZE: Final = 70
"""Bytes that an id may take, with its name."""
_ALONE: Final = frozenset(
    {
        PropertyName.DELAY,
        PropertyName.TIMER_DELAY_MS,
        PropertyName.TIMER_DELAY_SEC,
        PropertyName.TIMER_DELIVER_MS,
        PropertyName.TRANSACTION_PREPARED,
        PropertyName.PRODUCER_GROUP,
        PropertyName.MESSAGE_TYPE,
    }
)
"""A message with one of these never waits for others: it is delayed, half of a transaction, or a reply."""

Outcome: TypeAlias = SendResult | BaseException


class Sink(Protocol):
    """Hears what becomes of one message.

    Attributes:
        is_gone: Whether nobody wants it sent any more.
    """

    is_gone: bool

    def hear(self, outcome: Outcome) -> None:
        """This became of it, once. In the trio thread; must not raise."""


class Head(NamedTuple):
    """What a message has besides its body. That of the next message is often the same, and so is this."""

    properties: bytes
    """Encoded, perhaps without a unique id."""
    message_id: str | None
    """The unique id that it has already."""
    wait: str
    """Whether the broker answers only when it is safe, as the property says it."""
    sharding_key: str | None


class Entry(NamedTuple):
    """One message that waits for company."""

    topic: str
    body: bytes
    flag: int
    head: Head
    outgoing: Outgoing | None
    """How it travels when it is large enough to be compressed: alone."""
    sink: Sink
    queue: MessageQueue | None
    """Where it goes; None for any queue, or that of its sharding key."""
    timeout: float
    tries: int
    deadline: float
    """For it, on the clock of the client."""
    waits: bool
    """Whether its sender waits for the answer."""


class Items:
    """Makes entries of messages, for one producer. Safe from any thread: what it keeps is replaced as a whole.

    Args:
        config: The settings.
        preparer: Checks messages, and encodes those that travel alone.
    """

    def __init__(self, config: ProducerConfig, preparer: Preparer) -> None:
        self._preparer = preparer
        self._small = min(config.compress_body_over, config.max_message_size)
        self._topics: set[str] = set()
        """Topics that a message may have that waits for others."""
        self._known: tuple[dict[str, str], Head | None] = {}, self._head({})

    def head(self, message: Message) -> Head | None:
        """Check a message that has a body; None when it must not wait for others.

        Raises:
            ConfigError: it may not be sent.
            LocalProtocolError: its properties cannot be encoded, or are too long.
        """
        if type(message) is not Message or type(message.body) is not bytes or message.topic not in self._topics:
            self._preparer.checked(message)
            if is_retry_topic(message.topic):
                return None
            if len(self._topics) < _MAX_KNOWN_TOPICS:
                self._topics.add(message.topic)
        if not 0 < len(message.body) < self._small:
            self._preparer.checked(message)
        properties, head = self._known
        if message.properties != properties:
            properties = message.properties.copy()
            head = self._head(properties)
            self._known = properties, head
        return head

    def _head(self, properties: dict[str, str]) -> Head | None:
        if not _ALONE.isdisjoint(properties):
            return None
        try:
            encoded = encode_properties(properties, refuse_separators=True).encode()
        except UnicodeEncodeError as exc:
            raise LocalProtocolError(f"message properties are not valid Unicode: {exc}") from exc
        if len(encoded) + _ID_SIZE > MAX_PROPERTIES_SIZE:
            raise LocalProtocolError(
                f"the properties take {len(encoded)} bytes, the limit is {MAX_PROPERTIES_SIZE - _ID_SIZE}"
            )
        get = properties.get
        return Head(
            encoded, get(PropertyName.UNIQUE_KEY), get(PropertyName.WAIT, "true"), get(PropertyName.SHARDING_KEY)
        )

    def entry(
        self,
        message: Message,
        head: Head,
        sink: Sink,
        queue: MessageQueue | None,
        timeout: float,
        tries: int,
        deadline: float,
        *,
        waits: bool,
    ) -> Entry:
        """A message that waits for company.

        Args:
            message: What is sent.
            head: Its head.
            sink: Hears what becomes of it.
            queue: Where it goes; None for any queue, or that of its sharding key.
            timeout: Seconds for it.
            tries: How many there may be.
            deadline: For it, on the clock of the client.
            waits: Whether its sender waits for the answer.
        """
        body = message.body
        outgoing = None if len(body) < self._small else self._preparer.one(message)
        return Entry(message.topic, body, message.flag, head, outgoing, sink, queue, timeout, tries, deadline, waits)
