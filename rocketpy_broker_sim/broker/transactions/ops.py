"""The topic of the ends: which half messages have ended, as messages of offsets, in the form of Apache's broker. Pure.

The body of such a message is a list of offsets of the half topic, each followed by a comma; releases 4.x wrote a single
one without. Ends are gathered for a while, as the settings say, and written together. Plays the part of
MessageQueueOpContext, and of getOpMessage and fillOpRemoveMap in TransactionalMessageServiceImpl.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from rocketpy.message import PropertyName
from rocketpy.wire.names import TRANSACTION_OP_TOPIC
from rocketpy.wire.properties import encode_properties
from rocketpy_broker_sim.broker.transactions.half import HALF_QUEUE
from rocketpy_broker_sim.store.put_result import IncomingMessage

__all__ = ["REMOVE_TAG", "OpProgress", "PendingOps", "offsets_of", "op_message"]

REMOVE_TAG = "d"
_SEPARATOR = ","
_LONGEST_OFFSET = 19
"""Digits of the largest offset."""


def op_message(offsets: Sequence[int], born_timestamp: int, host: bytes) -> IncomingMessage:
    """The message that says that these half messages have ended."""
    return IncomingMessage(
        TRANSACTION_OP_TOPIC,
        HALF_QUEUE,
        "".join(f"{offset}{_SEPARATOR}" for offset in offsets).encode(),
        encode_properties({PropertyName.TAGS: REMOVE_TAG, PropertyName.WAIT: "true"}),
        born_timestamp=born_timestamp,
        born_host=host,
        store_host=host,
    )


def offsets_of(tag: str | None, body: bytes) -> list[int]:
    """The half messages that such a message speaks of; what is no offset is left out."""
    if tag != REMOVE_TAG:
        return []
    parts = body.split(_SEPARATOR.encode())
    return [int(part) for part in parts if part.isdigit() and len(part) <= _LONGEST_OFFSET]


class PendingOps:
    """Ends that are to be written."""

    def __init__(self) -> None:
        self._offsets: deque[int] = deque()
        self.size = 0
        """Bytes that a message with all of them would have."""

    def __len__(self) -> int:
        """How many."""
        return len(self._offsets)

    def add(self, offset: int) -> None:
        """A half message has ended."""
        self._offsets.append(offset)
        self.size += len(str(offset)) + 1

    def take(self, most: int) -> list[int]:
        """The first of them, as many as one message of so many bytes has room for, but one at least."""
        taken: list[int] = []
        size = 0
        while self._offsets and size < most:
            offset = self._offsets.popleft()
            taken.append(offset)
            size += len(str(offset)) + 1
        self.size -= size
        return taken

    def give_back(self, offsets: Sequence[int]) -> None:
        """What was taken could not be written."""
        self._offsets.extendleft(reversed(offsets))
        self.size += sum(len(str(offset)) + 1 for offset in offsets)


class OpProgress:
    """Up to where the messages of the ends are not needed any more: they speak only of what the window has passed.

    Attributes:
        next: Where the next one will stand.
    """

    def __init__(self) -> None:
        self.next = 0
        self._needed: deque[tuple[int, int]] = deque()
        """Offset of each message that is needed, and the highest half message that it speaks of."""

    def start(self, offset: int) -> None:
        """The first one that may be needed is at an offset."""
        self.next = offset
        self._needed.clear()

    def note(self, op_offset: int, offsets: Sequence[int], base: int) -> None:
        """There is one at an offset, which speaks of these half messages; the window begins at `base`."""
        highest = max(offsets, default=-1)
        if highest >= base:
            self._needed.append((op_offset, highest))
        self.next = max(self.next, op_offset + 1)

    def done(self, base: int) -> int:
        """The first one that is needed when the window begins at `base`."""
        while self._needed and self._needed[0][1] < base:
            self._needed.popleft()
        return self._needed[0][0] if self._needed else self.next
