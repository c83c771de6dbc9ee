"""What the store is given and what it answers: messages to put, results of put and get, and their statuses.

The statuses have Java's names, because their names travel as remarks.
Plays the part of MessageExtBrokerInner, PutMessageResult, AppendMessageResult, GetMessageResult and
QueryMessageResult.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import repeat
from typing import NamedTuple

import attrs

from rocketpy.message import MessageExt, PropertyName
from rocketpy.wire.message_codec import BatchItem, decode_record
from rocketpy.wire.words import big_endian, long_array, words_of

__all__ = [
    "Arrival",
    "ArrivedEntry",
    "GetMessageResult",
    "GetMessageStatus",
    "IncomingMessage",
    "KeyQueryResult",
    "MessageRun",
    "PlacedRun",
    "PutMessageResult",
    "PutMessageStatus",
]


class PutMessageStatus(Enum):
    """What became of a put."""

    PUT_OK = 0
    FLUSH_DISK_TIMEOUT = 1
    FLUSH_SLAVE_TIMEOUT = 2
    SLAVE_NOT_AVAILABLE = 3
    SERVICE_NOT_AVAILABLE = 4
    MESSAGE_ILLEGAL = 5
    PROPERTIES_SIZE_EXCEEDED = 6
    UNKNOWN_ERROR = 7
    CREATE_MAPPED_FILE_FAILED = 8
    OS_PAGE_CACHE_BUSY = 9
    TOO_MANY_WAIT = 10
    """Ours: so many sends wait for the disk that no other may."""
    TOO_MANY_QUEUES = 11
    """Ours: it would be the first of its queue, and no more queues may be made."""


class GetMessageStatus(Enum):
    """What a read found."""

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    MESSAGE_WAS_REMOVING = 2
    OFFSET_FOUND_NULL = 3
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    OFFSET_TOO_SMALL = 6
    NO_MATCHED_LOGIC_QUEUE = 7
    NO_MESSAGE_IN_QUEUE = 8
    OFFSET_RESET = 9


@attrs.define(eq=False)
class IncomingMessage:
    """A message on its way into the log, with everything but the positions and the store time.

    Attributes:
        properties: The property text as it will be stored; for a batch, what is added to every item's own. Bytes are
            stored as they are, and hold no checksum.
        born_host: Address of the producer as stored: 8 bytes (IPv4 and port) or 20 (IPv6 and port).
        store_host: Address of this broker, in the same form.
        tags_code: Hash of the tag, when the caller has it; None lets the store find the tag itself.
        batch: The items of a batch (their body, flag and properties); `body` and `flag` are unused then.
        was_stored: Whether the log has it already, in another place. It was accepted then, and maxMessageSize does not
            apply, which may be less by now.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: str | bytes = ""
    flag: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: bytes = bytes(8)
    store_host: bytes = bytes(8)
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    tags_code: int | None = None
    batch: Sequence[BatchItem] | None = None
    was_stored: bool = False


class MessageRun(NamedTuple):
    """Messages of one sender for the queues of one topic, column by column; with no delay level.

    Attributes:
        topic: The topic of all of them.
        flag: The number that the producer set.
        sys_flag: Bits that say how the bodies are packed and what part they have in a transaction.
        born_host: Address of the producer as stored: 8 bytes (IPv4 and port) or 20 (IPv6 and port).
        store_host: Address of this broker, in the same form.
        reconsume_times: How many times they were sent back for another attempt.
        queue_ids: Number of the queue of each message.
        bodies: Body of each message, as it is stored.
        properties: What is stored of the properties of each message.
        born_timestamps: When each message was sent, ms since 1970.
        prepared: Positions of the half messages that they were committed from; None when they come from none.
    """

    topic: str
    flag: int
    sys_flag: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int
    queue_ids: Sequence[int]
    bodies: Sequence[bytes]
    properties: Sequence[bytes]
    born_timestamps: Sequence[int]
    prepared: Sequence[int] | None = None


class PlacedRun(NamedTuple):
    """Where the messages of a run stand.

    Attributes:
        positions: Where each record starts in the commit log.
        queue_offsets: Offset of each message in its queue.
        end: First byte of the log behind the last one.
    """

    positions: Sequence[int]
    queue_offsets: Sequence[int]
    end: int


