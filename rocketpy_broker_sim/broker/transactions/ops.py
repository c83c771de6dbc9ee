"""Messages of the op topic, which say which half messages have ended, in the form of Apache's broker. Pure.

The body of an op message is a list of offsets in the half topic, each followed by a comma; releases 4.x wrote a single
offset without a comma. Plays the part of MessageQueueOpContext, and of getOpMessage and fillOpRemoveMap in
TransactionalMessageServiceImpl.
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
    """The op message that says that these half messages have ended."""
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
    """The offsets of half messages in an op message, skipping anything that is not an offset."""
    if tag != REMOVE_TAG:
        return []
    parts = body.split(_SEPARATOR.encode())
    return [int(part) for part in parts if part.isdigit() and len(part) <= _LONGEST_OFFSET]


class PendingOps:
    """Pending ends."""

    def __init__(self) -> None:
        self._offsets: deque[int] = deque()
        self.size = 0
        """The bytes of an op message with all of them."""

    def __len__(self) -> int:
        """The number of pending ends."""
        return len(self._offsets)

    def add(self, offset: int) -> None:
        """Add a half message that has ended."""
        self._offsets.append(offset)
        self.size += len(str(offset)) + 1

    def take(self, most: int) -> list[int]:
        """Take the first ends, as many as fit into `most` bytes, but at least one."""
        taken: list[int] = []
        size = 0
        while self._offsets and size < most:
            offset = self._offsets.popleft()
            taken.append(offset)
            size += len(str(offset)) + 1
        self.size -= size
        return taken

    def give_back(self, offsets: Sequence[int]) -> None:
        """Put back ends that could not be written."""
        self._offsets.extendleft(reversed(offsets))
        self.size += sum(len(str(offset)) + 1 for offset in offsets)


class OpProgress:
    """The progress in the op topic: op messages are no longer needed once the window has passed all of their offsets.

    Attributes:
        next: The offset of the next op message.
    """

    def __init__(self) -> None:
        self.next = 0
        self._needed: deque[tuple[int, int]] = deque()
        """The offset of each op message that is needed, with the highest half message in it."""

    def start(self, offset: int) -> None:
        """Start at the first op message that may be needed."""
        self.next = offset
        self._needed.clear()

    def note(self, op_offset: int, offsets: Sequence[int], base: int) -> None:
        """Note an op message with these half messages; the window begins at `base`."""
        highest = max(offsets, default=-1)
        if highest >= base:
            self._needed.append((op_offset, highest))
        self.next = max(self.next, op_offset + 1)

    def done(self, base: int) -> int:
        """The first op message that is needed if the window begins at `base`."""
        while self._needed and self._needed[0][1] < base:
            self._needed.popleft()
        return self._needed[0][0] if self._needed else self.next
