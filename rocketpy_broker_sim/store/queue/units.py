"""The units of a queue as bytes: which of them are in order, and which lead to the extension.

A unit has twenty bytes: position, size and tags code of one message.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

from rocketpy.wire.words import big_endian, long_array, words_of
from rocketpy_broker_sim.config.store import UNIT_SIZE
from rocketpy_broker_sim.store.queue.consume_queue_ext import is_address

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rocketpy_broker_sim.store.disk.mapped_file import MappedFile

__all__ = [
    "FEW",
    "FILLER_SIZE",
    "STEP",
    "UNIT",
    "first_address",
    "last_address",
    "pack_code",
    "pack_units",
    "positions_of",
    "sound_units",
    "units_in_order",
]

UNIT = struct.Struct(">qiq")
FILLER_SIZE = 0x7FFFFFFF
"""Of a unit that stands for no message."""
STEP = 3200 * UNIT_SIZE
FEW = 32 * UNIT_SIZE
_CODE = struct.Struct(">q")
_WORDS = UNIT_SIZE // 4
"""Words of 32 bits in a unit: position, which takes two, size, and tags code, which takes two."""
_AT_CODE = 12
"""Where the tags code stands in a unit."""
_FIRST_BYTE = 0x80
"""Of every address: no extension grows to 2 ** 56 bytes."""


def sound_units(file: MappedFile, most: int) -> int:
    """How many of the first units of a file are in order: none of them empty, and positions only ever grow."""
    count, begin, step, before = 0, 0, FEW, -1
    size = min(most * UNIT_SIZE, file.size)
    while begin < size:
        for position, length, _ in UNIT.iter_unpack(file.read(begin, min(step, size - begin))):
            if length <= 0 or position < 0 or (length != FILLER_SIZE and position <= before):
                return count
            if length != FILLER_SIZE:
                before = position
            count += 1
        begin, step = begin + step, STEP
    return count


def units_in_order(file: MappedFile) -> int:
    """The same after a clean stop, when all units stand before all that is empty."""
    head = file.read(0, min(STEP // 16, file.size))
    count = len(head) // UNIT_SIZE
    within = bisect_left(range(count), 1, key=lambda index: _is_empty(UNIT.unpack_from(head, index * UNIT_SIZE)))
    if within < count:
        return within
    units = range(count, file.size // UNIT_SIZE)
    return count + bisect_left(
        units, 1, key=lambda index: _is_empty(UNIT.unpack(file.read(index * UNIT_SIZE, UNIT_SIZE)))
    )


def _is_empty(unit: tuple[int, int, int]) -> bool:
    return unit[0] < 0 or unit[1] <= 0


def last_address(units: bytes) -> tuple[int, int] | None:
    """Number and address of the last of these units that leads to an entry; None when none does."""
    firsts = units[_AT_CODE::UNIT_SIZE]
    end = len(firsts)
    while (index := firsts.rfind(_FIRST_BYTE, 0, end)) >= 0:
        (code,) = _CODE.unpack_from(units, index * UNIT_SIZE + _AT_CODE)
        if is_address(code):
            return index, code
        end = index
    return None


def first_address(units: bytes) -> int | None:
    """The address in the first of these units that leads to an entry; None when none does."""
    firsts = units[_AT_CODE::UNIT_SIZE]
    index = -1
    while (index := firsts.find(_FIRST_BYTE, index + 1)) >= 0:
        (code,) = _CODE.unpack_from(units, index * UNIT_SIZE + _AT_CODE)
        if is_address(code):
            return int(code)
    return None


def pack_code(units: bytearray, index: int, code: int) -> None:
    """Let one of these units have another tags code."""
    _CODE.pack_into(units, index * UNIT_SIZE + _AT_CODE, code)


def pack_units(positions: array[int], sizes: array[int], codes: Sequence[int]) -> bytes:
    """The units of many messages, given by arrays of long and of int, and tags codes."""
    words = array("i", bytes(UNIT_SIZE * len(positions)))
    words[0::_WORDS], words[1::_WORDS] = words_of(positions)
    words[2::_WORDS] = sizes
    if any(codes):
        words[3::_WORDS], words[4::_WORDS] = words_of(long_array(codes))
    return big_endian(words).tobytes()


def positions_of(units: bytes) -> array[int]:
    """The positions in units."""
    words = array("i", units)
    found = array("i", bytes(8 * (len(words) // _WORDS)))
    found[0::2] = words[0::_WORDS]
    found[1::2] = words[1::_WORDS]
    return big_endian(array("q", found.tobytes()))
