"""A batch that fills by itself: messages that travel in one frame, and who hears what becomes of each.

Every message is encoded when it is sent, so that what is done to it afterwards changes nothing, and what is wrong with
it is told at once. A batch is never compressed; a message that is large enough for that travels alone. Pure. Plays the
part of MessageAccumulation in ProduceAccumulator.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Final, NamedTuple, Protocol, TypeAlias

from rocketpy.client.outgoing import Outgoing
from rocketpy.errors import LocalProtocolError, MessageIllegalError, RocketMQError
from rocketpy.message import MessageQueue, PropertyName
from rocketpy.results import SendResult
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.names import is_retry_topic
from rocketpy.wire.properties import MAX_PROPERTIES_SIZE, encode_properties

__all__ = ["FIXED", "Batch", "Entry", "Key", "Outcome", "Sink", "entry_of", "may_share", "own_error"]

_SEND_BATCH = int(RequestCode.SEND_BATCH_MESSAGE)
_HEAD: Final = struct.Struct(">iiiii")
_LENGTH: Final = struct.Struct(">h")
FIXED: Final = _HEAD.size + _LENGTH.size
"""Bytes that a message takes in a frame besides its body and its properties."""
_WAIT: Final = PropertyName.WAIT
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

Key: TypeAlias = "MessageQueue | tuple[str, str, float, int]"
"""What the messages of a batch have in common: the queue; or topic, wait_store_ok, timeout and number of tries."""

Outcome: TypeAlias = SendResult | BaseException


class Sink(Protocol):
    """Hears what becomes of one message.

    Attributes:
        is_gone: Whether nobody wants it sent any more.
    """

    is_gone: bool

    def hear(self, outcome: Outcome) -> None:
        """This became of it, once. In the trio thread; must not raise."""


class Entry(NamedTuple):
    """One message that waits for company."""

    outgoing: Outgoing
    properties: bytes
    sink: Sink
    queue: MessageQueue | None
    """Where it goes; None for any queue, or that of its sharding key."""
    timeout: float
    tries: int
    deadline: float
    """For it, on the clock of the client."""
    waits: bool
    """Whether its sender waits for the answer."""


def may_share(outgoing: Outgoing) -> bool:
    """Whether a message may wait for others and travel with them."""
    message = outgoing.message
    return not outgoing.has_counts and _ALONE.isdisjoint(message.properties) and not is_retry_topic(message.topic)


def entry_of(
    outgoing: Outgoing,
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
        outgoing: The message.
        sink: Hears what becomes of it.
        queue: Where it goes; None for any queue, or that of its sharding key.
        timeout: Seconds for it.
        tries: How many there may be.
        deadline: For it, on the clock of the client.
        waits: Whether its sender waits for the answer.

    Raises:
        LocalProtocolError: its properties cannot be encoded, or are too long.
    """
    try:
        properties = outgoing.properties.encode()
    except UnicodeEncodeError as exc:
        raise LocalProtocolError(f"message properties are not valid Unicode: {exc}") from exc
    if len(properties) > MAX_PROPERTIES_SIZE:
        raise LocalProtocolError(f"the properties take {len(properties)} bytes, the limit is {MAX_PROPERTIES_SIZE}")
    return Entry(outgoing, properties, sink, queue, timeout, tries, deadline, waits)


