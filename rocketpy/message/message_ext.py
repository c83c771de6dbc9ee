"""MessageExt: a message as it came from a broker, with where and when it was stored.

This class holds values that are there already; user code makes one to test a listener. What a pull answer is decoded
to is its subclass `rocketpy.wire.stored_message.StoredMessage`, which unpacks on first use. Plays the part of
MessageExt.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rocketpy.message.accessors import PropertyAccessors
from rocketpy.message.message_queue import MessageQueue
from rocketpy.message.property_names import KEY_SEPARATOR, PropertyName
from rocketpy.message.property_views import ReceivedProperties
from rocketpy.message.values import NO_VALUE
from rocketpy.serialization.content_types import CONTENT_TYPE, decoded
from rocketpy.serialization.named import serializer

if TYPE_CHECKING:
    from rocketpy.serialization.content_types import OwnSerializers
    from rocketpy.serialization.serializer import Serializer

__all__ = ["MessageExt", "RecordHead"]

_NO_HOST = b"\0" * 8


class RecordHead(NamedTuple):
    """The fixed part of a stored message, in the order in which it is written."""

    total_size: int
    """Bytes of the whole record, this field included; 0 for a message that was read from no record."""
    magic: int
    """The number that says which layout the record has; 0 if there is none."""
    body_crc: int
    """CRC-32 of the body as stored, without its top bit."""
    queue_id: int
    """Number of its queue on the broker."""
    flag: int
    """The number that the producer set; RocketMQ gives it no meaning."""
    queue_offset: int
    """Offset in its queue, in messages."""
    physical_offset: int
    """Position of the record in the commit log, in bytes."""
    sys_flag: int
    """Bits that say how the body is packed, what part it has in a transaction and whether the hosts are IPv6."""
    born_timestamp: int
    """When the producer sent it, ms since 1970."""
    born_host: bytes
    """Address (4 or 16 bytes) and port (4 bytes)."""
    store_timestamp: int
    """When the broker stored it, ms since 1970."""
    store_host: bytes
    """The broker's address and port, in the form of `born_host`."""
    reconsume_times: int
    """How many times it was sent back for another attempt."""
    prepared_transaction_offset: int
    """Position, in bytes, of the half message that it was committed from; 0 if it came from none."""
    body_length: int
    """Bytes of the body as stored."""


