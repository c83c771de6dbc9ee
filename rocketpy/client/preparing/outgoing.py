"""What goes out in a send: a message or a batch, checked, compressed and encoded once, however many attempts follow.

Pure. A retry sends the same `Outgoing` again, with the same unique id, so that a consumer can tell a repetition. Plays
the part of Validators, of the first half of DefaultMQProducerImpl.sendKernelImpl, and of MessageBatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from operator import contains
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from rocketpy.client.preparing.parts import parted
from rocketpy.client.preparing.sound import check_flag, check_types, explaining
from rocketpy.client.preparing.values import Values, give_serializers
from rocketpy.config import TransactionProducerConfig
from rocketpy.errors import ConfigError
from rocketpy.message import Message, MessageExt, MessageQueue, PropertyName
from rocketpy.message.reply import REPLY, Reply
from rocketpy.wire.batch import check_batch, encode_batch
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.compression import compress, compression_flag
from rocketpy.wire.message_columns import MessageColumns
from rocketpy.wire.names import NOT_ALLOWED_SEND, check_topic, is_retry_topic
from rocketpy.wire.properties import encode_properties

if TYPE_CHECKING:
    from rocketpy.config import ProducerConfig
    from rocketpy.wire.message_id import UniqueIds

__all__ = ["Outgoing", "Preparer"]

M = TypeVar("M", bound=Message)

_MAX_KNOWN_TOPICS = 10_000
_TIMES = frozenset({PropertyName.TIMER_DELAY_SEC, PropertyName.TIMER_DELAY_MS, PropertyName.TIMER_DELIVER_MS})
_CHOOSING = frozenset({PropertyName.SHARDING_KEY, PropertyName.MESSAGE_TYPE})
"""Properties of messages whose queue is not free to choose, and of replies."""
_SEND, _SEND_BATCH = int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE)
_SEND_REPLY = int(RequestCode.SEND_REPLY_MESSAGE_V2)
"""As plain numbers: members of an enumeration are slow to look up and to hash."""


@attrs.define(eq=False)
class Outgoing:
    """Everything about a send that does not change from try to try."""

    message: Message
    """What the user gave; the first one of a batch."""
    code: int
    body: bytes
    """As it travels."""
    properties: str
    sys_flag: int
    message_id: str
    """The unique id; those of a batch, joined by commas."""
    is_batch: bool = False
    reconsume_times: int = 0
    max_reconsume_times: int | None = None

    has_counts: bool = False
    """Whether the counts of a message to a retry topic stand in the header."""
    timed: bool = False
    """Whether it has a time of delivery, which not every broker knows."""
    chosen: MessageQueue | None = None
    """The queue whose turn it was when there was no connection: the message keeps it, so that none is left out."""
    is_plain: bool = False
    """Whether it is a message that may go to any queue, with nothing to be looked at: nearly every one is."""
    is_reply: bool = False
    """Whether it is a reply, which the broker pushes to the client that made the request."""
    stands_in: bool = False
    """Whether `message` is not the user's, and does not have its properties."""
    renew: Callable[[], Outgoing] | None = None
    """Returns what to send in its place if it could not be sent at once. None if that is always this, or once a
    connection has got it."""

    @property
    def topic(self) -> str:
        """Where it goes."""
        return self.message.topic


