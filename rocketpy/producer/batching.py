"""Batch: messages that are sent in one frame, and the outcome of each.

A batch is never compressed; a message that is large enough to be compressed is sent alone. Pure. Plays the part of
MessageAccumulation in ProduceAccumulator.
"""

from __future__ import annotations

import copy
import math
import struct
from collections.abc import Callable, Sequence
from itertools import chain, count, repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from rocketpy.client.preparing.outgoing import Outgoing
from rocketpy.errors import MessageIllegalError, RequestTimeoutError, RocketMQError, unsent
from rocketpy.message import Message, MessageQueue, PropertyName
from rocketpy.results import SendResult
from rocketpy.wire.codes import RequestCode
from rocketpy.wire.properties import encode_properties

if TYPE_CHECKING:
    from collections import deque

    from rocketpy.producer.items import LingeringMessage, Outcome, OutcomeSink

__all__ = ["FIXED", "Batch", "Key", "Routeless", "own_error"]

_SEND, _SEND_BATCH = int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE)
_HEAD: Final = struct.Struct(">iiiii")
_LENGTH: Final = struct.Struct(">h")
_ID: Final = f"{PropertyName.UNIQUE_KEY}\x01%s\x02"
FIXED: Final = _HEAD.size + _LENGTH.size + len(_ID) + 56
"""Bytes that a message takes in a frame besides its body and its properties, with the longest possible id."""

Key: TypeAlias = "MessageQueue | tuple[str, str, float, int]"
"""What the messages of a batch have in common: the queue; or topic, wait_store_ok, timeout and number of attempts."""


class _Nobody:
    """The sink of a message that has already failed."""

    is_gone = True

    def hear(self, outcome: Outcome) -> None:
        """Ignore the outcome."""

    @staticmethod
    def hear_all(sinks: Sequence[Any], results: Sequence[SendResult]) -> None:
        """Ignore the outcomes."""


_NOBODY: Final = _Nobody()


class Routeless:
    """The messages of one topic that wait for its route, which determines the queues of their sharding keys.

    Attributes:
        entries: the messages.
        until: the end of the lookup that is under way, which tells those that wait as long.
    """

    def __init__(self, entries: list[LingeringMessage]) -> None:
        self.entries = entries
        self.until = -math.inf

    def begin_lookup(self) -> float:
        """Note, and return, until when the route is looked up now: as long as any of the messages may wait."""
        self.until = max(entry.deadline for entry in self.entries)
        return self.until

    def dues(self) -> list[float]:
        """The deadlines before the end of the lookup."""
        return [entry.deadline for entry in self.entries if entry.deadline < self.until]

    def expire(self, now: float) -> list[LingeringMessage]:
        """Take the messages away whose time is up."""
        late = [entry for entry in self.entries if entry.deadline <= now]
        self.entries = [entry for entry in self.entries if entry.deadline > now]
        return late


