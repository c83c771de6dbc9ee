"""The items of the body of SEND_BATCH_MESSAGE, read column by column: flags, bodies and properties.

The items of a batch often have the same lengths, hundreds in a row: then all their heads are alike, and they are cut
with one call. Plays the part of the reading half of MessageDecoder.decodeMessages.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Generator, Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple, overload

from rocketpy.errors import MessageDecodeError

__all__ = ["FIXED_SIZE", "BatchColumns", "BatchItem", "columns_of", "decode_columns", "decode_columns_steps"]

_ITEM: Final = struct.Struct(">i8xii")
"""The head as it is read: whatever magic number and checksum say, nobody looks at them."""
_HEAD_SIZE: Final = _ITEM.size
_LENGTH_16: Final = struct.Struct(">h")
FIXED_SIZE: Final = _HEAD_SIZE + _LENGTH_16.size
"""Bytes of an item besides its body and its properties."""
_READ: Final = (*range(4), *range(12, 20))
"""Bytes of the head that are looked at."""
_STEP: Final = 256
"""Items that are decoded in one step."""
_FEW: Final = 8
"""So many alike are worth cutting at once."""
_PAUSE: Final = 32
"""So many items are read one by one before the next look whether those that follow are alike."""


class BatchItem(NamedTuple):
    """One message of a batch; topic, queue and flags are those of the request."""

    flag: int
    """The number that the producer set, signed, of 32 bits."""
    body: bytes
    """The body, as it travels."""
    properties: bytes
    """In their encoded form."""


class BatchColumns(Sequence[BatchItem]):
    """The items of a batch. It is a sequence of items, which are made when asked for.

    Args:
        flags: The flag of each item.
        bodies: Its body.
        properties: Its properties.

    Attributes:
        have_same_names: Whether the properties of all items are known to have the same names in the same places.
    """

    __slots__ = ("bodies", "flags", "have_same_names", "properties")

    def __init__(self, flags: list[int], bodies: list[bytes], properties: list[bytes]) -> None:
        self.flags = flags
        self.bodies = bodies
        self.properties = properties
        self.have_same_names = False

    def __len__(self) -> int:
        """The number of items."""
        return len(self.bodies)

    def __iter__(self) -> Iterator[BatchItem]:
        """The items one by one."""
        return map(BatchItem, self.flags, self.bodies, self.properties)

    @overload
    def __getitem__(self, at: int) -> BatchItem: ...
    @overload
    def __getitem__(self, at: slice) -> BatchColumns: ...

    def __getitem__(self, at: int | slice) -> BatchItem | BatchColumns:
        """One item, or columns with some of them."""
        if isinstance(at, slice):
            return BatchColumns(self.flags[at], self.bodies[at], self.properties[at])
        return BatchItem(self.flags[at], self.bodies[at], self.properties[at])


def columns_of(items: Sequence[BatchItem]) -> BatchColumns:
    """The columns of items, at least one."""
    flags, bodies, properties = zip(*items, strict=True)
    return BatchColumns(list(flags), list(bodies), list(properties))


def decode_columns(data: bytes, *, most: int = sys.maxsize) -> BatchColumns:
    """The items of a batch body, the first `most` of them.

    Raises:
        MessageDecodeError: the lengths in it do not add up.
    """
    items = BatchColumns([], [], [])
    _decode(data, 0, items, most)
    return items


def decode_columns_steps(data: bytes, *, most: int = sys.maxsize) -> Generator[None, None, BatchColumns]:
    """As `decode_columns`, some hundred items a step."""
    items = BatchColumns([], [], [])
    position = 0
    while position < len(data) and len(items) < most:
        position = _decode(data, position, items, min(most, len(items) + _STEP))
        yield
    return items


def _decode(data: bytes, position: int, items: BatchColumns, most: int) -> int:
    """Add items from a position on until there are so many of them. Returns where the next one begins."""
    flags, bodies, properties = items.flags, items.bodies, items.properties
    unpack, unpack_length = _ITEM.unpack_from, _LENGTH_16.unpack_from
    end, number, look_from = len(data), len(bodies), 0
    before: tuple[int, ...] = ()
    while number < most and position < end:
        if end - position < FIXED_SIZE:
            raise _bad_item(position, number)
        head = size, flag, body_size = unpack(data, position)
        item_end = position + size
        properties_at = position + FIXED_SIZE + body_size
        if body_size < 0 or properties_at > item_end or item_end > end:
            raise _bad_item(position, number)
        body_end = properties_at - 2
        if unpack_length(data, body_end)[0] != item_end - properties_at:  # never equal to a negative one
            raise _bad_item(position, number)
        if head == before and number >= look_from:
            alike = _alike(data, position, size, body_size, min((end - position) // size, most - number, _STEP))
            if alike >= _FEW:
                _cut(data, position, size, body_size, alike, bodies, properties)
                flags += [flag] * alike
                position += alike * size
                number += alike
                continue
            look_from = number + _PAUSE
        before = head
        flags.append(flag)
        bodies.append(data[position + _HEAD_SIZE : body_end])
        properties.append(data[properties_at:item_end])
        position = item_end
        number += 1
    return position


def _alike(data: bytes, position: int, size: int, body_size: int, most: int) -> int:
    """How many items in a row, of `most` that there is room for, have the lengths and the flag of the one that begins
    at a position.
    """
    read = *_READ, _HEAD_SIZE + body_size, _HEAD_SIZE + body_size + 1
    for count in (min(most, _FEW), most):  # most that are not alike are told by few
        found = count
        for at in read:
            column = data[position + at : position + found * size : size]
            found = len(column) - len(column.lstrip(column[:1]))
        if found < count or count == most:
            return found
    return most


def _cut(
    data: bytes, position: int, size: int, body_size: int, count: int, bodies: list[bytes], properties: list[bytes]
) -> None:
    """Add the bodies and the properties of items that are alike."""
    layout = struct.Struct(f"{_HEAD_SIZE}x{body_size}s{_LENGTH_16.size}x{size - FIXED_SIZE - body_size}s")
    found = layout.iter_unpack(memoryview(data)[position : position + count * size])  # of which no copy is made
    parts = list(chain.from_iterable(found))
    bodies += parts[0::2]
    properties += parts[1::2]


def _bad_item(position: int, count: int) -> MessageDecodeError:
    return MessageDecodeError(
        f"item {count} of a batch, at byte {position}, has lengths that do not add up", position=position
    )