class Preparer:
    """Makes messages ready for one producer. Thread-safe: it keeps what can be replaced as a whole."""

    def __init__(self, config: ProducerConfig, unique_ids: UniqueIds) -> None:
        """Look at the settings once.

        Raises:
            ConfigError: the package for the type of compression is not installed.
        """
        self._config = config
        self._unique_ids = unique_ids
        self._values = Values(config.serializer)
        self._known_topics: set[str] = set()
        self._encoded: tuple[dict[str, str], str, bool, bool] = {}, "", False, True
        self._small = min(config.compress_body_over, config.max_message_size)
        """Bodies of fewer bytes travel as they are."""
        self._compressed = compression_flag(config.compress_type)
        compress(b"", config.compress_type)  # so that a missing package is found out now, not at the first large body

    def one(self, message: Message) -> Outgoing:
        """Make one message ready.

        Raises:
            ConfigError: it may not be sent; the text says what is wrong.
            SerializationError: its value cannot be written.
        """
        try:
            if (
                type(message) is not Message
                or type(message.body) is not bytes
                or message.topic not in self._known_topics
            ):
                message = self.checked(message)
            body, sys_flag = message.body, 0
            if not 0 < len(body) < self._small:
                message = self.checked(message)
                body, sys_flag = self._compress(message.body)
            if message.flag != 0:
                check_flag(message.flag)
            properties = message.wire_properties
            known, text, timed, plain = self._encoded
            if properties != known:
                text, timed, plain = self._encode(properties)
            message_id = properties.get(PropertyName.UNIQUE_KEY)
            if message_id is None:
                message_id = self._unique_ids.next()
                text = f"{text}{PropertyName.UNIQUE_KEY}\x01{message_id}\x02"
            outgoing = Outgoing(message, _SEND, body, text, sys_flag, message_id)
            if is_retry_topic(message.topic):
                _move_reconsume_times(outgoing)
            else:
                outgoing.is_plain = plain
            if timed:
                outgoing.timed = True
            if not plain and properties.get(PropertyName.MESSAGE_TYPE) == REPLY:
                _make_reply(outgoing)
            return outgoing
        except (AttributeError, TypeError):
            check_types(message)
            raise

    def filled(self, message: M) -> M:
        """The message itself; of one with a value a copy with that as its body, not checked otherwise.

        Raises:
            SerializationError: the value cannot be written.
        """
        return message if type(message) is Message and message.body else self._values.filled(message)

    def checked(self, message: M) -> M:
        """The same, checked.

        Raises:
            ConfigError: it may not be sent; the text says what is wrong.
            SerializationError: its value cannot be written.
        """
        message = self._values.filled(message)
        self._check(message)
        return message

    def read(self, message: MessageExt) -> MessageExt:
        """A message that came back to the producer, whose value its own serializer may read."""
        give_serializers([message], self._values.own)
        return message

    def take_ids(self, count: int) -> list[str]:
        """Return the given number of unique ids."""
        return self._unique_ids.take(count)

    def _compress(self, body: bytes) -> tuple[bytes, int]:
        """The body as it travels, and what the flags say of it."""
        config = self._config
        if len(body) < config.compress_body_over:
            return body, 0
        packed = compress(body, config.compress_type, config.compress_level)
        # What does not shrink grows a little, perhaps beyond what a broker takes.
        return (packed, self._compressed) if len(packed) < len(body) else (body, 0)

    def _encode(self, properties: dict[str, str]) -> tuple[str, bool, bool]:
        """The text of properties, whether they say when to deliver, and whether they leave the queue to us.

        Kept, for those of the next message are often alike.
        """
        if PropertyName.TRANSACTION_PREPARED in properties:
            self._check_half(properties)
        text = encode_properties(properties, refuse_separators=True)
        timed = PropertyName.DELAY not in properties and not _TIMES.isdisjoint(properties)
        plain = not timed and _CHOOSING.isdisjoint(properties)
        self._encoded = properties.copy(), text, timed, plain  # replaced as a whole: other threads read it
        return text, timed, plain

    def _check_half(self, properties: dict[str, str]) -> None:
        """Refuse the properties of a half message, except in the half messages of this producer.

        A consumer gets them with each message of a transaction, and who copies all of them to a new message would send
        one that is never delivered.
        """
        makes_halves = isinstance(self._config, TransactionProducerConfig)
        if makes_halves and properties.get(PropertyName.PRODUCER_GROUP) == self._config.group:
            return
        if str(properties[PropertyName.TRANSACTION_PREPARED]).lower() == "true":
            raise ConfigError(
                f"the property {PropertyName.TRANSACTION_PREPARED} makes this a half message, which is not delivered "
                "before its transaction commits: send it with send_in_transaction of a TransactionProducer, or remove "
                "the property, which a message that was received may have left there"
            )

    def batch(self, messages: Sequence[Message], *, checked: bool = False) -> Outgoing:
        """Make a batch ready: one frame, one queue, a unique id for every message.

        Args:
            messages: what travels together.
            checked: whether the caller has checked already that they may.

        Raises:
            ConfigError: the messages cannot travel together, or are too large together.
            SerializationError: the value of one cannot be written.
        """
        messages = self._all_checked(messages, checked=checked)
        with explaining(messages):
            return self._batch(messages)

    def _batch(self, messages: Sequence[Message]) -> Outgoing:
        ids = self._ids(messages)
        body = encode_batch(messages, ids)
        if len(body) > self._config.max_message_size:
            if len(messages) == 1:  # it needs no frame around it
                return self.one(messages[0])
            raise ConfigError(
                f"the {len(messages)} messages make a batch of {len(body)} bytes, the limit is "
                f"{self._config.max_message_size}: send fewer at once, split them with batches, or use send_many"
            )
        first = messages[0]
        text = encode_properties({PropertyName.WAIT: first.wire_properties.get(PropertyName.WAIT, "true")})
        return Outgoing(first, _SEND_BATCH, body, text, 0, ",".join(ids), is_batch=True)

    def _ids(self, messages: Sequence[Message]) -> Sequence[str]:
        """The unique ids of messages, new ones for those that have none of their own."""
        if type(messages) is MessageColumns:
            return messages.unique_ids or self._unique_ids.take(len(messages))
        ids = self._unique_ids.take(len(messages))
        key = PropertyName.UNIQUE_KEY
        if any(map(contains, [message.wire_properties for message in messages], repeat(key))):
            ids = [message.wire_properties.get(key, own) for message, own in zip(messages, ids, strict=True)]
        return ids

    def batches(self, messages: Iterable[Message], max_size: int | None) -> list[list[Message]]:
        """Messages of one topic, put into batches that are each small enough to be sent, in their order.

        Args:
            messages: what `batch` takes, in any number.
            max_size: bytes that a batch may have on its way; `max_message_size` when None.

        Raises:
            ConfigError: the messages cannot travel together, or one is too large by itself.
            SerializationError: the value of one cannot be written.
        """
        limit = self._config.max_message_size
        if max_size is not None:
            limit = _checked_size(max_size, limit)
        if not isinstance(messages, Iterable):
            raise ConfigError(f"batches are made of an iterable of messages, not {messages!r:.100}")
        given = list(messages)
        return parted(self._all_checked(given, checked=False), limit) if given else []

    def _all_checked(self, messages: Sequence[Message], *, checked: bool) -> Sequence[Message]:
        """The messages, every one checked by itself, and all of them together; with bodies in the place of values."""
        if not isinstance(messages, Sequence):
            raise ConfigError(f"a batch is a list of messages, not {messages!r:.100}")
        with explaining(messages):
            return self._each_checked(messages, checked=checked)

    def _each_checked(self, messages: Sequence[Message], *, checked: bool) -> Sequence[Message]:
        limit = self._config.max_message_size
        if type(messages) is MessageColumns and max(messages.body_sizes) <= limit:
            self._check(messages[0])  # for the topic; all else was checked when the columns were made
            return messages
        for message in messages:
            if type(message) is not Message or type(body := message.body) is not bytes or not 0 < len(body) <= limit:
                if self._values.holds_value(message):
                    return self._each_checked([self._values.filled(each) for each in messages], checked=checked)
                self._check(message)  # which says what is wrong
        if not checked:
            check_batch(messages)
            _check_keys(messages)
        self._check(messages[0])  # for the topic, which all share
        return messages

    def _check(self, message: Message) -> None:
        if not isinstance(message, Message):
            raise _no_message(message)
        if message.topic not in self._known_topics:
            self._check_topic(message.topic)
        if message.flag != 0:
            check_flag(message.flag)
        body = message.body
        if type(body) is not bytes or not body:
            raise _no_body(message)
        if len(body) > self._config.max_message_size:
            raise ConfigError(
                f"the body has {len(body)} bytes, the limit is {self._config.max_message_size}: send less in one "
                "message, or raise max_message_size here and maxMessageSize of the brokers"
            )

    def _check_topic(self, topic: str) -> None:
        check_topic(topic)
        if topic in NOT_ALLOWED_SEND:
            raise ConfigError(f"clients cannot send to the topic {topic}: only the broker writes to it")
        if len(self._known_topics) < _MAX_KNOWN_TOPICS:
            self._known_topics.add(topic)


