"""One file of a row of equally large files: written and read by position.

It has its full size from the first moment and is zero where nothing was written. It knows nothing of records. Nothing
is read through a mapping: a file that was cut, or a disk that is full or broken, is then an error to be told, and not
the end of the process (SIGBUS).
Plays the part of DefaultMappedFile.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from rocketpy.errors import StoreCorruptError
from rocketpy_broker_sim.store.disk.failure import NotBegunError, opening

if TYPE_CHECKING:
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

    __slots__ = ("_asked", "_file", "_held", "_lost", "_on_open", "_storage", "_writes", "path", "size", "start")

    def __init__(
        self, storage: Storage, path: str, start: int, size: int, on_open: Callable[[], None] | None = None
    ) -> None:
        self._storage = storage
        self._on_open = on_open
        self.path = path
        self.start = start
        self.size = size
        self._file: File | None = None
        self._held: MappedView | None = None
        self._writes = self._asked = 0  # how often it was written, and at how many of those the disk had it
        self._lost: OSError | None = None  # with what a close failed after writes that the disk did not have

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
        self._writes += 1  # after it: a thread that flushes meanwhile must not count it

    def read(self, position: int, size: int) -> bytes:
        """Copy `size` bytes, fewer at the end of the file; zeros where nothing was written.

        Raises:
            OSError: The disk refused.
            StoreCorruptError: The file has become shorter than it was.
        """
        file = self._file or self._open()
        data = file.pread(size, position)
        if len(data) < size and position + len(data) < self.size:
            raise self._cut_off(file.size())
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
        was_changed = (self._file or self._open()).clear(position)
        self._writes += was_changed
        return was_changed

    def fetch(self, position: int, size: int) -> None:
        """Begin to bring a part into memory, without waiting for it."""
        (self._file or self._open()).fetch(position, size)

    def flush(self, *, apart: bool = False) -> None:
        """Return when what was written has reached the disk; may be called in a thread.

        Args:
            apart: Open the file again for it, because the loop may close its own at any time.

        Raises:
            NotBegunError: It could not be opened; nothing is lost by that.
            OSError: What the disk has is not known any more.
        """
        self.check()
        with opening():
            file = self._storage.open(self.path) if apart else self._file or self._open()
        writes = self._writes
        try:
            file.fdatasync()
            self._asked = writes
        except InterruptedError as exc:
            raise NotBegunError(exc.errno, exc.strerror, self.path) from exc  # what it says of the data comes next time
        finally:
            if apart:
                file.close()

    def check(self) -> None:
        """Tell of a close that lost what was written: the sync that comes after it may know nothing of that.

        Raises:
            OSError: There was one; what the disk has is not known any more.
        """
        if self._lost is not None:
            raise self._lost

    def map_apart(self) -> MappedView:
        """A mapping of its own, whose pages can be kept in memory."""
        return (self._file or self._open()).map()

    def hold(self, view: MappedView) -> None:
        """Keep a mapping, and so its pages in memory, as long as the file is in use."""
        if self._held is not None:
            self._held.close()
        self._held = view

    def release(self) -> MappedView | None:
        """The mapping that keeps the pages in memory, to be closed; None without one."""
        view, self._held = self._held, None
        return view

    def close(self) -> None:
        """Close the file; it is opened again when it is needed.

        An error matters to the next flush alone, and only when the disk has not said that it has what was written.
        """
        if self._held is not None:
            self._held.close()
            self._held = None
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.close()
        except OSError as exc:
            if self._writes != self._asked:
                self._lost = exc

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