class Batch:
    """Messages that are sent together.

    Args:
        key: What they have in common.
        queue: Their queue; None for any.
        wait: Whether the broker answers only once they are stored safely, as the text of the property.
        timeout: Seconds for each of them.
        tries: The largest number of attempts.
        due: When the batch is sent even if it is not full, on the clock of the client.

    Attributes:
        entries: The messages.
        size: Bytes of their bodies.
        frame_size: Bytes that they take in the frame.
        is_awaited: Whether a caller waits for one of them. Then the batch is sent as soon as no other of its key is
            under way.
        launched: What was given to be sent, if messages may expire before that is answered.
    """

    __slots__ = (
        "due",
        "entries",
        "frame_size",
        "ids",
        "is_awaited",
        "key",
        "launched",
        "queue",
        "size",
        "timeout",
        "tries",
        "wait",
    )

    def __init__(self, key: Key, queue: MessageQueue | None, wait: str, timeout: float, tries: int, due: float) -> None:
        self.key = key
        self.queue = queue
        self.wait = wait
        self.timeout = timeout
        self.tries = tries
        self.due = due
        self.entries: list[LingeringMessage] = []
        self.ids: list[str] = []
        """The ids of the messages, once they have been sent."""
        self.size = 0
        self.frame_size = 0
        self.is_awaited = False
        self.launched: Outgoing | None = None

    def __len__(self) -> int:
        """The number of messages."""
        return len(self.entries)

    @property
    def first_deadline(self) -> float:
        """The deadline of the first message."""
        return self.entries[0].deadline

    def deadline(self, spread: float) -> float:
        """The deadline of the send: the first one if all are within `spread` seconds, otherwise the last one."""
        first, last = self.entries[0].deadline, self.entries[-1].deadline
        return first if last - first <= spread else last

    def expire(self, now: float) -> list[OutcomeSink]:
        """Returns the sinks of messages whose deadline has passed. The messages stay, and ignore their outcome."""
        late = [entry.sink for entry in self.entries if entry.deadline <= now and entry.sink is not _NOBODY]
        if late:
            self.entries = [each._replace(sink=_NOBODY) if each.deadline <= now else each for each in self.entries]
        return late

    def is_like(self, wait: str, timeout: float, tries: int) -> bool:
        """Whether a message to the same queue with these settings may join the batch."""
        return self.wait == wait and self.timeout == timeout and self.tries == tries

    def take_alike(self, inbox: deque[LingeringMessage], most: int, largest: int, most_in_frame: int) -> int:
        """Move messages into the batch as long as they are like the last one and leave room. Returns their number.

        Most messages are like the one before. To look for the batch of each would take longer than this loop.

        Args:
            inbox: Messages, from which they are taken.
            most: The largest number to take.
            largest: Bytes of bodies that the batch must remain below.
            most_in_frame: Bytes that it must not exceed in its frame.
        """
        entries = self.entries
        topic, _, _, head, _, _, queue, timeout, tries, _, waits = entries[-1]
        before, size, frame_size = len(entries), self.size, self.frame_size
        fixed = FIXED + len(head.properties)
        for _ in range(most):
            entry = inbox[0]
            own_topic, body, _, own_head, outgoing, _, own_queue, own_timeout, own_tries, _, own_waits = entry
            length = len(body)
            if (
                own_head is not head
                or own_topic != topic
                or own_queue is not queue
                or own_timeout != timeout
                or own_tries != tries
                or own_waits is not waits
                or outgoing is not None
                or size + length >= largest
                or frame_size + fixed + length > most_in_frame
            ):
                break
            entries.append(inbox.popleft())
            size += length
            frame_size += fixed + length
        self.size, self.frame_size = size, frame_size
        return len(entries) - before

    # --- encoding ----------------------------------------------------------------------------------------

    def outgoing(self, take_ids: Callable[[int], list[str]]) -> Outgoing | None:
        """The frame, without messages whose senders have given up; None if no message is left.

        Args:
            take_ids: Returns the given number of unique ids.
        """
        if True in [entry.sink.is_gone for entry in self.entries]:
            self._drop_gone()
        entries = self.entries
        if not entries:
            return None
        if not self.ids:
            self.ids = take_ids(len(entries))
            if any(entry.head.message_id for entry in entries):
                self.ids = [e.head.message_id or own for e, own in zip(entries, self.ids, strict=True)]
        first = entries[0]
        if len(entries) == 1:
            return self._alone(first)
        text = encode_properties({PropertyName.WAIT: self.wait})
        body = _joined_alike(entries, self.ids) or _joined(entries, _properties(entries, self.ids))
        message = _message(first.topic, body, 0, self.wait)
        return Outgoing(message, _SEND_BATCH, body, text, 0, ",".join(self.ids), is_batch=True, stands_in=True)

    def renewed(self, take_ids: Callable[[int], list[str]]) -> Outgoing:
        """The frame to send by now: one without the messages that have expired or were given up since it was made."""
        assert self.launched is not None
        if all(entry.sink.is_gone for entry in self.entries) or not any(entry.sink.is_gone for entry in self.entries):
            return self.launched
        made = self.outgoing(take_ids)
        return self.launched if made is None else made

    @property
    def is_unsent(self) -> bool:
        """Whether no connection has got the batch yet."""
        return self.launched is not None and self.launched.renew is not None

    def _alone(self, entry: LingeringMessage) -> Outgoing:
        if entry.outgoing is not None:
            self.ids = [entry.outgoing.message_id]
            return entry.outgoing
        [properties] = _properties([entry], self.ids)
        message = _message(entry.topic, entry.body, entry.flag, self.wait)
        is_plain, text = self.queue is None, properties.decode()
        return Outgoing(message, _SEND, entry.body, text, 0, self.ids[0], is_plain=is_plain, stands_in=True)

    def _drop_gone(self) -> None:
        kept = [number for number, entry in enumerate(self.entries) if not entry.sink.is_gone]
        self.entries = [self.entries[number] for number in kept]
        if self.ids:
            self.ids = [self.ids[number] for number in kept]

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches to be sent in place of a refused one."""
        middle = len(self.entries) // 2
        return self._with(slice(None, middle)), self._with(slice(middle, None))

    def _with(self, part: slice) -> Batch:
        made = Batch(self.key, self.queue, self.wait, self.timeout, self.tries, self.due)
        made.entries, made.ids = self.entries[part], self.ids[part]
        return made

    # --- outcomes ----------------------------------------------------------------------------------------

    def too_late(self) -> RequestTimeoutError:
        """The error of a message whose time is up before the batch was sent to its queue."""
        return unsent(
            RequestTimeoutError(
                f"the messages to {self.queue} before this one were not acknowledged within {self.timeout:g} s: "
                "nothing was sent; send it again later",
                timeout=self.timeout,
            )
        )

    def is_refused(self, outcome: Outcome) -> bool:
        """Whether a broker has refused a message of the batch as illegal, and the batch has more than one."""
        if len(self.entries) < 2 or not isinstance(outcome, BaseException):
            return False
        return isinstance(outcome, MessageIllegalError) or isinstance(outcome.__cause__, MessageIllegalError)

    def tell(self, outcome: Outcome) -> None:
        """Pass the outcome of each message to its sink."""
        entries = self.entries
        if isinstance(outcome, BaseException):
            entries[0].sink.hear(outcome)
            for entry in entries[1:]:
                entry.sink.hear(own_error(outcome))
        elif len(entries) == 1:
            entries[0].sink.hear(outcome)
        else:
            self._split(outcome)

    def _split(self, result: SendResult) -> None:
        """Pass each message its own result: the offsets of a batch are consecutive.

        A broker that stores a batch as one message returns a single id, and still one offset for each message.
        """
        ids = result.offset_message_id.split(",")
        if len(ids) != len(self.entries):
            ids = [result.offset_message_id] * len(self.entries)
        status, _, _, queue, offset, *rest = result
        fields = zip(repeat(status), self.ids, ids, repeat(queue), count(offset), *map(repeat, rest), strict=False)
        results = list(map(tuple.__new__, repeat(SendResult), fields))  # the class's own `__new__` takes twice as long
        sinks = [entry.sink for entry in self.entries]
        if len(set(map(type, sinks))) == 1:
            sinks[0].hear_all(sinks, results)
            return
        for sink, own_result in zip(sinks, results, strict=True):
            sink.hear(own_result)


def _message(topic: str, body: bytes, flag: int, wait: str) -> Message:
    """A message for the attempts of a send, because the user may have changed their own by now."""
    made = Message.__new__(Message)
    made.topic, made.body, made.flag = topic, body, flag
    made.wire_properties = {PropertyName.WAIT: wait}
    return made


def _properties(entries: Sequence[LingeringMessage], ids: Sequence[str]) -> list[bytes]:
    """The encoded properties of each message, with its id."""
    own = [(_ID % each).encode() for each in ids]
    if any(entry.head.message_id for entry in entries):
        own = [b"" if entry.head.message_id else each for entry, each in zip(entries, own, strict=True)]
    return [entry.head.properties + each for entry, each in zip(entries, own, strict=True)]


def _joined_alike(entries: Sequence[LingeringMessage], ids: Sequence[str]) -> bytes | None:
    """The body of the frame, if its messages differ only in bodies of one size and in new ids, as most do."""
    first = entries[0]
    head, flag, size, id_size = first.head, first.flag, len(first.body), len(ids[0])
    number = len(entries)
    bodies = [entry.body for entry in entries]
    if (
        head.message_id
        or [entry.head for entry in entries].count(head) != number
        or [entry.flag for entry in entries].count(flag) != number
        or list(map(len, bodies)).count(size) != number
        or list(map(len, ids)).count(id_size) != number
    ):
        return None
    before, _, after = (_ID % "%").encode().partition(b"%")
    properties_size = len(head.properties) + len(before) + id_size + len(after)
    start = _HEAD.pack(_HEAD.size + size + _LENGTH.size + properties_size, 0, 0, flag, size)
    middle = _LENGTH.pack(properties_size) + head.properties + before
    items = zip(repeat(start), bodies, repeat(middle), map(str.encode, ids), repeat(after), strict=False)
    return b"".join(chain.from_iterable(items))


def _joined(entries: Sequence[LingeringMessage], properties: Sequence[bytes]) -> bytes:
    """The body of the frame. Each part is made for all messages at once, so that the loops run in C."""
    bodies = [entry.body for entry in entries]
    body_sizes, sizes = list(map(len, bodies)), list(map(len, properties))
    fixed = _HEAD.size + _LENGTH.size
    totals = [fixed + size + body_size for size, body_size in zip(sizes, body_sizes, strict=True)]
    heads = map(_HEAD.pack, totals, repeat(0), repeat(0), [entry.flag for entry in entries], body_sizes)
    lengths = {size: _LENGTH.pack(size) for size in set(sizes)}
    items = zip(heads, bodies, map(lengths.__getitem__, sizes), properties, strict=True)
    return b"".join(chain.from_iterable(items))


def own_error(error: BaseException) -> BaseException:
    """A copy of an error for one message, because tracebacks would pile up on a shared one."""
    if not isinstance(error, RocketMQError):
        return error
    made = copy.copy(error)
    made.__cause__ = error.__cause__
    return made