class MessageExt(PropertyAccessors):
    """A message that a broker holds.

    Attributes:
        topic: The topic; a consumer puts the original one back on messages that come from a retry topic.
        broker_name: The broker it was read from, "" when that is not known.
    """

    __slots__ = ("_body", "_head", "_own", "_properties", "_value", "broker_name", "topic")

    topic: str
    broker_name: str
    _head: RecordHead
    """Where it comes straight from the decoder, a plain tuple in that order. Code of this package that looks at every
    message indexes it, as each property would cost a call."""
    _body: bytes
    _properties: dict[str, str]
    _own: OwnSerializers
    """The serializers of the consumer, if it has any; see `client.preparing.values`."""
    _value: Any
    """The decoded value, set on first access."""

    def __init__(
        self,
        topic: str,
        body: bytes = b"",
        *,
        value: Any = NO_VALUE,
        tags: str | None = None,
        keys: Iterable[str] = (),
        properties: Mapping[str, str] | None = None,
        queue_id: int = 0,
        queue_offset: int = 0,
        reconsume_times: int = 0,
        born_timestamp: int = 0,
        store_timestamp: int = 0,
        broker_name: str = "",
    ) -> None:
        self.topic = topic
        self.broker_name = broker_name
        self._body = body
        self._properties = dict(properties or {})
        if value is not NO_VALUE:
            self._value = value
        if tags is not None:
            self._properties[PropertyName.TAGS] = tags
        if keys:
            self._properties[PropertyName.KEYS] = keys if isinstance(keys, str) else KEY_SEPARATOR.join(keys)
        self._head = RecordHead(
            total_size=0,
            magic=0,
            body_crc=0,
            queue_id=queue_id,
            flag=0,
            queue_offset=queue_offset,
            physical_offset=0,
            sys_flag=0,
            born_timestamp=born_timestamp,
            born_host=_NO_HOST,
            store_timestamp=store_timestamp,
            store_host=_NO_HOST,
            reconsume_times=reconsume_times,
            prepared_transaction_offset=0,
            body_length=len(body),
        )

    @property
    def body(self) -> bytes:
        """The payload, unpacked when it was stored compressed.

        Raises:
            MessageDecodeError: the stored bytes cannot be unpacked.
        """
        return self._body

    @property
    def value(self) -> Any:
        """The value in the body, decoded by the content type in the message's properties; without one, the body.

        It is decoded on first access, and then stays the same object. Copy it before you change it, because a message
        that is retried in the same process may be the same object too. The types are those of the format: tuples become
        lists, and objects of classes become dicts.

        Raises:
            UnknownContentTypeError: neither this library nor the consumer (`serializers`) knows the content type.
            SerializationError: the body does not match its content type, is nested too deep, or has too many members.
            MessageDecodeError: the stored bytes cannot be unpacked.
        """
        found = getattr(self, "_value", NO_VALUE)
        if found is NO_VALUE:
            found = self.body
            content_type = self.wire_properties.get(CONTENT_TYPE)
            if content_type is not None:
                found = decoded(found, content_type, getattr(self, "_own", ()), self)
            self._value = found
        return found

    def decode(self, by: str | Serializer) -> Any:
        """Decode the body by a given format, for messages of producers that do not set a content type.

        Args:
            by: "json", "msgpack", "string" or "binary", or a serializer of your own.

        Raises:
            SerializationError: the body is not of this format, or exceeds its bounds.
            ConfigError: there is no such format.
            MessageDecodeError: the stored bytes cannot be unpacked.
        """
        return serializer(by).decode(self.body)

    @property
    def wire_properties(self) -> dict[str, str]:
        """All properties by their names on the wire, the user's and RocketMQ's own, as they came.

        Most programs want `properties`.
        """
        return self._properties

    @property
    def properties(self) -> ReceivedProperties:
        """The properties that the sender has given, as a mapping that cannot be changed.

        RocketMQ's own properties are in `system_properties`; their names are missing here.
        """
        return ReceivedProperties(self.wire_properties)

    # The head is indexed, not asked by name: it is a plain tuple where it comes straight from the decoder.

    @property
    def store_size(self) -> int:
        """Bytes of the whole stored record."""
        return self._head[0]

    @property
    def body_crc(self) -> int:
        """CRC-32 of the body as stored, without its top bit."""
        return self._head[2]

    @property
    def queue_id(self) -> int:
        """Number of the queue on its broker."""
        return self._head[3]

    @property
    def flag(self) -> int:
        """The user's own number."""
        return self._head[4]

    @property
    def queue_offset(self) -> int:
        """Position in the queue."""
        return self._head[5]

    @property
    def commit_log_offset(self) -> int:
        """Position in the commit log of the broker."""
        return self._head[6]

    @property
    def sys_flag(self) -> int:
        """Bits of `rocketpy.wire.sysflag` as they were stored."""
        return self._head[7]

    @property
    def born_timestamp(self) -> int:
        """When the producer sent it, ms since 1970 by the producer's clock."""
        return self._head[8]

    @property
    def born_host(self) -> str:
        """Where the producer was, as ``ip:port``."""
        return _host_text(self._head[9])

    @property
    def store_timestamp(self) -> int:
        """When the broker stored it, ms since 1970 by the broker's clock."""
        return self._head[10]

    @property
    def store_host(self) -> str:
        """Where the broker was, as ``ip:port``."""
        return _host_text(self._head[11])

    @property
    def reconsume_times(self) -> int:
        """How often its group has given it back."""
        return self._head[12]

    def count_failed_attempt(self) -> None:
        """One more attempt failed and no broker could be told: a consumer tries again itself, and counts itself."""
        head = RecordHead._make(self._head)
        self._head = head._replace(reconsume_times=head.reconsume_times + 1)

    @property
    def prepared_transaction_offset(self) -> int:
        """Commit log position of the half message that this one commits."""
        return self._head[13]

    @property
    def offset_message_id(self) -> str:
        """The id that names broker and commit log position."""
        return f"{self._head[11].hex().upper()}{self._head[6] & 0xFFFFFFFFFFFFFFFF:016X}"

    @property
    def message_id(self) -> str:
        """The id that the producer gave; the offset id for messages without one."""
        return self.wire_properties.get(PropertyName.UNIQUE_KEY) or self.offset_message_id

    @property
    def queue(self) -> MessageQueue:
        """The queue it was read from, under its present topic."""
        return MessageQueue(self.topic, self.broker_name, self._head[3])

    def __repr__(self) -> str:
        """Short form for logs: never the body."""
        return f"<MessageExt {self.message_id} of {self.topic}@{self.broker_name}:{self.queue_id}+{self.queue_offset}>"


def _host_text(host: bytes) -> str:
    port = int.from_bytes(host[-4:], "big", signed=True)
    if len(host) == 8:
        return f"{host[0]}.{host[1]}.{host[2]}.{host[3]}:{port}"
    return f"[{ipaddress.IPv6Address(host[:16])}]:{port}"
