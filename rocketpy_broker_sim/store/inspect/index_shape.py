"""How many slots and entries the index files of a store have: no file says it, but the content agrees with one pair.

The settings decide where there are any; then Java's defaults and its ratio of one to four are tried, and at last every
number of slots at which the last entry stands where the header says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rocketpy_broker_sim.store.index.file import ENTRY, FOLDER, SLOT, IndexHeader, IndexShape

if TYPE_CHECKING:
    from rocketpy_broker_sim.store.inspect.layout import StoreLayout

__all__ = ["HEADER_SIZE", "shape_of", "store_shape"]

HEADER_SIZE = len(IndexHeader().pack())
_DEFAULT = IndexShape(5_000_000, 20_000_000)
_POSITION = struct.Struct(">q")
_SAMPLE = 100
_WINDOW = 4 * 1024 * 1024


def store_shape(layout: StoreLayout) -> IndexShape | None:
    """The shape of the index files of a store; None when there are none, or none tells."""
    if layout.has_settings:
        return IndexShape.of(layout.config)
    return next(filter(None, (shape_of(layout, name) for name in layout.index)), None)


def shape_of(layout: StoreLayout, name: str) -> IndexShape | None:
    """The shape of one file, by the settings or by its content; None when nothing agrees.

    Raises:
        StoreError: It cannot be read.
    """
    if layout.has_settings:
        return IndexShape.of(layout.config)
    own = _Detection(layout, f"{FOLDER}/{name}")
    return own.shape() or next((shape for shape in own.shapes_of_others() if shape.size == own.size), None)


class _Detection:
    """The content of one file, while its shape is looked for.

    Attributes:
        size: Bytes in it.
    """

    def __init__(self, layout: StoreLayout, path: str) -> None:
        self._layout = layout
        self._opened = layout.opened
        self._path = path
        self.size = layout.opened.size(path)

    def shapes_of_others(self) -> Iterator[IndexShape]:
        """The shapes of the other files, which were made with the same settings."""
        for name in self._layout.index:
            shape = _Detection(self._layout, f"{FOLDER}/{name}").shape()
            if shape is not None:
                yield shape

    def shape(self) -> IndexShape | None:
        """The shape that the content agrees with best; None when it agrees with none."""
        data = self._opened.read(self._path, HEADER_SIZE, 0)
        if len(data) < HEADER_SIZE:
            return None
        self._header = IndexHeader.unpack(data)
        best, most = None, 0.75
        for shape in self._candidates():
            fitting = self._agreement(shape)
            if fitting > most:
                best, most = shape, fitting
            if most > 1:
                break
        return best

    def _candidates(self) -> Iterator[IndexShape]:
        if _DEFAULT.size == self.size:
            yield _DEFAULT
        slots, rest = divmod(self.size - HEADER_SIZE, SLOT.size + 4 * ENTRY.size)
        if not rest and slots:
            yield IndexShape(slots, 4 * slots)
        yield from self._by_last_entry()

    def _by_last_entry(self) -> Iterator[IndexShape]:
        """Shapes by which the last entry holds the position that the header calls the last."""
        header = self._header
        if header.next_entry < 2 or header.end_position <= 0:
            return
        wanted = _POSITION.pack(header.end_position)
        before = HEADER_SIZE + (header.next_entry - 1) * ENTRY.size + 4
        for base in range(0, self.size, _WINDOW):
            window = self._opened.read(self._path, _WINDOW + len(wanted) - 1, base)
            hit = window.find(wanted)
            while hit >= 0:
                slots, rest = divmod(base + hit - before, SLOT.size)
                entries, left = divmod(self.size - HEADER_SIZE - slots * SLOT.size, ENTRY.size)
                if slots > 0 and not rest and not left:
                    yield IndexShape(slots, entries)
                hit = window.find(wanted, hit + 1)

    def _agreement(self, shape: IndexShape) -> float:
        """How much of the content fits a shape; more than one when nothing contradicts it.

        Not all must fit: a damaged slot or entry shall not hide the shape of the others.
        """
        count = self._header.next_entry
        if shape.size != self.size or count > shape.entries:
            return 0
        if count < 2:
            return 2
        data = self._opened.read(self._path, min(count - 1, _SAMPLE) * ENTRY.size, shape.entries_at + ENTRY.size)
        entries = list(enumerate(ENTRY.iter_unpack(data), 1))
        hashes = [0, *(entry[0] for _, entry in entries)]
        fitting = sum(self._fits(shape, number, hashes, entry[3]) for number, entry in entries)
        begins = entries[0][1][1:3] == (self._header.begin_position, 0)
        return (fitting + begins) / len(entries)

    def _fits(self, shape: IndexShape, number: int, hashes: list[int], previous: int) -> bool:
        """Whether an entry leads to an older one of its slot, and its slot leads to it or a newer one."""
        hashed = hashes[number]
        if hashed < 0 or not 0 <= previous < number:
            return False
        if previous and hashes[previous] % shape.slots != hashed % shape.slots:
            return False
        slot = self._opened.read(self._path, SLOT.size, HEADER_SIZE + hashed % shape.slots * SLOT.size)
        return number <= int.from_bytes(slot, "big", signed=True) < self._header.next_entry
