"""Messages that linger to be sent in batches: they are checked and encoded when they are given, at little cost.

So an error is raised at once, and a message may be changed afterwards. Unique ids are assigned when the batch is sent,
to all of its messages together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from rocketpy.client.preparing.sound import check_flag, check_types
from rocketpy.errors import ConfigError, LocalProtocolError
from rocketpy.message import Message, MessageQueue, PropertyName
from rocketpy.results import SendResult
from rocketpy.wire.names import is_retry_topic
from rocketpy.wire.properties import MAX_PROPERTIES_SIZE, encode_properties

if TYPE_CHECKING:
    from rocketpy.client.preparing.outgoing import Outgoing, Preparer
    from rocketpy.config import ProducerConfig

__all__ = ["Head", "Items", "LingeringMessage", "Outcome", "OutcomeSink"]

_MAX_KNOWN_TOPICS: Final = 10_000
_new = tuple.__new__  # the class's own takes twice as long
_ID_SIZE: Final = 70
"""Bytes that a unique id may take, including its name."""
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
"""A message with one of these properties never lingers: it is delayed, a half message of a transaction, or a reply."""

Outcome: TypeAlias = SendResult | BaseException


class OutcomeSink(Protocol):
    """Gets the outcome of one message.

    Attributes:
        is_gone: Whether the sender has given up, so that the message need not be sent.
    """

    is_gone: bool

    def hear(self, outcome: Outcome) -> None:
        """Take the outcome. Called once, in the trio thread; must not raise."""

    @staticmethod
    def hear_all(sinks: Sequence[Any], results: Sequence[SendResult]) -> None:
        """Have sinks of this class take one result each: what `hear` does for each of them, at less cost together."""


class Head(NamedTuple):
    """What a message has besides its body. Consecutive messages often share one."""

    properties: bytes
    """Encoded, perhaps without a unique id."""
    message_id: str | None
    """The unique id, if the message has one already."""
    wait: str
    """Whether the broker answers only once the message is stored safely, as the text of the property."""
    sharding_key: str | None
    """Messages with the same key go to the same queue, in order; None if the message has none."""


class LingeringMessage(NamedTuple):
    """One message that lingers."""

    topic: str
    """Its topic."""
    body: bytes
    """Its body, as given."""
    flag: int
    """The number that the sender gave it."""
    head: Head
    """What it has besides its body."""
    outgoing: Outgoing | None
    """The message ready to be sent alone, if it is large enough to be compressed."""
    sink: OutcomeSink
    """Takes the result, or the error."""
    queue: MessageQueue | None
    """The chosen queue; None for any queue, or that of its sharding key."""
    timeout: float
    """How long the send may take, seconds."""
    tries: int
    """How often it may be tried."""
    deadline: float
    """On the clock of the client."""
    waits: bool
    """Whether the sender waits for the answer."""


class Items:
    """Makes entries of messages, for one producer. Thread-safe: its state is replaced as a whole.

    Args:
        config: The settings.
        preparer: Checks messages, and encodes those that are sent alone.
    """

    def __init__(self, config: ProducerConfig, preparer: Preparer) -> None:
        self._preparer = preparer
        self._small = min(config.compress_body_over, config.max_message_size)
        self._topics: set[str] = set()
        """Checked topics whose messages may linger."""
        self._last_head: tuple[dict[str, str], Head | None] = {}, self._head({})

    def head(self, message: Message) -> Head | None:
        """Check a message that has a body; returns None if it must not linger.

        Raises:
            ConfigError: it may not be sent.
            LocalProtocolError: its properties cannot be encoded, or are too long.
        """
        try:
            if type(message) is not Message or type(message.body) is not bytes or message.topic not in self._topics:
                self._preparer.checked(message)
                if is_retry_topic(message.topic):
                    return None
                if len(self._topics) < _MAX_KNOWN_TOPICS:
                    self._topics.add(message.topic)
            if message.flag != 0:
                check_flag(message.flag)
            if not 0 < len(message.body) < self._small:
                self._preparer.checked(message)
            properties, head = self._last_head
            if message.wire_properties != properties:
                properties = message.wire_properties.copy()
                head = self._head(properties)
                self._last_head = properties, head
            return head
        except (AttributeError, TypeError):
            check_types(message)
            raise

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
        key, wait = get(PropertyName.SHARDING_KEY), get(PropertyName.WAIT, "true")
        if key is not None and type(key) is not str:
            raise ConfigError(f"the sharding key of a message is a str, not {key!r:.100}")
        if type(wait) is not str:
            raise ConfigError(f"the property {PropertyName.WAIT} of a message is a str, not {wait!r:.100}")
        return Head(encoded, get(PropertyName.UNIQUE_KEY), wait, key)

    def entry(
        self,
        message: Message,
        head: Head,
        sink: OutcomeSink,
        queue: MessageQueue | None,
        timeout: float,
        tries: int,
        deadline: float,
        *,
        waits: bool,
    ) -> LingeringMessage:
        """Make the entry of a message that lingers.

        Args:
            message: The message.
            head: Its head, as `head` returned it.
            sink: Gets the outcome.
            queue: The chosen queue; None for any queue, or that of its sharding key.
            timeout: Seconds for the message.
            tries: The largest number of attempts.
            deadline: The deadline, on the clock of the client.
            waits: Whether the sender waits for the answer.
        """
        body = message.body
        outgoing = None if len(body) < self._small else self._preparer.one(message)
        values = (message.topic, body, message.flag, head, outgoing, sink, queue, timeout, tries, deadline, waits)
        return _new(LingeringMessage, values)