def _checked_size(size: Any, limit: int) -> int:
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= limit:
        raise ConfigError(f"max_size must be a whole number of bytes from 1 to {limit}, not {size!r:.100}")
    return size


def _check_keys(messages: Sequence[Message]) -> None:
    """A batch goes to one queue, which is that of one sharding key, or any."""
    keys = dict.fromkeys(message.wire_properties.get(PropertyName.SHARDING_KEY) for message in messages)
    if len(keys) > 1:
        first, second, *_ = [repr(key)[:80] for key in keys]
        raise ConfigError(
            f"the messages of a batch have different sharding keys, such as {first} and {second}, and go to one queue: "
            "give all of them the same key or none, or use send_many, which sorts them by their queues"
        )


def _no_message(given: object) -> ConfigError:
    if isinstance(given, MessageExt):
        return ConfigError(
            f"expected a Message, got {given!r:.100}, which was received from a broker: to forward it, make a new "
            "Message from its topic, tags, keys and body (or value)"
        )
    if isinstance(given, list | tuple):
        return ConfigError(f"expected a Message, got a {type(given).__name__}: send_batch and send_many take several")
    return ConfigError(f"expected a Message, got {given!r:.100}")


def _no_body(message: Message) -> ConfigError:
    """What is there now is not shown: it may be what nobody shall read in a log."""
    body: object = message.body
    found = "nothing" if body == b"" else f"an object of type {type(body).__name__}"
    return ConfigError(
        f"the body of a message to {message.topic} was replaced by {found}: it must be bytes, at least one"
    )


def _move_reconsume_times(outgoing: Outgoing) -> None:
    """A message to a retry topic carries its counts in the header, not among its properties."""
    properties = dict(outgoing.message.wire_properties)
    times = properties.pop(PropertyName.RECONSUME_TIME, None)
    maximum = properties.pop(PropertyName.MAX_RECONSUME_TIMES, None)
    properties[PropertyName.UNIQUE_KEY] = outgoing.message_id
    outgoing.properties = encode_properties(properties, refuse_separators=True)
    outgoing.reconsume_times = int(times) if times is not None else 0
    outgoing.max_reconsume_times = int(maximum) if maximum is not None else None
    outgoing.has_counts = outgoing.reconsume_times != 0 or maximum is not None


def _make_reply(outgoing: Outgoing) -> None:
    """Make it a reply: with a request code of its own, and sent to the broker that the request came from."""
    message = outgoing.message
    outgoing.code, outgoing.is_reply = _SEND_REPLY, True
    if isinstance(message, Reply):
        outgoing.chosen = MessageQueue(message.topic, message.broker_name, 0)
