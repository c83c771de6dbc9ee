"""One file of a row of equally large files: written by position, read through a mapping.

It has its full size from the first moment and is zero where nothing was written. It knows nothing of records.
Plays the part of DefaultMappedFile.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from rocketpy.errors import StoreCorruptError

if TYPE_CHECKING:
    import struct
    from collections.abc import Callable

    from rocketpy.seams import File, MappedView, Storage

__all__ = ["MappedFile"]


class MappedFile:
    """A pre-sized file that begins at `start` of the row it belongs to.

    Attributes:
        path: Where it lies in the storage.
        start: Position of its first byte in the row; also its name.
        size: Bytes in it, written or not.
    """

    __slots__ = ("_file", "_is_held", "_on_open", "_storage", "_view", "path", "size", "start")

    def __init__(
        self, storage: Storage, path: str, start: int, size: int, on_open: Callable[[], None] | None = None
    ) -> None:
        self._storage = storage
        self._on_open = on_open
        self.path = path
        self.start = start
        self.size = size
        self._file: File | None = None
        self._view: MappedView | None = None
        self._is_held = False

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
        self._keep(file)

    def size_now(self, *, keep_open: bool) -> int:
        """Bytes that are there; less than its size in a file that a crash left short.

        Args:
            keep_open: Whether it will be read next.
        """
        size = (self._file or self._open()).size()
        if not keep_open:
            self.close()
        return size

    def write(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write `data` at `position` of the file; OSError when it would go beyond the end."""
        if position < 0 or position + len(data) > self.size:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), self.path)
        (self._file or self._open()).pwrite(data, position)

    def read(self, position: int, size: int) -> bytes:
        """Copy `size` bytes that were written before."""
        return (self._view or self._map()).read(position, size)

    def reader(self) -> Callable[[int, int], bytes]:
        """``read`` for many calls in a row; good until the file is closed."""
        return (self._view or self._map()).read

    def unpack(self, layout: struct.Struct, position: int) -> tuple[int, ...]:
        """Read a fixed layout that was written before."""
        return (self._view or self._map()).unpack(layout, position)

    def scan(self, position: int, size: int) -> bytes:
        """Copy what may never have been written. Past the mapping: reading a hole through one may take disk space.

        Raises:
            StoreCorruptError: The file has become shorter than it was.
        """
        data = (self._file or self._open()).pread(size, position)
        if len(data) < size and position + len(data) < self.size:
            raise self._cut_off(position + len(data))
        return data

    def _cut_off(self, size: int) -> StoreCorruptError:
        return StoreCorruptError(
            f"{self._storage.describe(self.path)} ends at {size} of {self.size} bytes: put the file back from a copy, "
            "or repair the store",
            path=self.path,
            offset=size,
        )

    def clear_from(self, position: int) -> bool:
        """Make everything from `position` on zero, without giving up the size. True when there was something."""
        return (self._file or self._open()).clear(position)

    def fetch(self, position: int, size: int) -> None:
        """Begin to bring a part into memory, without waiting for it."""
        (self._file or self._open()).fetch(position, size)

    def flush(self, *, apart: bool = False) -> None:
        """Return when what was written has reached the disk; may be called in a thread.

        Args:
            apart: Open the file anew for it, because the loop may close its own at any time.
        """
        if not apart:
            (self._file or self._open()).fdatasync()
            return
        file = self._storage.open(self.path)
        try:
            file.fdatasync()
        finally:
            file.close()

    def map_apart(self) -> MappedView:
        """A mapping of its own, for a thread while nobody else reads."""
        return (self._file or self._open()).map()

    def hold(self, view: MappedView) -> None:
        """Read through a mapping whose pages are kept in memory."""
        if self._view is not None:
            self._view.close()
        self._view, self._is_held = view, True

    def release(self) -> MappedView | None:
        """The mapping whose pages are kept in memory, to be closed; another one comes when it is needed."""
        if not self._is_held:
            return None
        view, self._view, self._is_held = self._view, None, False
        return view

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
        return self._keep(self._storage.open(self.path))

    def _keep(self, file: File) -> File:
        self._file = file
        if self._on_open is not None:
            self._on_open()
        return file

    def _map(self) -> MappedView:
        self._view = (self._file or self._open()).map()
        return self._view
