"""One file of a row of equally large files: written by position, read through a mapping.

It has its full size from the first moment and is zero where nothing was written. It knows nothing of records.
Plays the part of DefaultMappedFile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import struct

    from rocketpy.seams import File, MappedView, Storage

__all__ = ["MappedFile"]


class MappedFile:
    """A pre-sized file that begins at `start` of the row it belongs to.

    Attributes:
        path: Where it lies in the storage.
        start: Position of its first byte in the row; also its name.
        size: Bytes in it, written or not.
    """

    __slots__ = ("_file", "_storage", "_view", "path", "size", "start")

    def __init__(self, storage: Storage, path: str, start: int, size: int) -> None:
        self._storage = storage
        self.path = path
        self.start = start
        self.size = size
        self._file: File | None = None
        self._view: MappedView | None = None

    @property
    def end(self) -> int:
        """Position in the row behind its last byte."""
        return self.start + self.size

    def create(self) -> None:
        """Make the file, or bring one that a crash left short to its size."""
        file = self._storage.open(self.path, create=True)
        try:
            file.truncate(self.size)
        except OSError:
            file.close()
            raise
        self._file = file

    def write(self, data: bytes | bytearray, position: int) -> None:
        """Write `data` at `position` of the file."""
        (self._file or self._open()).pwrite(data, position)

    def read(self, position: int, size: int) -> bytes:
        """Copy `size` bytes that were written before."""
        return (self._view or self._map()).read(position, size)

    def unpack(self, layout: struct.Struct, position: int) -> tuple[int, ...]:
        """Read a fixed layout that was written before."""
        return (self._view or self._map()).unpack(layout, position)

    def scan(self, position: int, size: int) -> bytes:
        """Copy what may never have been written. Past the mapping: reading a hole through one may take disk space."""
        return (self._file or self._open()).pread(size, position)

    def clear_from(self, position: int) -> bool:
        """Make everything from `position` on zero, without giving up the size. True when there was something."""
        return (self._file or self._open()).clear(position)

    def flush(self) -> None:
        """Return when what was written has reached the disk; may be called in a thread."""
        (self._file or self._open()).fdatasync()

    def close(self) -> None:
        """Give mapping and file up; both come back when they are needed."""
        if self._view is not None:
            self._view.close()
            self._view = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def delete(self) -> None:
        """Close and remove the file."""
        self.close()
        self._storage.unlink(self.path)

    def _open(self) -> File:
        self._file = self._storage.open(self.path)
        return self._file

    def _map(self) -> MappedView:
        self._view = (self._file or self._open()).map()
        return self._view
