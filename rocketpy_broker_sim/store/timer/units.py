"""The two kinds of rows that the timer keeps: units of its log and slots of its wheel, as Apache's broker writes them.

A unit of the log says of one message in the commit log when it is due, and where the unit before it stands that belongs
to the same slot. A slot of the wheel is one tick (a second, unless the precision is another) and says where the last
of its units stands. Plays the part of Slot and of the layout in TimerLog.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from rocketpy.wire.record import BLANK_MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BLANK_SIZE",
    "DELETE",
    "NOWHERE",
    "PLAIN",
    "ROLL",
    "SLOT_SIZE",
    "UNIT_SIZE",
    "Slot",
    "TimerUnit",
    "encode_blank",
]

UNIT_SIZE: Final = 52
BLANK_SIZE: Final = 16
"""Bytes of a filler that are written; its length field covers the rest of the file."""
SLOT_SIZE: Final = 32
NOWHERE: Final = -1
"""Stands for the unit before the first one of a slot."""

PLAIN: Final = 1
"""In the kind of every unit: a message."""
ROLL: Final = 2
"""The message is due beyond the window: it goes through the timer once more before it is."""
DELETE: Final = 4
"""It recalls another message."""
_KINDS: Final = 0xF

_UNIT: Final = struct.Struct(">iqiqiqiiq")
_SLOT: Final = struct.Struct(">qqqii")
_BLANK: Final = struct.Struct(">iqi")


class TimerUnit(NamedTuple):
    """One row of the timer log.

    Attributes:
        previous: Position of the unit before it in its slot; NOWHERE for the first one.
        kind: PLAIN, with ROLL and DELETE.
        written_ms: The tick in which it was written, ms since 1970.
        delay_ms: From there to the tick in which it is due.
        position: Where the record of the message stands in the commit log.
        size: Bytes of that record.
        topic_hash: Java's hash of the topic that the message is for.
    """

    previous: int
    kind: int
    written_ms: int
    delay_ms: int
    position: int
    size: int
    topic_hash: int

    @property
    def due_ms(self) -> int:
        """A time in the slot that it belongs to, ms since 1970."""
        return self.written_ms + self.delay_ms

    @property
    def rolls(self) -> bool:
        """Whether it only goes through the timer once more."""
        return self.kind & ROLL != 0

    @property
    def deletes(self) -> bool:
        """Whether it recalls a message of its slot."""
        return self.kind & (DELETE | ROLL) == DELETE

    def encode(self) -> bytes:
        """The row."""
        return _UNIT.pack(UNIT_SIZE, *self, 0)

    @classmethod
    def decode(cls, data: bytes | memoryview, at: int = 0) -> TimerUnit | None:
        """The row that begins there; None when none does."""
        size, *fields, _ = _UNIT.unpack_from(data, at)
        unit = cls(*fields)
        return unit if size == UNIT_SIZE and unit.kind | _KINDS == _KINDS else None


class Slot(NamedTuple):
    """One tick of the wheel.

    Attributes:
        tick: Which one: ms since 1970, divided by the precision.
        first: Position of its first unit.
        last: Position of its last unit.
        messages: How many messages it has; recalled ones are taken off.
        magic: Apache's broker keeps it, and nobody uses it.
    """

    tick: int
    first: int
    last: int
    messages: int
    magic: int = 0

    def encode(self) -> bytes:
        """The row."""
        return _SLOT.pack(*self)

    @classmethod
    def decode_all(cls, data: bytes) -> Iterator[Slot]:
        """The rows of a stretch, in order."""
        return map(cls._make, _SLOT.iter_unpack(data))


def encode_blank(rest: int) -> bytes:
    """The filler for what is left of a file; it is marked as in the commit log."""
    filler: bytes = _BLANK.pack(rest, 0, BLANK_MAGIC)
    return filler