class ArrivedEntry(NamedTuple):
    """One message that can be read now, as its queue knows it.

    Attributes:
        topic: The topic of the queue.
        queue_id: Number of the queue.
        offset: Where it stands in its queue.
        tags_code: Hash of its tag.
        properties: As they are stored.
    """

    topic: str
    queue_id: int
    offset: int
    tags_code: int
    properties: bytes


class Arrival(NamedTuple):
    """New messages of one queue that can be read now: the last of them stands before the end of the queue.

    Attributes:
        topic: The topic of the queue.
        queue_id: Number of the queue.
        max_offset: The queue's end after them.
        tags_codes: Tag hash of each new message, in order.
        properties: Of each, as they are stored.
        size: Bytes of their records.
    """

    topic: str
    queue_id: int
    max_offset: int
    tags_codes: Sequence[int]
    properties: Sequence[bytes] = ()
    size: int = 0

    def entries(self) -> Iterator[ArrivedEntry]:
        """The messages one by one."""
        first = self.max_offset - len(self.tags_codes)
        each = zip(self.tags_codes, self.properties or repeat(b""), strict=False)
        for number, (code, properties) in enumerate(each):
            yield ArrivedEntry(self.topic, self.queue_id, first + number, code, properties)


class PutMessageResult:
    """What became of a put, and where the message stands.

    Attributes:
        status: PUT_OK or why not; with any other status nothing was stored.
        physical_offset: Where the (first) record starts in the commit log.
        queue_offset: Offset of the (first) message in its queue.
        size: Bytes of all its records.
        store_timestamp: When it was stored, ms.
        offsets: Where each record of a batch starts; empty for a single message.
    """

    __slots__ = ("_store_host", "offsets", "physical_offset", "queue_offset", "size", "status", "store_timestamp")

    def __init__(
        self,
        status: PutMessageStatus,
        physical_offset: int = -1,
        queue_offset: int = -1,
        size: int = 0,
        store_timestamp: int = 0,
        store_host: bytes = b"",
        offsets: Sequence[int] = (),
    ) -> None:
        self.status = status
        self.physical_offset = physical_offset
        self.queue_offset = queue_offset
        self.size = size
        self.store_timestamp = store_timestamp
        self._store_host = store_host
        self.offsets = offsets

    @property
    def end(self) -> int:
        """First byte of the log behind the put; it is safe once flushed up to here."""
        return self.physical_offset + self.size

    @property
    def offset_message_id(self) -> str:
        """The id made of address and position; one for each item of a batch, joined by commas."""
        host = self._store_host
        if not self.offsets:
            return f"{host.hex().upper()}{self.physical_offset & 0xFFFFFFFFFFFFFFFF:016X}"
        size = len(host) + 8
        words, step = array("i", (host + bytes(8)) * len(self.offsets)), size // 4
        words[step - 2 :: step], words[step - 1 :: step] = map(big_endian, words_of(long_array(self.offsets)))
        return words.tobytes().hex(",", size).upper()

    def __repr__(self) -> str:
        """One line for a log."""
        return f"<PutMessageResult {self.status.name} at {self.physical_offset}, queue offset {self.queue_offset}>"


@attrs.define(eq=False)
class GetMessageResult:
    """What a read found, and where to go on.

    Attributes:
        records: The stored records, joined.
        next_begin_offset: Where the next read starts; moves over messages that were filtered out.
        suggest_pulling_from_slave: Whether the reader lags so far behind that a slave should serve it.
    """

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    records: bytes = b""
    count: int = 0
    suggest_pulling_from_slave: bool = False


class KeyQueryResult(NamedTuple):
    """What a query by key found.

    Attributes:
        records: The stored records, in the order of the log.
        last_timestamp: Store time of the last message that is indexed, ms; 0 when nothing was found.
        last_position: Where that message stands; likewise.
    """

    records: list[bytes]
    last_timestamp: int
    last_position: int

    def with_key(self, key: str) -> list[bytes]:
        """Those records whose message really has the key, or the unique id: others may have the same hash."""
        return [record for record in self.records if _has_key(decode_record(record), key)]


def _has_key(message: MessageExt, key: str) -> bool:
    return key in message.keys or message.wire_properties.get(PropertyName.UNIQUE_KEY) == key


Match = Callable[[int], bool]
"""Says by the tag hash of a message whether a reader wants it."""