class Batch:
    """Messages that travel together.

    Args:
        key: What they have in common.
        queue: Where they go, None for any queue.
        wait: Whether the broker answers only when they are safe, as the property says it.
        timeout: Seconds for each of them.
        tries: How many there may be.
        due: When it goes even if it is not full, on the clock of the client.

    Attributes:
        entries: The messages.
        size: Bytes of their bodies.
        frame_size: Bytes that they take in the frame.
        is_awaited: Whether somebody waits for one of them, so that it goes as soon as no other of its key is under way.
    """

    __slots__ = (
        "due",
        "entries",
        "frame_size",
        "is_awaited",
        "key",
        "queue",
        "size",
        "timeout",
        "tries",
        "wait",
    )

    def __init__(
        self,
        key: Key,
        queue: MessageQueue | None,
        wait: str,
        timeout: float,
        tries: int,
        due: float,
    ) -> None:
        self.key = key
        self.queue = queue
        self.wait = wait
        self.timeout = timeout
        self.tries = tries
        self.due = due
        self.entries: list[Entry] = []
        self.size = 0
        self.frame_size = 0
        self.is_awaited = False

    def __len__(self) -> int:
        """How many messages."""
        return len(self.entries)

    @property
    def first_deadline(self) -> float:
        """That of the message that was given first."""
        return self.entries[0].deadline

    def deadline(self, spread: float) -> float:
        """When sending it ends: with the first deadline where those of all are close together, else with the last."""
        first, last = self.entries[0].deadline, self.entries[-1].deadline
        return first if last - first <= spread else last

    def expire(self, now: float) -> list[Sink]:
        """Those whose deadline is over, and who still wait. Their messages stay where they are, and nobody hears."""
        late = [entry.sink for entry in self.entries if entry.deadline <= now and entry.sink is not _NOBODY]
        if late:
            self.entries = [each._replace(sink=_NOBODY) if each.deadline <= now else each for each in self.entries]
        return late

    def is_like(self, wait: str, timeout: float, tries: int) -> bool:
        """Whether a message to the same queue may join it."""
        return self.wait == wait and self.timeout == timeout and self.tries == tries

    def outgoing(self) -> Outgoing | None:
        """What is sent: without the messages that nobody waits for any more; None when there is no other."""
        entries = self.entries = [entry for entry in self.entries if not entry.sink.is_gone]
        if not entries:
            return None
        first = entries[0].outgoing
        if len(entries) == 1:
            return first
        text = encode_properties({_WAIT: self.wait})
        ids = ",".join([entry.outgoing.message_id for entry in entries])
        return Outgoing(first.message, _SEND_BATCH, _joined(entries), text, 0, ids, is_batch=True)

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches in its place: what it holds is refused, and perhaps only one message is at fault."""
        middle = len(self.entries) // 2
        return self._with(self.entries[:middle]), self._with(self.entries[middle:])

    def _with(self, entries: list[Entry]) -> Batch:
        made = Batch(self.key, self.queue, self.wait, self.timeout, self.tries, self.due)
        made.entries = entries
        return made

    def is_refused(self, outcome: Outcome) -> bool:
        """Whether a broker has refused what it holds, and it holds more than one message."""
        if len(self.entries) < 2 or not isinstance(outcome, BaseException):
            return False
        return isinstance(outcome, MessageIllegalError) or isinstance(outcome.__cause__, MessageIllegalError)

    def tell(self, outcome: Outcome) -> None:
        """Tell everybody what became of their messages."""
        entries = self.entries
        if isinstance(outcome, BaseException):
            entries[0].sink.hear(outcome)
            for entry in entries[1:]:
                entry.sink.hear(own_error(outcome))
        elif len(entries) == 1:
            entries[0].sink.hear(outcome)
        else:
            for entry, result in zip(entries, _split(outcome, entries), strict=True):
                entry.sink.hear(result)


class _Nobody:
    """Hears nothing."""

    is_gone = True

    def hear(self, outcome: Outcome) -> None:
        """Nothing."""


_NOBODY: Final = _Nobody()


def _joined(entries: Sequence[Entry]) -> bytes:
    """The body of the frame; part after part of all messages together, so that the loops are the interpreter's own."""
    outgoings = [entry.outgoing for entry in entries]
    texts = [entry.properties for entry in entries]
    bodies = [outgoing.body for outgoing in outgoings]
    body_sizes, sizes = list(map(len, bodies)), list(map(len, texts))
    totals = [FIXED + size + body_size for size, body_size in zip(sizes, body_sizes, strict=True)]
    flags = [outgoing.message.flag for outgoing in outgoings]
    heads = map(_HEAD.pack, totals, repeat(0), repeat(0), flags, body_sizes)
    lengths = {size: _LENGTH.pack(size) for size in set(sizes)}
    items = zip(heads, bodies, map(lengths.__getitem__, sizes), texts, strict=True)
    return b"".join(chain.from_iterable(items))


def _split(result: SendResult, entries: Sequence[Entry]) -> Iterator[SendResult]:
    """The result of each message: they are stored one after the other.

    A broker that stores a batch as one message gives it one id; the offsets count all the same.
    """
    ids = result.offset_message_id.split(",")
    if len(ids) != len(entries):
        ids = [result.offset_message_id] * len(entries)
    status, queue, first, transaction_id, region, trace_on = (
        result.status,
        result.queue,
        result.queue_offset,
        result.transaction_id,
        result.region_id,
        result.trace_on,
    )
    new = tuple.__new__  # the class's own takes twice as long
    for offset, (entry, offset_id) in enumerate(zip(entries, ids, strict=True), first):
        message_id = entry.outgoing.message_id
        yield new(SendResult, (status, message_id, offset_id, queue, offset, transaction_id, region, trace_on))


def own_error(error: BaseException) -> BaseException:
    """An error of its own for each message, or tracebacks would pile up on a shared one."""
    if not isinstance(error, RocketMQError):
        return error
    made = copy.copy(error)
    made.__cause__ = error.__cause__
    return made
