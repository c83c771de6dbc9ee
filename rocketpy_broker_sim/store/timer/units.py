"""The rows of the timer's files: units of the log and slots of the wheel, as Apache's broker writes them.

A unit of the log has the position of a message in the commit log, the time at which it is due, and the position of the
previous unit of the same slot. A slot of the wheel stands for one tick (a second, with the default precision) and has
the position of its last unit. Plays the part of Slot and of the layout in TimerLog.
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
"""The position of the unit before the first one of a slot."""

PLAIN: Final = 1
"""The kind of every unit: a message."""
ROLL: Final = 2
"""The message is due beyond the window: it goes through the timer once more."""
DELETE: Final = 4
"""It recalls another message."""
_KINDS: Final = 0xF

_UNIT: Final = struct.Struct(">iqiqiqiiq")
_SLOT: Final = struct.Struct(">qqqii")
_BLANK: Final = struct.Struct(">iqi")


class TimerUnit(NamedTuple):
    """One row of the timer log.

    Attributes:
        previous: Position of the previous unit of its slot; NOWHERE for the first one.
        kind: PLAIN, with ROLL and DELETE.
        written_ms: The tick in which it was written, ms since 1970.
        delay_ms: The time from there to the tick in which it is due.
        position: The position of the message in the commit log.
        size: Bytes of its record.
        topic_hash: Java's hash of its real topic.
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
        """Whether the message only goes through the timer once more."""
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
        """The row that begins at an offset; None if there is none."""
        size, *fields, _ = _UNIT.unpack_from(data, at)
        unit = cls(*fields)
        return unit if size == UNIT_SIZE and unit.kind | _KINDS == _KINDS else None


class Slot(NamedTuple):
    """One tick of the wheel.

    Attributes:
        tick: Its number: ms since 1970, divided by the precision.
        first: Position of its first unit.
        last: Position of its last unit.
        messages: The number of its messages, without recalled ones.
        magic: A field of Apache's broker without use.
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
        """The rows in these bytes, in order."""
        return map(cls._make, _SLOT.iter_unpack(data))


def encode_blank(rest: int) -> bytes:
    """The filler for the rest of a file; it is marked as in the commit log."""
    filler: bytes = _BLANK.pack(rest, 0, BLANK_MAGIC)
    return filler
